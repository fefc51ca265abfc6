"""Plots of lines or points, distinguished by marker, dash and colour, drawn in the colours of the page."""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from twofold.errors import BadShape, MissingExtra, install
from twofold.report.page import Block, Column, Table, render

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Plot", "Series"]

MARKERS: Final = ("o", "s", "^", "D", "v", "P")
DASHES: Final = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
SIZE: Final = (5.0, 3.5)  # inches; on a screen of 360 pixels the letters are still 9 pixels high


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a plot.

    Parameters
    ----------
    name : str
        How the legend names it.
    x, y : sequences of float
        Its points; one that is not a number leaves a gap.
    spread : sequence of float, optional
        Length of an error bar to each side.
    interval : sequence of (float, float), optional
        Ends of an error bar, where it is not as long on both sides.
    joined : bool
        Whether a line runs through the points.
    style : int, optional
        Which marker, dash and colour; by default the place among the series. Give it to keep a system's look alike
        over several plots.
    offset : float
        How far to the right of their places its points are drawn, so that those of other lines stay visible.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] | None = None
    joined: bool = True
    style: int | None = None
    interval: Sequence[tuple[float, float]] | None = None
    offset: float = 0.0

    def __post_init__(self) -> None:
        given = (self.y, self.y if self.spread is None else self.spread, self.interval or self.y)
        if any(len(self.x) != len(one) for one in given):
            raise BadShape("the numbers of a line do not match.", expected="x, y and spread of one length")

    def bar(self, at: int) -> str:
        """Write the error bar of a point."""
        if self.interval is not None:
            return " to ".join(_number(end) for end in self.interval[at])
        return "" if self.spread is None else _number(self.spread[at])


@dataclass(frozen=True, kw_only=True)
class Plot(Block):
    """A plot with a caption, a description for screen readers, and its numbers to unfold.

    Parameters
    ----------
    caption : str
        What it shows.
    description : str
        What is to be seen in it, in words: the text of a screen reader.
    x_label, y_label : str
        The axes, units included.
    series : tuple of Series
        At most six can be told apart.
    log_x : bool
        Powers of ten across.
    ticks : tuple of (float, str), optional
        Places and texts along the x axis; numbers by default.
    level : float, optional
        A thin line across at this height.
    direct : bool
        Write each name at the end of its line in place of a legend, moved apart where lines end close together.

    Examples
    --------
    >>> line = Series(name="alone", x=(1, 2), y=(0.3, 0.2))
    >>> plot = Plot(caption="Rank", description="It falls.", x_label="users", y_label="rank", series=(line,))
    >>> plot.html() == plot.html(), 'aria-label="It falls."' in plot.html()
    (True, True)
    """

    caption: str
    description: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log_x: bool = False
    ticks: tuple[tuple[float, str], ...] | None = None
    level: float | None = None
    direct: bool = False

    @property
    def drawable(self) -> bool:
        """Whether matplotlib, an extra, is installed; without it, a page has the numbers."""
        return find_spec("matplotlib") is not None

    def svg(self) -> str:
        """Draw; equal content gives equal text, on every machine with the same matplotlib."""
        if not self.drawable:
            raise MissingExtra("drawing needs an optional package.", fix=install("plot"), parameter="plot")
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context(_RC):
            figure = Figure(figsize=SIZE, layout="constrained")
            axes = figure.subplots()
            _frame(axes, self)
            handles = [
                _line(axes, one, place if one.style is None else one.style) for place, one in enumerate(self.series)
            ]
            if self.direct:
                _name_lines(axes, self.series)
            else:
                _legend(figure, handles, [one.name for one in self.series])
            return _inline(figure, label=self.description)

    def picture(self) -> str:
        """Draw a separate file for a foreign page, with the page's colours and a background."""
        head, body = self.svg().split(">", 1)
        font = "text { font-family: system-ui, Arial, sans-serif; }"
        look = f"<style>{' '.join(render('colours.css').split())} {font}</style>"
        paper = '<rect width="100%" height="100%" fill="var(--ground)"/>'
        named = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg" width="560"', 1)
        return f"{named}>{look}{paper}{_short(body)}\n"

    def numbers(self) -> Table:
        """Give every point as a table."""
        columns = (
            Column("line", numeric=False),
            Column(self.x_label),
            Column(self.y_label),
            Column("±" if all(one.interval is None for one in self.series) else "interval"),
        )
        names = dict(self.ticks or ())
        rows = tuple(
            (one.name, names.get(x, _number(x)), _number(y), one.bar(k))
            for one in self.series
            for k, (x, y) in enumerate(zip(one.x, one.y, strict=True))
        )
        return Table(caption=f"Numbers of: {self.caption}", columns=columns, rows=rows)


def _frame(axes: Axes, plot: Plot) -> None:
    axes.set_xlabel(plot.x_label, color=_paint("ink"))
    axes.set_ylabel(plot.y_label, color=_paint("ink"))
    if plot.log_x:
        axes.set_xscale("log")
    axes.grid(color=_paint("rule"), linewidth=0.5, alpha=0.6, axis="y")
    axes.tick_params(colors=_paint("soft"), labelcolor=_paint("ink"), which="both")
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_paint("soft"))
    if plot.level is not None:
        axes.axhline(plot.level, color=_paint("soft"), linewidth=1)
    if plot.ticks is not None:
        axes.set_xticks([place for place, _ in plot.ticks], [text for _, text in plot.ticks])
        axes.set_xticks([], minor=True)
    elif plot.log_x:
        _log_ticks(axes)


