"""A page is one file: nothing fetched, nothing run, sound markup, names that lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jinja2 import UndefinedError

from twofold.errors import TransportError
from twofold.report.card import Gauge
from twofold.report.federation_page import TwoRounds
from twofold.report.page import (
    Block,
    Facts,
    Folded,
    Heading,
    Links,
    Notice,
    Page,
    Paragraph,
    Points,
    Section,
    Table,
    render,
)
from twofold.report.plot import Plot
from twofold.report.status import Federations, Refresh, Steps
from twofold.serve.pages import Form, Found

BLOCKS = (
    *(Facts, Federations, Folded, Form, Found, Gauge, Heading, Links, Notice),
    *(Paragraph, Plot, Points, Refresh, Steps, Table, TwoRounds),
)


def page(*titles: str) -> Page:
    sections = tuple(Section(title, (Paragraph("words"),)) for title in titles)
    return Page(title="A <title>", subtitle="<when>", notice=Notice(text="<box>"), sections=sections, footer="<foot>")


def test_it_is_sound_and_escaped(read_html: Callable[[str], Any]) -> None:
    text = page("one", "<two>").html()
    read_html(text)
    for word in ("title", "when", "box", "two", "foot"):
        assert f"&lt;{word}&gt;" in text


def test_nothing_is_fetched_and_nothing_runs() -> None:
    text = page("one").html()
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|<script|<link|@import|url\((?!#)|\bsrc=", text)


def test_contents_lead_to_every_section(read_html: Callable[[str], Any]) -> None:
    parser = read_html(page("Alike", "Alike", "alike 2", "δ", "Other").html())
    assert len(parser.targets) == len(set(parser.targets)) == 5
    assert {target.removeprefix("#") for target in parser.targets} == set(parser.names)


def test_a_short_page_has_no_contents() -> None:
    assert "<nav" not in page("one", "two", "three").html()


def test_one_sheet_has_no_contents_and_smaller_type() -> None:
    sections = page("one", "two", "three", "four").sections
    assert "<nav" in Page(title="t", sections=sections).html()
    text = Page(title="t", sections=sections, sheet=True).html()
    assert "<nav" not in text
    assert '<body class="sheet">' in text


def test_every_block_has_its_macro_and_every_macro_its_block() -> None:
    source = files("twofold.report").joinpath("templates/blocks.html.j2").read_text(encoding="utf-8")
    macros = re.findall(r"{% macro ([A-Z]\w*)\(one\) %}", source)
    assert sorted(macros) == sorted(kind.__name__ for kind in BLOCKS)
    assert all(issubclass(kind, Block) for kind in BLOCKS)


def test_a_name_that_a_template_misses_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="page"):
        render("page.html.j2", sections=[])


def test_it_is_written_whole(tmp_path: Path) -> None:
    page("δ").write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == page("δ").html()
    with pytest.raises(TransportError):
        page("δ").write(tmp_path / "no-such-folder" / "page.html")


def test_dark_narrow_and_print_are_thought_of() -> None:
    text = page("one").html()
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert 'name="viewport"' in text
    assert '<html lang="en">' in text
