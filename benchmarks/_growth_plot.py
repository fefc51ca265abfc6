"""A small log-log plot as SVG, so that benchmarks need no plotting library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

WIDTH, HEIGHT, MARGIN = 420, 320, 60
COLORS = ("#1b6ca8", "#c0392b")


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points joined by a line."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


def draw(panels: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """Panels side by side, seconds upwards, both axes logarithmic."""
    parts = [_panel(title, lines, k * WIDTH) for k, (title, lines) in enumerate(panels)]
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    style = 'font-family="sans-serif" font-size="11"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(parts) + "\n</svg>\n"


def _panel(title: str, lines: Sequence[Line], left: int) -> str:
    xs, ys = (np.log10([v for line in lines for v in getattr(line, axis)]) for axis in "xy")
    x_range, y_range = (xs.min(), xs.max()), (np.floor(ys.min()), np.ceil(ys.max()))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (np.log10(x) - x_range[0]) / max(x_range[1] - x_range[0], 1e-9)
        up = (np.log10(y) - y_range[0]) / max(y_range[1] - y_range[0], 1e-9)
        return left + MARGIN + across * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - up * (HEIGHT - 2 * MARGIN)

    parts = [f'<text x="{left + WIDTH / 2}" y="24" text-anchor="middle">CPU seconds against {title}</text>']
    for power in range(int(y_range[0]), int(y_range[1]) + 1):
        _, y = place(lines[0].x[0], 10.0**power)
        parts.append(_rule(left + MARGIN, left + WIDTH - MARGIN, y))
        parts.append(f'<text x="{left + MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for x in lines[0].x:
        at, _ = place(x, 10.0 ** y_range[0])
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{_short(x)}</text>')
    for k, line in enumerate(lines):
        points = [place(x, y) for x, y in zip(line.x, line.y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[k]}" stroke-width="2"/>')
        label = f'x="{left + MARGIN + 8}" y="{MARGIN + 14 * k}" fill="{COLORS[k]}"'
        parts.append(f"<text {label}>{line.name}</text>")
    return "\n".join(parts)


def _rule(x1: float, x2: float, y: float) -> str:
    return f'<line x1="{x1}" x2="{x2}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc"/>'


def _short(x: float) -> str:
    return f"{x / 1e6:g}M" if x >= 1e6 else f"{x:,.0f}"
