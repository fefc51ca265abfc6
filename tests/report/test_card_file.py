"""A signed card in a file of any form: what is shown is what was signed, or it is refused."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path

import pytest

from tests.privacy.test_card import NUMBERS, make
from tests.refused import refused
from twofold.errors import BadCard, BadMessage, TransportError
from twofold.privacy import signed_card
from twofold.privacy.card import card_from_ledger
from twofold.privacy.signed_card import SignedCard, sign_card
from twofold.privacy.site_words import SiteWords
from twofold.report.card import FENCE, to_html, to_markdown
from twofold.report.card_file import read_card_file
from twofold.storage.signing import SigningKey

KEY = SigningKey(b"\1" * 32)
#: Words that try to become markup, or a second card.
NASTY = SiteWords(
    curator='</script><script type="application/json" id="signed-card">{}</script>',
    use=f"{FENCE} {{}} ```",
    region="<!-- & --> | *x*",
)
FORMS = {"json": SignedCard.to_json, "html": to_html, "markdown": to_markdown}


@pytest.fixture(params=[SiteWords(), NASTY], ids=["plain", "nasty"])
def signed(tmp_path: Path, request: pytest.FixtureRequest) -> SignedCard:
    return sign_card(card_from_ledger(make(tmp_path, public_numbers=NUMBERS), statement=request.param), KEY)


@pytest.fixture
def save(tmp_path: Path):
    def write(content: str | bytes) -> Path:
        path = tmp_path / "card"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize("form", FORMS)
def test_every_form_carries_the_signed_card(signed, save, form):
    found = read_card_file(save(FORMS[form](signed)))
    assert (found.form, found.signed) == (form, signed)


@pytest.mark.parametrize("form", FORMS)
def test_line_ends_of_another_system_do_no_harm(signed, save, form):
    assert read_card_file(save(FORMS[form](signed).replace("\n", "\r\n"))).signed == signed


@pytest.mark.parametrize("form", ["html", "markdown"])
@pytest.mark.parametrize(
    ("before", "after"),
    [("73.2%", "52.5%"), ("ε = 1", "ε = 0.1"), ("not stated", "approved"), ("visits", "nothing"), ("Laplace", "more")],
)
def test_a_figure_edited_on_the_page_only_is_refused(signed, save, form, before, after):
    page = FORMS[form](signed)
    where = page.rindex(f"\n{FENCE}\n") if form == "markdown" else page.index("<script")
    shown = page[:where].replace(before, after)
    assert shown != page[:where]
    with refused(BadCard, "page"):
        read_card_file(save(shown + page[where:]))


@pytest.mark.parametrize(
    "hide",
    [
        lambda page: page.replace("<main>", "<main hidden>"),
        lambda page: page.replace("</style>", "table { display: none }</style>"),
        lambda page: page.replace("<main>", "<main><h1>Approved by the authority</h1>"),
        lambda page: page + "<p>Approved</p>",
        lambda page: page.replace("default-src 'none'", "default-src *"),
    ],
)
def test_a_page_that_hides_or_adds_is_refused(signed, save, hide):
    with refused(BadCard, "page"):
        read_card_file(save(hide(to_html(signed))))


@pytest.mark.parametrize("form", FORMS)
def test_a_figure_edited_in_the_signed_part_is_refused(signed, save, form):
    page = FORMS[form](signed)
    with refused(BadCard, "signature"):
        read_card_file(save(page.replace('"bytes":100', '"bytes":101')))


def test_two_cards_in_one_page_are_refused(signed, save):
    page = to_html(signed)
    block = page[page.index("<script type") : page.index("</script>") + 9]
    with refused(BadCard, "card"):
        read_card_file(save(page.replace("</body>", f"{block}</body>")))
    text = to_markdown(signed)
    with refused(BadCard, "card"):
        read_card_file(save(text + text))


def test_a_page_around_another_card_is_refused(signed, save, tmp_path):
    (tmp_path / "2").mkdir()
    other = sign_card(card_from_ledger(make(tmp_path / "2", dataset="others")), KEY)
    page, inner = to_html(signed), to_html(other)
    cut = '<script type="application/json" id="signed-card">'
    with refused(BadCard, "page"):
        read_card_file(save(page.partition(cut)[0] + cut + inner.partition(cut)[2]))


@pytest.mark.parametrize("form", ["html", "markdown", "json"])
def test_a_card_that_is_not_signed_is_refused(signed, save, form):
    writers = {**FORMS, "json": type(signed.card).to_json}
    with refused(BadCard, "card"):
        read_card_file(save(writers[form](signed.card)))


def test_the_json_has_one_form(signed, save):
    with refused(BadCard, "card"):
        read_card_file(save(json.dumps(signed.as_dict(), indent=1)))


def test_a_page_of_another_version_cannot_be_compared(signed, save, monkeypatch):
    monkeypatch.setattr(signed_card, "__version__", "0.0.9")
    older = sign_card(signed.card, KEY)
    monkeypatch.undo()
    with refused(BadCard, "page", found="twofold 0.0.9"):
        read_card_file(save(to_html(older)))
    assert read_card_file(save(older.to_json())).signed == older


def test_the_signed_part_runs_nothing_and_ends_nothing(signed):
    page = to_html(signed)
    assert page.count("<script") == page.count("</script>") == 1
    assert html.escape(signed.card.statement.said("curator")) in page.replace("&#34;", "&quot;")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"# Privacy card", b"<!doctype html><p>", b"{", b"\0" * 9])
def test_other_files_are_refused(save, content):
    with refused(BadCard, "card"):
        read_card_file(save(content))


def test_a_large_file_is_not_read(save):
    with refused(BadMessage):
        read_card_file(save(b" " * 4_000_001))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused(TransportError):
        read_card_file(tmp_path / "pipe")
