r"""A page: a title, one sentence in a box, sections of blocks. Everything is in the one file.

Tables: with a caption, numbers aligned, scrolling alone on a narrow screen, and as text that a spreadsheet takes.

The words of a page: paragraphs, lists, the box everybody reads, links, and how numbers are written.

The one style sheet of our pages: the look of the privacy card, with a dark screen and a narrow one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Final, Protocol

from twofold.errors import BadParameter, BadShape

__all__ = [
    "COLOURS",
    "SERIES_COLOURS",
    "STYLE",
    "Block",
    "Column",
    "Facts",
    "Folded",
    "Links",
    "Notice",
    "Page",
    "Paragraph",
    "Points",
    "Section",
    "Table",
    "number",
    "size",
    "slug",
    "span",
    "whole",
    "with_spread",
]

#: Nothing is fetched and nothing runs, whatever text found its way in.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Block(Protocol):
    """Anything that can write itself as markup, everything in it escaped."""

    def html(self) -> str:
        """Give the markup."""
        ...


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """One self-contained HTML page: no script, no font, nothing fetched; readable narrow, dark, printed and offline.

    Parameters
    ----------
    title, subtitle : str
        The heading and a line below it.
    notice : Notice, optional
        The sentence that everybody reads.
    sections : tuple of Section
        In order; a list of links to them stands at the top when there are more than three.
    footer : str
        The last line.

    Examples
    --------
    >>> from twofold.report.page import Paragraph
    >>> page = Page(title="Two rounds", sections=(Section("Words", (Paragraph("a < b"),)),))
    >>> "<p>a &lt; b</p>" in page.html()
    True
    """

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    notice: Notice | None = None
    footer: str = ""

    def html(self) -> str:
        """Give the page as text; equal content gives equal bytes."""
        keys = _keys([section.title for section in self.sections])
        parts = [f"<h1>{escape(self.title)}</h1>"]
        if self.subtitle:
            parts.append(f'<p class="when">{escape(self.subtitle)}</p>')
        if self.notice is not None:
            parts.append(self.notice.html())
        if len(self.sections) > 3:
            parts.append(_contents(keys, self.sections))
        parts += [_section(key, section) for key, section in zip(keys, self.sections, strict=True)]
        return _document(self.title, "\n".join(parts), self.footer)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        from twofold.storage.files import write_whole

        write_whole(path, self.html().encode())


def _document(title: str, main: str, footer: str) -> str:
    foot = f"<footer>{escape(footer)}</footer>\n" if footer else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{main}
</main>
{foot}</body>
</html>
"""


def _section(key: str, section: Section) -> str:
    blocks = "\n".join(block.html() for block in section.blocks)
    return f'<section aria-labelledby="{key}">\n<h2 id="{key}">{escape(section.title)}</h2>\n{blocks}\n</section>'


def _contents(keys: list[str], sections: tuple[Section, ...]) -> str:
    links = (
        f'<li><a href="#{key}">{escape(section.title)}</a></li>' for key, section in zip(keys, sections, strict=True)
    )
    return f'<nav aria-label="Contents"><ol>{"".join(links)}</ol></nav>'


def _keys(titles: list[str]) -> list[str]:
    """One name per heading, numbered where two would be alike."""
    keys: list[str] = []
    for title in titles:
        key, number = f"section-{slug(title)}", 1
        while (name := key if number == 1 else f"{key}-{number}") in keys:
            number += 1
        keys.append(name)
    return keys


