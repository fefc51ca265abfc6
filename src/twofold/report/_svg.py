"""From a matplotlib figure to markup that may stand in a page: no global style, no address, colours of the page."""

from __future__ import annotations

import hashlib
import io
import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RC", "inline", "paint", "standing_alone"]

#: Text stays text, so that it can be searched, read aloud and set in the page's font; names inside depend on content.
RC: Final[Any] = {  # Any: newer matplotlib lists all its keys as a type
    "svg.fonttype": "none",
    "svg.hashsalt": "twofold",
    "path.simplify": False,
    "text.parse_math": False,  # a dollar sign is a dollar sign
}
# Colours that matplotlib carries through unchanged and that stand for a variable of the page's style sheet.
_INKS: Final = {"ink": "#010101", "ground": "#fefefe", "soft": "#010102", "rule": "#010103"}


def paint(name: str | int) -> str:
    """Give the colour to draw with for a colour of the page: "ink", "ground", "soft", "rule" or the number of a line.

    Examples
    --------
    >>> paint("ink"), paint(3)
    ('#010101', '#020203')
    """
    return _INKS[name] if isinstance(name, str) else f"#0202{name:02x}"


def inline(figure: Figure, *, label: str) -> str:
    """Draw a figure as an `svg` element with a label for those who cannot see it; equal figures give equal text.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> inline(Figure(figsize=(1, 1)), label="nothing")[:56]
    '<svg viewBox="0 0 72 72" role="img" aria-label="nothing"'
    """
    import matplotlib

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(RC):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    return _clean(buffer.getvalue(), label)


def standing_alone(markup: str, variables: str, *, width: int = 560) -> str:
    """Turn an `svg` element of a page into a file: with the colours it took from the page, on paper of its own.

    Parameters
    ----------
    markup : str
        What `inline` gave.
    variables : str
        Style sheet that gives the page's colours.
    width : int
        Pixels across.

    Examples
    --------
    >>> made = standing_alone('<svg viewBox="0 0 7 7" role="img"></svg>', ":root { --ink: #111; }")
    >>> made.startswith('<svg xmlns="http://www.w3.org/2000/svg" width="560" viewBox'), made.count("<rect")
    (True, 1)
    """
    head, body = markup.split(">", 1)
    font = "text { font-family: system-ui, Arial, sans-serif; }"
    look = f"<style>{' '.join(variables.split())} {font}</style>"
    paper = '<rect width="100%" height="100%" fill="var(--ground)"/>'
    named = head.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}"', 1)
    return f"{named}>{look}{paper}{_short(body)}\n"


def _short(body: str) -> str:
    """Without comments, and to a hundredth of a point: half the size, and nobody sees it."""
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", " ".join(tag[0].split())), body)
    return re.sub(r">\s+<", ">\n<", body)


def _clean(text: str, label: str) -> str:
    box = re.search(r'viewBox="([^"]+)"', text)
    assert box is not None
    body = text[text.index(">", box.end()) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", body, flags=re.DOTALL)  # would rule the whole page
    key = "p" + hashlib.sha256(body.encode()).hexdigest()[:8]
    # Within tags only: words in the plot stay as they are, whatever they say.
    body = re.sub(r"<[^>]*>", lambda tag: _own_names(_page_look(tag[0]), key), body)
    return f'<svg viewBox="{box[1]}" role="img" aria-label="{escape(label)}">{body.strip()}'


def _page_look(tag: str) -> str:
    """Let the page's style sheet decide colours and font."""
    for name, colour in _INKS.items():
        tag = tag.replace(colour, f"var(--{name})")
    tag = re.sub(r"#0202([0-9a-f]{2})", lambda found: f"var(--line-{int(found[1], 16)})", tag)
    return re.sub(r"font-family: [^;\"]*;? ?", "", tag)


def _own_names(tag: str, key: str) -> str:
    """Prefix every name, so that two plots on one page do not meet."""
    tag = re.sub(r'\bid="', f'id="{key}-', tag.replace("xlink:href", "href"))
    return re.sub(r'(url\(#|href="#)', rf"\1{key}-", tag)
