"""Tables: with a caption, numbers aligned, scrolling alone on a narrow screen, and as text that a spreadsheet takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from twofold.errors import BadShape

__all__ = ["Column", "Facts", "Table"]


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