@dataclass(frozen=True)
class Column:
    """A column's heading and whether it holds numbers, which stand at the right."""

    name: str
    numeric: bool = True


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows under a caption; the first cell of each is its heading.

    Parameters
    ----------
    caption : str
        What the table shows; read first by a screen reader.
    columns : tuple of Column
        The first one heads the rows.
    rows : tuple of tuple of str
        Cells as they are shown.
    strong : tuple of int
        Rows in bold.
    note : str
        A sentence below.
    exact : tuple of tuple, optional
        The same rows in full precision, offered as tab-separated text; several values may stand for one cell.
    exact_columns : tuple of str
        Headings of `exact`; the columns' own by default.

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

    def __post_init__(self) -> None:
        _check(self.columns, self.rows)
        if self.exact:
            _check(self.exact_columns or self.columns, self.exact)

    def html(self) -> str:
        """Give the markup."""
        head = "".join(f'<th scope="col"{_kind(column)}>{escape(column.name)}</th>' for column in self.columns)
        body = "\n".join(self._row(index, row) for index, row in enumerate(self.rows))
        parts = [
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(self.caption)}">',
            f"<table><caption>{escape(self.caption)}</caption>",
            f"<thead><tr>{head}</tr></thead>",
            f"<tbody>\n{body}\n</tbody></table>",
            "</div>",
        ]
        if self.note:
            parts.append(f'<p class="note">{escape(self.note)}</p>')
        if self.exact:
            parts.append(f"<details><summary>As text to copy</summary><pre>{escape(self.text())}</pre></details>")
        return "\n".join(parts)

    def text(self) -> str:
        """Give tab-separated text in full precision, one line per row, headings first."""
        names = self.exact_columns or tuple(column.name for column in self.columns)
        lines = [names, *(self.exact or self.rows)]
        return "\n".join("\t".join(_plain(cell) for cell in line) for line in lines)

    def _row(self, index: int, row: Sequence[str]) -> str:
        cells = "".join(
            f"<td{_kind(column)}>{escape(cell)}</td>" for column, cell in zip(self.columns[1:], row[1:], strict=True)
        )
        strong = ' class="strong"' if index in self.strong else ""
        return f'<tr{strong}><th scope="row">{escape(row[0])}</th>{cells}</tr>'


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Two columns: a name and what it is. A hash is set in small type.

    Examples
    --------
    >>> print(Facts(caption="Plan", rows=(("rank", "20"),)).html())
    <table class="facts"><caption>Plan</caption>
    <tbody><tr><th scope="row">rank</th><td>20</td></tr></tbody></table>
    """

    caption: str
    rows: tuple[tuple[str, str], ...]

    def html(self) -> str:
        """Give the markup."""
        rows = "\n".join(
            f'<tr><th scope="row">{escape(name)}</th><td{_look(text)}>{escape(text)}</td></tr>'
            for name, text in self.rows
        )
        return f'<table class="facts"><caption>{escape(self.caption)}</caption>\n<tbody>{rows}</tbody></table>'


def _kind(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _look(text: str) -> str:
    return ' class="hash"' if len(text) == 64 and " " not in text else ""


def _plain(cell: object) -> str:
    """One cell of the text: no tab or line break can start a cell that is not there."""
    return " ".join(str(cell).split()) if isinstance(cell, str) else repr(cell)


def _check(columns: Sequence[object], rows: Sequence[Sequence[object]]) -> None:
    for row in rows:
        if len(row) != len(columns):
            raise BadShape("a row does not fit its table.", found=f"{len(row)} cells", expected=f"{len(columns)}")


@dataclass(frozen=True)
class Paragraph:
    """One paragraph.

    Examples
    --------
    >>> Paragraph("a < b").html()
    '<p>a &lt; b</p>'
    """

    text: str

    def html(self) -> str:
        """Give the markup."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Points:
    """A list of short statements.

    Examples
    --------
    >>> Points(("one", "two")).html()
    '<ul><li>one</li><li>two</li></ul>'
    """

    points: tuple[str, ...]

    def html(self) -> str:
        """Give the markup."""
        return "<ul>" + "".join(f"<li>{escape(point)}</li>" for point in self.points) + "</ul>"


@dataclass(frozen=True, kw_only=True)
class Notice:
    """The box that everybody reads: one sentence, and one or more that explain it.

    Parameters
    ----------
    text : str
        The sentence.
    more : tuple of str
        Further paragraphs, in lighter type.
    warning : bool
        White on black, for what must not be missed.
    """

    text: str
    more: tuple[str, ...] = ()
    warning: bool = False

    def html(self) -> str:
        """Give the markup."""
        kind = "notice warning" if self.warning else "notice"
        rest = "".join(f"<p>{escape(text)}</p>" for text in self.more)
        return f'<div class="{kind}"><p>{escape(self.text)}</p>{rest}</div>'


@dataclass(frozen=True)
class Links:
    """Links to files beside the page, each with a few words: the body of an index.

    Examples
    --------
    >>> Links((("Figure 1", "figure-1.html", "mean rank"),)).html()
    '<ul><li><a href="figure-1.html">Figure 1</a>: mean rank</li></ul>'
    >>> Links((("Elsewhere", "https://example.org", ""),)).html()
    Traceback (most recent call last):
    twofold.errors.BadParameter: a page links only to what lies beside it...
    """

    links: tuple[tuple[str, str, str], ...]

    def html(self) -> str:
        """Give the markup; a link that leaves the folder is refused, so that pages work offline."""
        return "<ul>" + "".join(f"<li>{_link(*link)}</li>" for link in self.links) + "</ul>"


class _Block(Protocol):
    def html(self) -> str: ...


@dataclass(frozen=True)
class Folded:
    """Something long, behind a line that opens it; no script needed.

    Examples
    --------
    >>> Folded("all of it", Paragraph("long")).html()
    '<details><summary>all of it</summary><p>long</p></details>'
    """

    summary: str
    block: _Block

    def html(self) -> str:
        """Give the markup."""
        return f"<details><summary>{escape(self.summary)}</summary>{self.block.html()}</details>"


def _link(text: str, target: str, about: str) -> str:
    if not re.fullmatch(r"[\w][\w./-]*(#[\w-]+)?|#[\w-]+", target) or ".." in target:
        raise BadParameter("a page links only to what lies beside it.", found=target[:80], expected="figure-1.html")
    tail = f": {escape(about)}" if about else ""
    return f'<a href="{escape(target)}">{escape(text)}</a>{tail}'


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
    """Write a measured number with a fixed number of decimals; a dash when there is none.

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
    >>> span(0.0123), span(2.34), span(75)
    ('0.01 s', '2.3 s', '1 min 15 s')
    """
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 0.95 else f"{seconds:.1f} s"
    return f"{round(seconds) // 60} min {round(seconds) % 60} s"


