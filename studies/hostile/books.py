"""Hostile ledgers, statements, cards, words of a site, and files of a coordinator."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from studies.hostile.insider import (
    SIGNER,
    edited_page,
    resign_card,
    resign_head,
    resign_message,
    resign_statement,
)
from studies.hostile.plans import factors, plan, release
from studies.hostile.registry import Parser, register
from tests.hostile import ledger as hostile
from twofold.errors import LedgerBroken
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import ROUNDS
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger, Statement
from twofold.privacy.ledger.head import head_of, signed
from twofold.privacy.ledger.record import read_chain
from twofold.privacy.signed_card import SignedCard, check_ledger, sign_card
from twofold.privacy.site_words import SiteWords, read_audit, read_site_words
from twofold.report.card import to_html, to_markdown
from twofold.report.card_file import read_card_file
from twofold.server.state import FolderState
from twofold.storage.container import receipt
from twofold.storage.files import read_limited

__all__: list[str] = []

_MOST: Final = 1 << 30


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A ledger with releases of three kinds, signed, kept as long as the process lives."""
    place = tempfile.TemporaryDirectory()
    hostile.template(Path(place.name, hostile.NAME), signer=SIGNER)
    return place


def _original() -> Path:
    return Path(_folder().name, hostile.NAME)


def _use_ledger(path: Path) -> object:
    """Open a ledger whose head fits and is signed, as somebody would leave it who edits both."""
    content = read_limited(path, _MOST)
    chain = read_chain(content)
    dataset = chain.records[0].body.get("dataset") if chain.records else None
    head = head_of(chain)
    if isinstance(dataset, str):
        with suppress(UnicodeError):
            head = signed(head, dataset, SIGNER)
    path.with_name(path.name + ".head").write_bytes(head.encode())
    state = Ledger(path).state()
    used: list[object] = [_properties(state), state.as_dict(), *map(_properties, state.entries)]
    used.append(card_from_ledger(Ledger(path)).to_json())
    with suppress(LedgerBroken):  # the stored releases are not beside it
        Ledger(path).verify()
    return used


def _properties(one: object) -> list[object]:
    """Everything that can be asked of an object; most of it is computed only then."""
    return [getattr(one, name) for name in dir(type(one)) if isinstance(getattr(type(one), name), property)]


def _use_head(path: Path) -> object:
    path.with_name("x.ledger").write_bytes(_original().read_bytes())
    return Ledger(path.with_name("x.ledger")).state()


def _use_statement(path: Path) -> object:
    told = Statement(path)
    verdict = told.verify(key=SIGNER.public)
    made = card_from_ledger(told)
    return verdict, told.state().as_dict(), to_markdown(made)


def _use_folder(path: Path) -> object:
    """The file holds the number of a case of `tests.hostile.ledger`, which damages a whole folder."""
    text = read_limited(path, 20).decode(errors="replace")
    place = path.parent / "copy"
    shutil.copytree(_original().parent, place)
    if text.isascii() and text.isdigit() and int(text):
        kinds = [change for _, change in hostile.cases(seed=int(text), n=10)]
        kinds[int(text) % 10](place / hostile.NAME)
    try:
        Ledger(place / hostile.NAME).verify(key=SIGNER.public)
    finally:
        hostile.explore(place / hostile.NAME)
    return None


register(
    Parser(
        name="ledger",
        form="chain",
        samples=lambda: [_original().read_bytes()],
        parse=_use_ledger,
        file="book.ledger",
        sealed=True,
    )
)
register(
    Parser(
        name="ledger head",
        form="json",
        samples=lambda: [_original().with_name(hostile.NAME + ".head").read_bytes()],
        parse=_use_head,
        file="x.ledger.head",
        insider=resign_head,
        sealed=True,
    )
)
register(
    Parser(
        name="ledger statement",
        form="lines",
        samples=lambda: [Ledger(_original(), signer=SIGNER).statement()],
        parse=_use_statement,
        insider=resign_statement,
        sealed=True,
    )
)


def another_case(_: bytes, chance: random.Random) -> bytes:
    """The number of a damaged folder."""
    return str(chance.randrange(1, 10**9)).encode()


register(
    Parser(
        name="ledger folder",
        form="number",
        samples=lambda: [b"0"],
        parse=_use_folder,
        changes=(another_case,),
        opens=False,
        sealed=True,
    )
)


@cache
def _card() -> SignedCard:
    words = SiteWords(curator="St. Anna", use='</script> | ``` {"a": 1} <!-- & -->', dpia="2027-3")
    return sign_card(card_from_ledger(Ledger(_original()), statement=words), SIGNER, at="2027-01-31T12:00:00Z")


