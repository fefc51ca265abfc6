"""The words of a page: paragraphs, lists, the box everybody reads, links, and how numbers are written."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from html import escape
from typing import Protocol

from twofold.errors import BadParameter

__all__ = ["Folded", "Links", "Notice", "Paragraph", "Points", "number", "size", "slug", "span", "whole", "with_spread"]


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