#: Line colours on white and on the dark ground: at least 4.5 to 1 against each, apart for the colour-blind (after Okabe
#: and Ito 2008, darkened or lightened). Markers and dashes tell the lines apart where there is no colour.
SERIES_COLOURS: Final = (
    ("#111111", "#f2f2f2"),
    ("#0061a4", "#6fb7ff"),
    ("#b3400a", "#ff9d66"),
    ("#00694e", "#4fd1a5"),
    ("#8a2d78", "#f29be0"),
    ("#6b5900", "#e6cf4a"),
)


def _variables(number: int) -> str:
    return " ".join(f"--line-{k}: {pair[number]};" for k, pair in enumerate(SERIES_COLOURS))


#: Colours of a page, by name, on white and on a dark screen.
COLOURS: Final = f"""
:root {{ color-scheme: light; --ink: #111; --ground: #fff; --soft: #444; --rule: #ccc; --shade: #f4f4f4;
  {_variables(0)} }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ color-scheme: dark; --ink: #eee; --ground: #14171a; --soft: #b8bcc0; --rule: #4a4f55; --shade: #20252a;
    {_variables(1)} }}
}}
"""

STYLE: Final = f"""{COLOURS}
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: var(--ink);
  background: var(--ground); max-width: 800px; margin: 24px auto; padding: 0 16px; }}
h1 {{ font-size: 22px; line-height: 1.2; margin: 0 0 2px; }}
h2 {{ font-size: 16px; margin: 26px 0 6px; border-bottom: 1px solid var(--ink); padding-bottom: 2px; }}
p {{ margin: 4px 0 8px; overflow-wrap: anywhere; }}
a {{ color: inherit; }}
a:focus-visible, summary:focus-visible, .scroll:focus-visible {{ outline: 2px solid var(--ink); outline-offset: 2px; }}
.when, footer {{ color: var(--soft); }}
.when {{ margin: 0 0 10px; }}
.notice {{ border: 2px solid var(--ink); padding: 12px 16px; margin: 10px 0; }}
.notice p {{ font-size: 16px; font-weight: 600; margin: 0; }}
.notice p + p {{ font-size: 15px; font-weight: 400; margin-top: 6px; }}
.notice.warning {{ background: var(--ink); color: var(--ground); }}
nav {{ margin: 10px 0; font-size: 14px; }}
nav ol {{ margin: 0; padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; }}
.scroll {{ overflow-x: auto; margin: 6px 0 10px; }}
table {{ border-collapse: collapse; width: 100%; }}
caption {{ text-align: left; font-weight: 600; padding: 4px 0; max-width: calc(min(100vw, 800px) - 32px); }}
table {{ font-size: 14px; }}
td, th {{ text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--rule); }}
td:last-child, th:last-child {{ padding-right: 0; }}
th {{ font-weight: 600; }}
tbody th {{ min-width: 124px; }}
tbody td:not(.number) {{ min-width: 120px; }}
thead th {{ color: var(--soft); font-weight: 400; vertical-align: bottom; }}
td.number, th.number {{ text-align: right; }}
td.number {{ white-space: nowrap; font-variant-numeric: tabular-nums; }}
tr.strong th, tr.strong td {{ font-weight: 700; }}
table.facts th {{ width: 30%; min-width: 110px; }}
table.facts td {{ overflow-wrap: anywhere; }}
.hash, pre {{ font: 12px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.hash {{ overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; background: var(--shade); padding: 8px; margin: 4px 0; }}
.note {{ color: var(--soft); font-size: 14px; }}
details {{ margin: 0 0 10px; font-size: 14px; }}
summary {{ cursor: pointer; color: var(--soft); }}
figure {{ margin: 12px 0; break-inside: avoid; }}
figcaption {{ font-weight: 600; margin-bottom: 4px; }}
figure svg {{ display: block; width: 100%; height: auto; max-width: 560px; }}
figure svg * {{ stroke-linejoin: round; stroke-linecap: butt; }}
ul {{ margin: 4px 0 8px; padding-left: 18px; }}
li {{ margin: 2px 0; }}
footer {{ font-size: 13px; margin: 28px 0 16px; border-top: 1px solid var(--rule); padding-top: 8px; }}
@page {{ size: A4; margin: 14mm; }}
@media print {{
  body {{ margin: 0; padding: 0; max-width: none; font-size: 11px; line-height: 1.35; }}
  h1 {{ font-size: 18px; }}
  h2 {{ font-size: 13.5px; margin-top: 14px; break-after: avoid; }}
  .notice {{ padding: 8px 12px; break-inside: avoid; }}
  .notice p {{ font-size: 13px; }}
  .notice p + p, details, .note {{ font-size: 11px; }}
  nav, details:not([open]) {{ display: none; }}
  tr, li, figure {{ break-inside: avoid; }}
  .scroll {{ overflow: visible; }}
  table {{ font-size: 10.5px; }}
  td, th {{ padding-right: 8px; }}
  .hash {{ font-size: 9.5px; }}
  figure svg {{ max-width: 440px; }}
  * {{ print-color-adjust: exact; }}
}}
"""