def _use_card(path: Path) -> object:
    found = read_card_file(path)
    found.signed.check_key(SIGNER.public)
    used = (found.signed.to_json(), to_html(found.signed), to_markdown(found.signed), to_markdown(found.signed.card))
    check_ledger(found.signed, Ledger(_original()))
    return used


register(
    Parser(
        name="card.json",
        form="json",
        samples=lambda: [_card().to_json().encode()],
        parse=_use_card,
        insider=resign_card,
        sealed=True,
    )
)
for _form, _write in (("html", to_html), ("md", to_markdown)):
    register(
        Parser(
            name=f"card.{_form}",
            form="bytes",
            samples=lambda write=_write: [write(_card()).encode()],  # type: ignore[misc]
            parse=_use_card,
            changes=(edited_page,),
            sealed=True,
        )
    )

_WORDS: Final = b'curator = "St. Anna"\ncurator_type = "Nonprofit"\nuse = "drugs"\nadvice = "none"\n'
_AUDIT: Final = {
    "schema": "twofold.audit/1",
    "at": "2026-05-03T10:00:00Z",
    "software": "twofold 1",
    "passed": True,
    "findings": [{"broken": False, "as_expected": True}, {"broken": True, "as_expected": True}],
}


def _use_words(path: Path) -> object:
    words = read_site_words(path)
    return to_html(card_from_ledger(Ledger(_original()), statement=words))


def _use_audit(path: Path) -> object:
    found = read_audit(path)
    return found.said("twofold 1"), to_html(card_from_ledger(Ledger(_original()), audit=found))


register(Parser(name="site words", form="toml", samples=lambda: [_WORDS], parse=_use_words, file="site.toml"))
register(Parser(name="audit result", form="json", samples=lambda: [json.dumps(_AUDIT).encode()], parse=_use_audit))


@cache
def _messages() -> tuple[bytes, bytes]:
    return release("signed", "site-0"), release("signed", "site-1")


def _state_file(name: str, samples: Callable[[], list[bytes]], **more: Any) -> None:
    """Register a file of a coordinator's folder; the others in it are whole."""

    def parse(path: Path) -> object:
        state = FolderState(path.parent, plan("signed")).of(ROUNDS)
        with state.opened():
            state.store("site-1", receipt(_messages()[1]), _messages()[1])
            used: list[object] = [state.messages(), state.refused(), state.result()]
            used += [state.message(one) for one in state.messages().values()]
            for one in state.closed() or ():
                used.append(ROUNDS.up.decode(state.message(one), plan("signed")))
            if (found := state.result()) is not None:
                used.append(ROUNDS.down.decode(found, plan("signed")))
            state.refuse(state.refused() | {"ab" * 32: ("x", "y")})
        return used

    more = {"form": "json"} | more
    register(Parser(name=f"state {name}", samples=samples, parse=parse, file=name, **more))


def _closed() -> list[bytes]:
    whole = {"plan": plan("signed").hash, "receipts": [receipt(_messages()[1])], "why": "everybody came"}
    return [json.dumps(whole, sort_keys=True, indent=1).encode()]


_state_file("plan.json", lambda: [plan("signed").canonical().encode()])
_state_file("closed.json", _closed)
_state_file("refused.json", lambda: [json.dumps({"ab" * 32: ["x.round1", "damaged"]}).encode()])
_state_file("items.round2", lambda: [factors("signed", 0)], form="container", insider=resign_message, sealed=True)


def _use_stored(path: Path) -> object:
    """A message in the coordinator's folder, under the receipt that its bytes should have."""
    home = path.parent / "state"
    state = FolderState(home, plan("signed")).of(ROUNDS)
    with state.opened():
        path.rename(home / "messages" / f"{receipt(_messages()[0])}.round1")
        return [state.message(one) for one in state.messages().values()]


register(
    Parser(
        name="state message",
        form="container",
        samples=lambda: [_messages()[0]],
        parse=_use_stored,
        insider=resign_message,
    )
)


def _use_inbox(path: Path) -> object:
    """A message in the folder that anybody may write to."""
    with tempfile.TemporaryDirectory() as out:
        mailbox = ServerFolder(path.parent, out, plan("signed"))
        for _ in range(2):  # what is still being written is left for the next look
            found = [one.read() for one in mailbox.submissions(ROUNDS)]
        return [ROUNDS.up.decode(one, plan("signed")) for one in found], mailbox.rejected(ROUNDS)


register(
    Parser(
        name="inbox",
        form="container",
        samples=lambda: [*_messages()],
        parse=_use_inbox,
        file="site-0.round1",
        insider=resign_message,
        sealed=True,
    )
)