def _log_ticks(axes: Axes) -> None:
    """One, two and five of every power of ten, as plain numbers; 10² would need mathematical type."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _number(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "–"


def _line(axes: Axes, one: Series, style: int) -> Any:
    """Alternate filled and hollow markers, so that neighbours differ even where markers are small."""
    kind = style % len(MARKERS)
    look: dict[str, Any] = {
        "color": _paint(kind),
        "marker": MARKERS[kind],
        "markersize": 6,
        "markerfacecolor": _paint(kind) if kind % 2 == 0 else _paint("ground"),
        "linestyle": DASHES[kind] if one.joined else "none",
        "linewidth": 1.5,
    }
    places = [x + one.offset for x in one.x]
    bars: Any = one.spread
    if one.interval is not None:
        ends = zip(one.y, one.interval, strict=True)
        bars = list(zip(*((max(y - low, 0.0), max(high - y, 0.0)) for y, (low, high) in ends), strict=True))
    if bars is None:
        return axes.plot(places, one.y, **look)[0]
    return axes.errorbar(places, one.y, yerr=bars, elinewidth=0.8, capsize=2.5, **look)


#: Least distance between two names, in parts of the plot's height.
_APART: Final = 0.085


def _name_lines(axes: Axes, series: tuple[Series, ...]) -> None:
    """Write names beside the last points, in the order of their heights, and lead a thin line to each."""
    ends = {}
    for place, one in enumerate(series):
        known = [(x + one.offset, y) for x, y in zip(one.x, one.y, strict=True) if math.isfinite(y)]
        if known:
            ends[place if one.style is None else one.style] = (one.name, *known[-1])
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    order = sorted(ends, key=lambda style: ends[style][2])
    wanted = [(ends[style][2] - low) / (high - low) for style in order]
    for style, height in zip(order, spaced(wanted, _APART), strict=True):
        name, x, y = ends[style]
        axes.annotate(
            name,
            xy=(x, y),
            xytext=(1.04, height),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=_paint(style % len(MARKERS)),
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": _paint("soft"), "shrinkA": 1, "shrinkB": 5},
        )


def spaced(heights: Sequence[float], least: float) -> list[float]:
    """Move rising heights apart as little as needed, within 0 and 1 as far as there is room.

    Examples
    --------
    >>> [round(one, 2) for one in spaced([0.5, 0.5, 0.9], 0.1)]
    [0.45, 0.55, 0.9]
    """
    groups: list[list[float]] = []  # of heights that touch: their centre and how many they are
    for height in heights:
        groups.append([height, 1])
        while True:
            centre, count = groups[-1]
            half = (count - 1) * least / 2
            groups[-1][0] = min(max(centre, half), max(1 - half, half))
            if len(groups) == 1 or groups[-1][0] - half - groups[-2][0] - (groups[-2][1] - 1) * least / 2 >= least:
                break
            other, number = groups.pop(-2)
            groups[-1] = [(centre * count + other * number) / (count + number), count + number]
    return [centre + (at - (count - 1) / 2) * least for centre, count in groups for at in range(int(count))]


def _legend(figure: Figure, handles: list[Any], names: list[str]) -> None:
    """Put the legend below the plot, two entries per line; a single line needs no legend."""
    if len(handles) > 1:
        look: dict[str, Any] = {"ncols": 2, "frameon": False, "labelcolor": _paint("ink"), "handlelength": 3.5}
        figure.legend(handles, names, loc="outside lower left", fontsize=9, **look)


#: Text stays text, so that it can be searched, read aloud and set in the page's font; names inside depend on content.
_RC: Final[Any] = {  # Any: newer matplotlib lists all its keys as a type
    "svg.fonttype": "none",
    "svg.hashsalt": "twofold",
    "path.simplify": False,
    "text.parse_math": False,  # a dollar sign is a dollar sign
}
# Colours that matplotlib carries through unchanged and that stand for a variable of the page's style sheet.
_INKS: Final = {"ink": "#010101", "ground": "#fefefe", "soft": "#010102", "rule": "#010103"}


def _paint(name: str | int) -> str:
    """Give what to draw with for a colour of the page: "ink", "ground", "soft", "rule" or the number of a line."""
    return _INKS[name] if isinstance(name, str) else f"#0202{name:02x}"


def _inline(figure: Figure, *, label: str) -> str:
    """Draw a figure as an `svg` element with a label for screen readers; equal figures give equal text."""
    import matplotlib

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context(_RC):
        figure.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    return _clean(buffer.getvalue(), label)


def _short(body: str) -> str:
    """Drop comments and round to a hundredth of a point: half the size, without a visible difference."""
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
    """Prefix every name, so that two plots on one page do not clash."""
    tag = re.sub(r'\bid="', f'id="{key}-', tag.replace("xlink:href", "href"))
    return re.sub(r'(url\(#|href="#)', rf"\1{key}-", tag)
