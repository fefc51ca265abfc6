"""Draws per second of the exact samplers, beside OpenDP's and numpy's floating-point ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from benchmarks.table import Table, measure, versions
from twofold.privacy.mechanisms.laplace import draw_shares
from twofold.privacy.mechanisms.lazy import SymmetricNoise
from twofold.privacy.rng import source

SCALES = (10, 1000, 2**20)


def run(*, quick: bool) -> list[Table]:
    """Time ten million draws (a tenth of that when quick); OpenDP is timed on fewer and scaled."""
    count = 1_000_000 if quick else 10_000_000
    rows = [row for law in ("discrete Laplace", "discrete Gaussian") for row in _rows(law, count)]
    rows += [_share_row(scale, parties, count // 10) for scale in (10, 2**20) for parties in (10, 200)]
    note = (
        f"{versions('numpy', 'opendp')}. CPU seconds for {count:,} draws from the operating system's randomness, one "
        "thread; ratios are draws per CPU second of ours over theirs. OpenDP draws 20,000 and numpy draws floats, "
        "which are not private. Shares are timed on a tenth of the draws; neither peer has them."
    )
    columns = ("law", "scale", "ours, s", "M draws/s", "x OpenDP", "x numpy float")
    return [Table(title=f"Samplers, {count:,} draws", columns=columns, rows=rows, note=note)]


def _rows(law: str, count: int) -> list[list[object]]:
    return [_row(law, scale, count) for scale in SCALES]


def _row(law: str, scale: int, count: int) -> list[object]:
    if law == "discrete Laplace":
        noise = SymmetricNoise(linear=Fraction(1, scale))
    else:
        noise = SymmetricNoise(quadratic=Fraction(1, 2 * scale**2))
    noise.draw(1000, source())  # the table is built once per scale
    ours = measure(lambda: noise.draw(count, source()), repeat=2).cpu
    generator = np.random.default_rng()
    floats = generator.laplace if law == "discrete Laplace" else generator.normal
    theirs = measure(lambda: floats(0.0, scale, count), repeat=2).cpu
    opendp = _opendp(law, scale)
    ratio: object = "not installed" if opendp is None else opendp * count / ours
    return [law, f"{scale:,}", ours, count / ours / 1e6, ratio, theirs / ours]


def _share_row(scale: int, parties: int, count: int) -> list[object]:
    draw_shares(Fraction(scale), parties, 1000, source())
    ours = measure(lambda: draw_shares(Fraction(scale), parties, count, source()), repeat=2).cpu
    return [f"Laplace share, {parties} parties", f"{scale:,}", 10 * ours, count / ours / 1e6, "none", "none"]


def _opendp(law: str, scale: int, count: int = 20_000) -> float | None:
    """CPU seconds per draw of OpenDP's integer sampler, or None when it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    make: Callable[..., Callable[[list[int]], object]]
    if law == "discrete Laplace":
        make, metric = dp.m.make_laplace, dp.l1_distance(T=int)
    else:
        make, metric = dp.m.make_gaussian, dp.l2_distance(T=int)
    mechanism = make(domain, metric, scale=float(scale))
    zeros = [0] * count
    return measure(lambda: mechanism(zeros), repeat=2).cpu / count
