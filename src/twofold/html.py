"""A few lines of HTML for notebooks: facts and short tables, every word escaped, no style but the notebook's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

__all__ = ["ShownMessage", "block", "facts_of", "table_of"]


class ShownMessage:
    """A message that shows itself by its sender and its size, never by its bytes: a notebook prints what it is given.

    Examples
    --------
    >>> class Sent(ShownMessage):
    ...     entity, data, seeded = "st-anna", bytes(2_000), True
    >>> Sent()
    Sent('st-anna', 2,000 bytes, NOT PRIVATE: seeded noise)
    """

    entity: str
    data: bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.entity!r}, {len(self.data):,} bytes, {self._noise})"

    def _repr_html_(self) -> str:
        facts = {"entity": self.entity, "size": f"{len(self.data):,} bytes", "promise": self._noise}
        return block("Message 1, the only thing that leaves", [], facts_of(facts))

    @property
    def _noise(self) -> str:
        seeded = getattr(getattr(self, "content", self), "seeded", False)
        return "NOT PRIVATE: seeded noise" if seeded else "noise by the plan"


def block(title: str, lines: Iterable[str] = (), more: str = "") -> str:
    """Give a heading, some paragraphs, and markup that follows them.

    Examples
    --------
    >>> block("A < B", ["one"])
    '<div><strong>A &lt; B</strong><p>one</p></div>'
    """
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f"<div><strong>{escape(title)}</strong>{told}{more}</div>"


def facts_of(facts: Mapping[str, object]) -> str:
    """Give a table of names and their meaning.

    Examples
    --------
    >>> facts_of({"items": 3})
    '<table><tbody><tr><th style="text-align:left">items</th><td style="text-align:left">3</td></tr></tbody></table>'
    """
    left = 'style="text-align:left"'
    rows = "".join(
        f"<tr><th {left}>{escape(name)}</th><td {left}>{escape(str(value))}</td></tr>" for name, value in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table; the first cell of each row is its heading.

    Examples
    --------
    >>> table_of(["", "n"], [["a", "1"]])
    '<table><thead><tr><th></th><th>n</th></tr></thead><tbody><tr><th>a</th><td>1</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
