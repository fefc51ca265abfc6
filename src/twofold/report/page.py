"""A page as data: a title, one sentence in a box, sections of blocks; templates turn it into one HTML file."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import TYPE_CHECKING

from twofold.errors import BadParameter, BadShape

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "Block",
    "Column",
    "Facts",
    "Folded",
    "Heading",
    "Links",
    "Notice",
    "Page",
    "Paragraph",
    "Points",
    "Section",
    "Table",
    "number",
    "render",
    "size",
    "slug",
    "span",
    "whole",
    "with_spread",
]


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("twofold.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render(template: str, **values: object) -> str:
    """Fill in a template; every value is escaped unless a template made it."""
    return _templates().get_template(template).render(**values)


class Block:
    """A part of a section. Its markup is the macro with the name of its class in `blocks.html.j2`."""

    def html(self) -> str:
        """Give the markup, everything in it escaped."""
        markup: str = getattr(_templates().get_template("blocks.html.j2").module, type(self).__name__)(self)
        return markup


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """One self-contained HTML page: no script, no font, no requests; readable narrow, dark, printed and offline.

    Parameters
    ----------
    title, subtitle : str
        The heading and a line below it.
    notice : Notice, optional
        The sentence that everyone reads.
    sections : tuple of Section
        In order; with more than three, a list of links comes first.
    footer : str
        The last line.
    sheet : bool
        Smaller type and no list of links, so that the page prints on few sheets.
    data : str
        JSON that goes along with the page for programs; browsers neither show nor run it.
    refresh : int
        Seconds after which a browser loads the page again; 0 for never.
    tabs : tuple of (str, str, bool)
        Pages beside this one: words, where, and whether it is this one. Pages of a console have them.

    Examples
    --------
    >>> page = Page(title="Two rounds", sections=(Section("Words", (Paragraph("a < b"),)),))
    >>> "<p>a &lt; b</p>" in page.html()
    True
    """

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    notice: Notice | None = None
    footer: str = ""
    sheet: bool = False
    data: str = ""
    refresh: int = 0
    tabs: tuple[tuple[str, str, bool], ...] = ()

    def html(self) -> str:
        """Give the page as text; equal content gives equal bytes."""
        keys = _keys([section.title for section in self.sections])
        return render("page.html.j2", page=self, sections=list(zip(keys, self.sections, strict=True)))

    def write(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, completely or not at all."""
        from twofold.storage.files import write_whole

        write_whole(path, self.html().encode())


def _keys(titles: list[str]) -> list[str]:
    """One name per heading, numbered if two would be equal."""
    keys: list[str] = []
    for title in titles:
        key, number = f"section-{slug(title)}", 1
        while (name := key if number == 1 else f"{key}-{number}") in keys:
            number += 1
        keys.append(name)
    return keys


