"""The picture of two rounds: who holds what, what leaves, what comes back, in the colours of the page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["TwoRounds"]

_WIDTH: Final = 420
_HEIGHT: Final = 286


@dataclass(frozen=True, kw_only=True)
class TwoRounds:
    """Entities on the left, the server on the right, one arrow each way.

    Parameters
    ----------
    entities : str
        Who takes part, as "24 hospitals".
    there, back : str
        What goes to the server and what comes back, a few words each.
    cost : str
        What the way there costs one person.
    inside : str
        What never leaves, as "raw records".

    Examples
    --------
    >>> picture = TwoRounds(entities="3 banks", there="12 kB each", back="9 kB", cost="ε = 1", inside="raw records")
    >>> "round 1" in picture.html()
    True
    """

    entities: str
    there: str
    back: str
    cost: str
    inside: str = "raw records"

    def html(self) -> str:
        """Give the markup."""
        label = (
            f"{self.entities} each keep their {self.inside}. Round 1: each sends one message to the server, "
            f"{self.there}, {self.cost}. Round 2: the server sends the same item factors back to all, {self.back}. "
            "Each then fits its own model, and nothing leaves any more."
        )
        boxes = "\n".join(self._entity(y) for y in (34, 114, 194))
        return (
            f"<figure><figcaption>Two rounds, one message each way</figcaption>\n"
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}" font-size="12.5" '
            f'fill="var(--ink)">\n{_HEADS}\n{_text(66, 20, self.entities, weight=700)}\n{boxes}\n'
            f"{self._server()}\n{self._arrows()}\n</svg></figure>"
        )

    def _entity(self, y: int) -> str:
        lines = (_text(66, y + 19, self.inside), _text(66, y + 35, "own model"), _text(66, y + 51, "ledger"))
        return _box(8, y, 116, 60) + "".join(lines)

    def _server(self) -> str:
        words = (("server", 700), ("sees only", 400), ("noisy sums", 400))
        lines = "".join(_text(366, 120 + 17 * k, word, weight=weight) for k, (word, weight) in enumerate(words))
        return _box(320, 84, 92, 94) + lines

    def _arrows(self) -> str:
        there = "".join(_arrow(126, y, 317, end, "url(#there)") for y, end in ((52, 106), (132, 124), (212, 142)))
        back = "".join(
            _arrow(319, start, 128, y, "url(#back)", dashed=True) for y, start in ((76, 120), (156, 138), (236, 158))
        )
        over = _text(222, 20, f"round 1: {self.there}", weight=700) + _text(222, 36, self.cost)
        under = _text(222, 266, f"round 2: {self.back}", weight=700) + _text(222, 281, "costs nothing more")
        return there + back + over + under


def _head(name: str, fill: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M 0 0 L 10 5 L 0 10 z" fill="{fill}" stroke="var(--ink)"/></marker>'
    )


_HEADS: Final = f"<defs>{_head('there', 'var(--ink)')}{_head('back', 'var(--ground)')}</defs>"


def _text(x: float, y: float, words: str, *, weight: int = 400) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="middle" font-weight="{weight}">{escape(words)}</text>'


def _box(x: float, y: float, width: float, height: float) -> str:
    size = f'width="{width}" height="{height}"'
    return f'<rect x="{x}" y="{y}" {size} fill="var(--ground)" stroke="var(--ink)" stroke-width="1.5"/>'


def _arrow(x1: float, y1: float, x2: float, y2: float, head: str, *, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="var(--ink)" stroke-width="1.3"{dash} '
        f'marker-end="{head}"/>'
    )
