"""Error bounds of the shared second moments and of what they reconstruct, beside what is measured.

Pairs of unit rows of all entities (mechanism gram, (ε, δ) with δ = 1e-6), added up plainly, with every entity's own
noise or with one noise under a secure sum. The bound holds for any data of this size; the measured numbers are those of
one data set, as the mean over draws of the noise. The server weights messages with their own noise by size: a third
table shows what exact sizes change.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from studies.case import load_case
from twofold.errors import MissingDataset
from twofold.privacy.mechanisms.gaussian import DiscreteGaussian
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import Gram
from twofold.release.bilinear.records import exact_sums
from twofold.release.content import DIAGONAL, BilinearSums
from twofold.release.contract import ReleaseParameters, check_rows
from twofold.release.usefulness import moments_bound, reconstruction_bound

__all__ = [
    "Line",
    "Proved",
    "Weighing",
    "lines",
    "main",
    "markdown",
    "moments_with",
    "proved",
    "reconstruction",
    "setting",
    "weighing",
]

Floats = NDArray[np.float64]
_DATA: Final[dict[str, dict[str, Any]]] = {
    "hospitals": {"source": "hospitals", "scale": 0.1},
    "movielens": {"source": "movielens", "watched": True, "most": 300},
}
_EPSILONS: Final = ("0.1", "1", "10")
_RANKS: Final = (1, 10, 50)
_OWN: Final = "own, plain sum"
_SECURE: Final = "secure sum"


@dataclass(frozen=True, kw_only=True)
class Proved:
    """What follows from public numbers alone, of a plain sum per person.

    Attributes
    ----------
    deviation, moments, entry : float
        Of noise beside the diagonal; bound on the spectral norm of all noise; expected error of one number.
    excess : tuple of float
        For each rank, the most that noise adds to what the best directions leave.
    """

    deviation: float
    moments: float
    entry: float
    excess: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """Weights by exact sizes, beside a plain sum.

    Attributes
    ----------
    sizes, weights : (float, float)
        Smallest and largest, of people at an entity and of weights.
    noise : float
        Noise of the weighted sum, per weighted person, in parts of a plain sum's per person.
    moved : float
        Spectral norm by which the weights move the moments without noise.
    lost : tuple of float
        For each rank, what the first directions of moved moments leave more than the best do.
    """

    sizes: tuple[float, float]
    weights: tuple[float, float]
    noise: float
    moved: float
    lost: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Line:
    """One setting: bound and measured, for the moments and for each rank.

    Attributes
    ----------
    moments, moments_found : float
        Spectral norm of the error per person: exceeded with a chance of 5 % at most, and measured.
    entry, entry_found : float
        Root mean square error of one number per person: expected, and measured.
    excess : tuple of (rank, left by the best directions, bound on what noise adds, measured)
        In parts of the squared length of rows.
    weighing : Weighing
        The same for every line of a data set.
    """

    data: str
    people: int
    items: int
    entities: int
    epsilon: str
    noise: str
    moments: float
    moments_found: float
    entry: float
    entry_found: float
    excess: tuple[tuple[int, float, float, float], ...]
    weighing: Weighing


def reconstruction(exact: Floats, used: Floats, rank: int) -> float:
    """Mean squared length that the first eigenvectors of one table leave of the rows behind another.

    Examples
    --------
    >>> reconstruction(np.diag([0.6, 0.4]), np.diag([0.6, 0.4]), 1)
    0.4
    >>> reconstruction(np.diag([0.6, 0.4]), np.diag([0.1, 0.4]), 1)
    0.6
    """
    V = np.linalg.eigh(used)[1][:, ::-1][:, :rank]
    return float(np.trace(exact) - np.einsum("ik,ij,jk->", V, exact, V))


def setting(people: int, items: int, entities: int, *, epsilon: str, noise: str, bound: int = 5) -> ReleaseParameters:
    """Public numbers of a line.

    Examples
    --------
    >>> setting(1900, 457, 20, epsilon="1", noise="secure sum").honest
    20
    """
    return ReleaseParameters(
        n_items=items,
        n_users=max(1, people // entities),
        max_items=items,
        bound=bound,
        epsilon=epsilon,
        delta="1e-6",
        n_entities=entities,
        honest=entities if noise == _SECURE else 0,
    )


def proved(public: ReleaseParameters, people: int) -> Proved:
    """Bounds for so many people, as many as promised or not.

    Examples
    --------
    >>> one, two = (proved(setting(n, 457, 20, epsilon="1", noise="secure sum"), n) for n in (2000, 4000))
    >>> round(one.moments / two.moments, 9)
    2.0
    """
    items = public.n_items
    edge = Gram().noise_share(public) * public.n_users * public.n_entities / people
    deviation = edge / (2 * math.sqrt(items))
    return Proved(
        deviation=deviation,
        moments=moments_bound(edge, n_items=items),
        entry=deviation * math.sqrt((items - 1 + float(DIAGONAL) ** -2) / items),
        excess=tuple(reconstruction_bound(edge, rank, n_items=items) for rank in _RANKS),
    )


def weighing(sizes: Floats, tables: Sequence[Floats]) -> Weighing:
    """Weight the tables of entities by their numbers of people, as the server does by noisy ones.

    Examples
    --------
    >>> found = weighing(np.array([1.0, 3.0]), [np.diag([1.0, 0.0]), np.diag([0.0, 3.0])])
    >>> found.weights, round(found.noise, 3), round(found.moved, 3)
    ((0.4, 1.2), 0.894, 0.15)
    """
    people = sizes.sum()
    weights = sizes * people / (sizes**2).sum()  # so that weighted people are as many as people
    plain = np.sum(tables, axis=0) / people
    moved = np.tensordot(weights, np.asarray(tables), 1) / people
    return Weighing(
        sizes=(float(sizes.min()), float(sizes.max())),
        weights=(float(weights.min()), float(weights.max())),
        noise=float(np.linalg.norm(weights) / math.sqrt(sizes.size)),
        moved=float(np.abs(np.linalg.eigvalsh(moved - plain)).max()),
        lost=tuple(reconstruction(plain, moved, rank) - reconstruction(plain, plain, rank) for rank in _RANKS),
    )


def moments_with(
    total: NDArray[np.int64], deviation: float, public: ReleaseParameters, layout: BilinearLayout, *, seed: int
) -> Floats:
    """Pairs with one draw of discrete Gaussian noise, in units of x; nothing is weighted."""
    numbers = total
    if deviation:
        # 2ρ = 1 gives exactly this variance.
        sampler = DiscreteGaussian(rho=0.5, sensitivity_squared=round(deviation**2), unit=public.unit)
        numbers = sampler.release(total, rng=seed).value
    message = BilinearSums(
        mechanism="gram", numbers=numbers, deviation=max(deviation, 1.0), law="gaussian", seeded=True
    )
    summed = public.with_(honest=max(1, public.n_entities))
    return np.asarray(combine_bilinear([message], summed, layout=layout).pairs)


def lines(data: Sequence[str] = tuple(_DATA), *, epsilons: Sequence[str] = _EPSILONS, draws: int = 3) -> Iterator[Line]:
    """Every setting, one after the other."""
    for name in data:
        train = load_case(_DATA[name], 0).train
        people, items, entities = train.n_users, len(train.catalog), len(train)
        bound = 1 if name == "movielens" else 5
        plain = setting(people, items, entities, epsilon="1", noise=_OWN, bound=bound)
        layout = BilinearLayout.of(plain, "gram")
        each = [exact_sums(check_rows(one.matrix, plain), plain, layout) for one in train.values()]
        total = np.asarray(np.sum(each, axis=0), dtype=np.int64)
        exact = moments_with(total, 0.0, plain, layout, seed=0) / people
        sizes = np.array([one.matrix.shape[0] for one in train.values()], dtype=np.float64)
        weighed = weighing(sizes, [moments_with(one, 0.0, plain, layout, seed=0) for one in each])
        for epsilon in epsilons:
            for noise in (_OWN, _SECURE):
                asked = setting(people, items, entities, epsilon=epsilon, noise=noise, bound=bound)
                yield _line(name, exact, total, asked, layout, noise, epsilon, people, draws, weighed)


def _line(
    name: str,
    exact: Floats,
    total: NDArray[np.int64],
    public: ReleaseParameters,
    layout: BilinearLayout,
    noise: str,
    epsilon: str,
    people: int,
    draws: int,
    weighed: Weighing,
) -> Line:
    bounds = proved(public, people)
    in_grid = bounds.deviation * people * layout.norm**2
    norms, entries, lost = [], [], {rank: [] for rank in _RANKS}  # type: ignore[var-annotated]
    best = {rank: reconstruction(exact, exact, rank) for rank in _RANKS}
    for seed in range(draws):
        noisy = moments_with(total, in_grid, public, layout, seed=seed) / people
        error = noisy - exact
        norms.append(float(np.abs(np.linalg.eigvalsh(error)).max()))
        entries.append(float(np.sqrt((error**2).mean())))
        for rank in _RANKS:
            lost[rank].append(reconstruction(exact, noisy, rank) - best[rank])
    return Line(
        data=name,
        people=people,
        items=public.n_items,
        entities=public.n_entities,
        epsilon=epsilon,
        noise=noise,
        moments=bounds.moments,
        moments_found=float(np.mean(norms)),
        entry=bounds.entry,
        entry_found=float(np.mean(entries)),
        excess=tuple(
            (rank, best[rank], most, float(np.mean(lost[rank])))
            for rank, most in zip(_RANKS, bounds.excess, strict=True)
        ),
        weighing=weighed,
    )


def markdown(found: Sequence[Line]) -> str:
    """Three tables: the moments, the reconstruction, and what weights by size change."""
    first = [
        "| data | people | items | entities | ε | noise | error norm at most | measured | one number | measured |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {one.data} | {one.people:,} | {one.items:,} | {one.entities} | {one.epsilon} | {one.noise} | "
            f"{one.moments:.2g} | {one.moments_found:.2g} | {one.entry:.2g} | {one.entry_found:.2g} |"
            for one in found
        ),
    ]
    heads = " | ".join(f"r = {rank}: best, noise adds at most, measured" for rank in _RANKS)
    second = [f"| data | ε | noise | {heads} |", "|---|---|---|" + "---|" * len(_RANKS)]
    for one in found:
        cells = " | ".join(f"{best:.3f}, {_bound(most)}, {lost:.2g}" for _, best, most, lost in one.excess)
        second.append(f"| {one.data} | {one.epsilon} | {one.noise} | {cells} |")
    lost = " | ".join(f"r = {rank}: adds" for rank in _RANKS)
    third = [
        f"| data | people of an entity | weights | noise, of a plain sum's | moments moved by | {lost} |",
        "|---|---|---|---|---|" + "---|" * len(_RANKS),
    ]
    for name, by_size in {one.data: one.weighing for one in found}.items():
        sizes = f"{by_size.sizes[0]:,.0f} to {by_size.sizes[1]:,.0f}"
        weights = f"{by_size.weights[0]:.2f} to {by_size.weights[1]:.2f}"
        cells = " | ".join(f"{part:.2g}" for part in by_size.lost)
        third.append(f"| {name} | {sizes} | {weights} | {by_size.noise:.2f} | {by_size.moved:.2g} | {cells} |")
    return "\n".join([*first, "", *second, "", *third])


def _bound(most: float) -> str:
    return "nothing said" if most >= 1 else f"{most:.2g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m studies bounds", description=__doc__)
    every = ", ".join(_DATA)
    parser.add_argument("--data", help=f"data sets, separated by commas (default: those of {every} that are here)")
    parser.add_argument("--draws", type=int, default=3, help="draws of the noise (default %(default)s)")
    asked = parser.parse_args(arguments)
    found: list[Line] = []
    names = _DATA if asked.data is None else asked.data.split(",")
    for name in names:
        try:
            found += lines([name], draws=asked.draws)
        except MissingDataset as missing:
            if asked.data is not None:
                raise
            print(f"left out: {name}. {missing.summary} {missing.fix or ''}".rstrip(), file=sys.stderr)
    print(markdown(found))