@dataclass(frozen=True)
class Column:
    """A column's heading and whether it holds numbers, which are right-aligned."""

    name: str
    numeric: bool = True


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """Rows under a caption; the first cell of each is its heading. It scrolls alone on a narrow screen.

    Parameters
    ----------
    caption : str
        What the table shows; read first by a screen reader. May be empty under a heading that says it.
    columns : tuple of Column
        The first one heads the rows.
    rows : tuple of tuple of str
        Cells as they are shown; in a cell of numbers, a line break stays one.
    strong : tuple of int
        Rows in bold.
    note : str
        A sentence below.
    exact : tuple of tuple, optional
        The same rows in full precision, offered as tab-separated text; one cell may have several values.
    exact_columns : tuple of str
        Headings of `exact`; the columns' own by default.
    compact : bool
        Columns as narrow as their words, so that short cells fit on a phone.

    Examples
    --------
    >>> table = Table(caption="Sizes", columns=(Column("who", numeric=False), Column("users")), rows=(("a", "12"),))
    >>> print(table.html())
    <div class="scroll" tabindex="0" role="region" aria-label="Sizes">
    <table><caption>Sizes</caption>
    <thead><tr><th scope="col">who</th><th scope="col" class="number">users</th></tr></thead>
    <tbody>
    <tr><th scope="row">a</th><td class="number">12</td></tr>
    </tbody></table>
    </div>
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: tuple[int, ...] = ()
    note: str = ""
    exact: tuple[tuple[object, ...], ...] = ()
    exact_columns: tuple[str, ...] = ()
    compact: bool = False

    def __post_init__(self) -> None:
        _check("rows", self.columns, self.rows)
        _check("exact", self.exact_columns or self.columns, self.exact)

    def text(self) -> str:
        """Give tab-separated text in full precision, one line per row, headings first."""
        names = self.exact_columns or tuple(column.name for column in self.columns)
        lines = [names, *(self.exact or self.rows)]
        return "\n".join("\t".join(_plain(cell) for cell in line) for line in lines)


def _plain(cell: object) -> str:
    """One cell of the text, without tabs or line breaks, which would start another cell."""
    return " ".join(str(cell).split()) if isinstance(cell, str) else repr(cell)


def _check(parameter: str, columns: Sequence[object], rows: Sequence[Sequence[object]]) -> None:
    for row in rows:
        if len(row) != len(columns):
            raise BadShape(
                "a row does not match its table.",
                parameter=parameter,
                found=f"{len(row)} cells",
                expected=f"{len(columns)}",
            )


@dataclass(frozen=True, kw_only=True)
class Facts(Block):
    """Two columns: a name and its meaning. A hash is set in small type."""

    rows: tuple[tuple[str, str], ...]
    caption: str = ""


@dataclass(frozen=True)
class Paragraph(Block):
    """One paragraph."""

    text: str


@dataclass(frozen=True)
class Heading(Block):
    """A heading within a section; the list of links does not have it."""

    text: str


@dataclass(frozen=True)
class Points(Block):
    """A list of short statements."""

    points: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Notice(Block):
    """The box that everyone reads: one sentence, and one or more that explain it.

    Parameters
    ----------
    text : str
        The sentence.
    more : tuple of str
        Further paragraphs, in lighter type.
    warning : bool
        White on black, for what must not be missed.
    picture : Block, optional
        A drawing beside the sentence.
    """

    text: str
    more: tuple[str, ...] = ()
    warning: bool = False
    picture: Block | None = None


@dataclass(frozen=True)
class Links(Block):
    """Links to files beside the page, each with a few words. Pages work offline, so no link may leave the folder.

    Examples
    --------
    >>> Links((("Elsewhere", "https://example.org", ""),))
    Traceback (most recent call last):
    twofold.errors.BadParameter: a page links only to files beside it...
    """

    links: tuple[tuple[str, str, str], ...]

    def __post_init__(self) -> None:
        for _, target, _ in self.links:
            if not re.fullmatch(r"[\w][\w./-]*(#[\w-]+)?|#[\w-]+", target) or ".." in target:
                raise BadParameter(
                    "a page links only to files beside it.",
                    parameter="links",
                    found=target[:80],
                    expected="figure-1.html",
                )


@dataclass(frozen=True)
class Folded(Block):
    """A long block behind a line that opens it; no script needed."""

    summary: str
    block: Block


def slug(text: str) -> str:
    """Make a short name for a heading, for links within a page.

    Examples
    --------
    >>> slug("What left each hospital?")
    'what-left-each-hospital'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def whole(count: float) -> str:
    """Write a count with separators between thousands.

    Examples
    --------
    >>> whole(9000)
    '9,000'
    """
    return f"{round(count):,}"


def number(value: float, digits: int = 3) -> str:
    """Write a measured number with a fixed number of decimals; a dash if it is missing.

    Examples
    --------
    >>> number(0.25), number(float("nan"))
    ('0.250', '–')
    """
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else "–"


def with_spread(value: float, spread: float, digits: int = 3) -> str:
    """Write a mean with its spread.

    Examples
    --------
    >>> with_spread(0.25, 0.01), with_spread(0.25, float("nan"))
    ('0.250 ± 0.010', '0.250')
    """
    return f"{number(value, digits)} ± {number(spread, digits)}" if math.isfinite(spread) else number(value, digits)


def size(count: float) -> str:
    """Write a number of bytes.

    Examples
    --------
    >>> size(500), size(37_000), size(2_400_000)
    ('500 bytes', '37 kB', '2.4 MB')
    """
    if count < 1e3:
        return f"{count:.0f} bytes"
    return f"{count / 1e3:.3g} kB" if count < 999.5e3 else f"{count / 1e6:.3g} MB"


def span(seconds: float) -> str:
    """Write a time.

    Examples
    --------
    >>> span(0.0123), span(2.34), span(75), span(9000)
    ('0.01 s', '2.3 s', '1 min 15 s', '2 h 30 min')
    """
    if seconds >= 2 * 3600:
        return f"{round(seconds / 60) // 60} h {round(seconds / 60) % 60} min"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 0.95 else f"{seconds:.1f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"
