"""Tables: escaped, aligned, captioned, and a text that a spreadsheet reads back."""

from __future__ import annotations

import csv
import io
from html import unescape

import pytest

from twofold.errors import BadShape
from twofold.report.page import Column, Facts, Table

COLUMNS = (Column("system", numeric=False), Column("nDCG"), Column("note", numeric=False))


def test_numbers_stand_right_and_words_left() -> None:
    text = Table(caption="c", columns=COLUMNS, rows=(("alone", "0.3", "fine"),), strong=(0,)).html()
    assert '<td class="number">0.3</td><td>fine</td>' in text
    assert '<th scope="col" class="number">nDCG</th>' in text
    assert '<tr class="strong"><th scope="row">alone</th>' in text


def test_everything_is_escaped() -> None:
    hostile = '"><img src=x>'
    text = Table(
        caption=hostile, columns=(Column(hostile),), rows=((hostile,),), note=hostile, exact=((hostile,),)
    ).html()
    facts = Facts(caption=hostile, rows=((hostile, hostile),)).html()
    assert "<img" not in text + facts
    assert text.count("&lt;img") == 7  # region, caption, heading, cell, note, and heading and cell of the text


def test_the_caption_also_names_the_scrolling_region() -> None:
    text = Table(caption="Results", columns=(Column("x"),), rows=()).html()
    assert 'role="region" aria-label="Results"' in text
    assert "<caption>Results</caption>" in text


def test_the_text_keeps_full_precision() -> None:
    exact = (("alone", 0.1 + 0.2, "two\tcells\nno"),)
    table = Table(caption="c", columns=COLUMNS, rows=(("alone", "0.30", "x"),), exact=exact)
    rows = list(csv.reader(io.StringIO(table.text()), delimiter="\t"))
    assert rows == [["system", "nDCG", "note"], ["alone", "0.30000000000000004", "two cells no"]]
    shown = table.html().split("<pre>")[1].split("</pre>")[0]
    assert unescape(shown) == table.text()


def test_without_exact_rows_the_text_is_what_is_shown() -> None:
    table = Table(caption="c", columns=COLUMNS, rows=(("alone", "0.30", "x"),))
    assert table.text().splitlines() == ["system\tnDCG\tnote", "alone\t0.30\tx"]
    assert "<pre>" not in table.html()


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(BadShape) as caught:
        Table(caption="c", columns=COLUMNS, rows=(("a", "b"),))
    assert (caught.value.parameter, caught.value.found, caught.value.expected) == ("rows", "2 cells", "3")
    with pytest.raises(BadShape) as caught:
        Table(caption="c", columns=COLUMNS, rows=(("a", "b", "c"),), exact=(("a", 1.0),))
    assert (caught.value.parameter, caught.value.found, caught.value.expected) == ("exact", "2 cells", "3")


def test_a_table_under_a_heading_needs_no_caption() -> None:
    text = Table(caption="", columns=COLUMNS, rows=(("a", "b", "c"),)).html() + Facts(rows=(("a", "b"),)).html()
    assert "<caption" not in text
    assert "aria-label" not in text


def test_a_hash_is_set_small() -> None:
    text = Facts(caption="c", rows=(("hash", "ab" * 32), ("words", "a " * 32))).html()
    assert text.count('class="hash"') == 1
