"""Error bounds of the shared second moments and of what they reconstruct, beside what is measured.

Pairs of unit rows of all entities (mechanism gram, (ε, δ) with δ = 1e-6), with every entity's own noise or with one
noise under a secure sum. The bound holds for any data of this size; the measured numbers are those of one data set, as
the mean over draws of the noise.
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
from twofold.release.content import BilinearSums
from twofold.release.contract import ReleaseParameters, check_rows
from twofold.release.usefulness import moments_bound, reconstruction_bound

__all__ = ["Line", "lines", "main", "markdown", "moments_with", "reconstruction"]

Floats = NDArray[np.float64]
_DATA: Final[dict[str, dict[str, Any]]] = {
    "hospitals": {"source": "hospitals", "scale": 0.1},
    "movielens": {"source": "movielens", "watched": True, "most": 300},
}
_EPSILONS: Final = ("0.1", "1", "10")
_RANKS: Final = (1, 10, 50)


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


def moments_with(
    total: NDArray[np.int64], deviation: float, public: ReleaseParameters, layout: BilinearLayout, *, seed: int
) -> Floats:
    """Pairs of everybody with one draw of discrete Gaussian noise, in units of x."""
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
        public = ReleaseParameters(
            n_items=items,
            n_users=max(1, people // entities),
            max_items=items,
            bound=1 if name == "movielens" else 5,
            delta="1e-6",
            n_entities=entities,
        )
        layout = BilinearLayout.of(public, "gram")
        total = np.asarray(
            sum(exact_sums(check_rows(one.matrix, public), public, layout) for one in train.values()), dtype=np.int64
        )
        exact = moments_with(total, 0.0, public, layout, seed=0) / people
        for epsilon in epsilons:
            for noise, asked in (("own", public), ("secure sum", public.with_(honest=entities))):
                yield _line(name, exact, total, asked.with_(epsilon=epsilon), layout, noise, epsilon, people, draws)


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
) -> Line:
    edge = Gram().noise_share(public) * public.n_users * public.n_entities / people
    sigma = edge / (2 * math.sqrt(public.n_items))
    in_grid = sigma * people * layout.norm**2
    norms, entries, lost = [], [], {rank: [] for rank in _RANKS}  # type: ignore[var-annotated]
    best = {rank: reconstruction(exact, exact, rank) for rank in _RANKS}
    for seed in range(draws):
        noisy = moments_with(total, in_grid, public, layout, seed=seed) / people
        error = noisy - exact
        norms.append(float(np.abs(np.linalg.eigvalsh(error)).max()))
        entries.append(float(np.sqrt((error**2).mean())))
        for rank in _RANKS:
            lost[rank].append(reconstruction(exact, noisy, rank) - best[rank])
    items = public.n_items
    return Line(
        data=name,
        people=people,
        items=items,
        entities=public.n_entities,
        epsilon=epsilon,
        noise=noise,
        moments=moments_bound(edge, n_items=items),
        moments_found=float(np.mean(norms)),
        entry=sigma * math.sqrt((items + 1) / items),
        entry_found=float(np.mean(entries)),
        excess=tuple(
            (rank, best[rank], reconstruction_bound(edge, rank, n_items=items), float(np.mean(lost[rank])))
            for rank in _RANKS
        ),
    )


def markdown(found: Sequence[Line]) -> str:
    """Two tables: the moments, then the reconstruction."""
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
    return "\n".join([*first, "", *second])


def _bound(most: float) -> str:
    return "nothing said" if most >= 1 else f"{most:.2g}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
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
