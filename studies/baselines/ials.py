"""iALS: alternating least squares with a small weight of what was not observed, ours and two libraries'."""

from __future__ import annotations

import contextlib
import importlib
import io
import warnings
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.baselines.base import Baseline, Options, Score, Setting, Site, read_values
from studies.systems.peers import installed

__all__ = ["IALS", "LIBRARIES", "ials"]

Wide = NDArray[np.float64]
EPOCHS: Final = 8
#: Padded cells of one batch of normal equations.
_CELLS: Final = 1 << 19


def ials(
    rows: sparse.csr_array, *, rank: int, unobserved: float, penalty: float, seed: int, values: str = "one"
) -> Score:
    """Fit iALS with the frequency-scaled penalty of Rendle et al. (2022).

    Parameters
    ----------
    rows : csr array (users, items)
        What is fitted.
    rank : int
        Factors; at most the smaller side of the table.
    unobserved : float
        Weight of an absent entry, an observed one having 1.
    penalty : float
        Times the weight of everything a factor is fitted to.
    seed : int
        Of the start.
    values : str
        How counts are read.

    Examples
    --------
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((6, 4))))
    >>> score = ials(rows, rank=2, unobserved=0.1, penalty=0.003, seed=0)
    >>> scores = score(sparse.csr_array(np.array([[1.0, 1, 1, 0, 0, 0, 0, 0]])))[0]
    >>> bool(scores[3] > 0.8), bool(abs(scores[4:]).max() < 0.1)
    (True, True)
    """
    read = read_values(rows, values)
    columns = sparse.csr_array(read.T.tocsr())
    rank = min(rank, *rows.shape)
    items = np.random.default_rng(seed).normal(0, 0.1 / np.sqrt(rank), (rows.shape[1], rank))
    for _ in range(EPOCHS):
        users = _solved(read, items, unobserved, penalty)
        items = _solved(columns, users, unobserved, penalty)
    return lambda block: _solved(read_values(block, values), items, unobserved, penalty) @ items.T


def _solved(rows: sparse.csr_array, other: Wide, unobserved: float, penalty: float) -> Wide:
    """One side, given the other; rows of like length are solved at once, rows without entries are zero."""
    base, rank = unobserved * (other.T @ other), other.shape[1]
    lengths = np.diff(rows.indptr)
    found = np.zeros((rows.shape[0], rank))
    order = np.argsort(lengths, kind="stable")[np.searchsorted(np.sort(lengths), 1) :]
    padded = np.vstack([other, np.zeros(rank)])  # the last row stands for nothing
    end = order.size
    while end:
        longest = int(lengths[order[end - 1]])
        start = max(0, end - max(1, _CELLS // (longest * rank)))
        here = order[start:end]
        at = rows.indptr[here][:, None] + np.arange(longest)
        real = np.arange(longest) < lengths[here][:, None]
        at = np.where(real, at, 0)
        vectors = padded[np.where(real, rows.indices[at], len(other))]
        sides = np.einsum("bl,blk->bk", np.where(real, rows.data[at], 0.0), vectors)
        tables = vectors.transpose(0, 2, 1) @ vectors + base
        weight = penalty * (lengths[here] + unobserved * len(other))
        tables[:, np.arange(rank), np.arange(rank)] += weight[:, None]
        found[here] = np.linalg.solve(tables, sides[:, :, None])[:, :, 0]
        end = start
    return found


def _trials(setting: Setting, *, many: bool) -> list[Options]:
    """The middle of what the literature tunes, and both sides of it; many users bear more factors."""
    if setting.bound <= 1:
        grid = product((16, 48), (0.03, 0.1, 0.3), (0.01, 0.05))
        return [{"rank": rank, "unobserved": one, "penalty": two, "values": "one"} for rank, one, two in grid]
    grid = product((16, 48), (0.1, 0.3, 1.0), (0.03,)) if many else product((16,), (0.03, 0.1, 0.3), (0.03, 0.1))
    return [
        {"rank": rank, "unobserved": one, "penalty": two, "values": values}
        for rank, one, two in grid
        for values in ("one", "root")
    ]


def _alone(site: Site, options: Options) -> Score:
    return ials(site.rows, seed=site.setting.seed, **options)


def _pooled(site: Site, options: Options) -> Score:
    everyone = site.everyone
    return everyone.once(tuple(options.values()), lambda: ials(everyone.pooled, seed=everyone.setting.seed, **options))


def _implicit(rows: sparse.csr_array, seed: int, options: Options) -> Score:
    als = importlib.import_module("implicit.cpu.als")
    model = als.AlternatingLeastSquares(
        factors=options["rank"],
        regularization=options["penalty"],
        alpha=options["alpha"],
        iterations=EPOCHS,
        random_state=seed,
        num_threads=1,
    )
    model.fit(sparse.csr_matrix(rows), show_progress=False)

    def score(block: sparse.csr_array) -> Any:
        users = model.recalculate_user(np.arange(block.shape[0]), sparse.csr_matrix(block.astype(np.float32)))
        return np.asarray(users @ model.item_factors.T)

    return score


def _irspack(rows: sparse.csr_array, seed: int, options: Options) -> Score:
    models = importlib.import_module("irspack")
    model = models.IALSRecommender(
        sparse.csr_matrix(rows),
        n_components=options["rank"],
        alpha0=options["unobserved"],
        reg=options["penalty"],
        train_epochs=EPOCHS,
        random_seed=seed,
        n_threads=1,
    ).learn()
    return lambda block: np.asarray(model.get_score_cold_user(sparse.csr_matrix(block)))


_Fit = Callable[[sparse.csr_array, int, Options], Score]
_GRIDS: Final[dict[str, list[Options]]] = {
    "implicit": [
        {"rank": rank, "penalty": penalty, "alpha": alpha}
        for rank, penalty, alpha in product((16, 48), (0.1, 10.0), (1.0, 10.0, 40.0))
    ],
    "irspack": [
        {"rank": rank, "unobserved": one, "penalty": two}
        for rank, one, two in product((16, 48), (0.03, 0.1, 0.3), (0.003, 0.03))
    ],
}


def _library(library: str, fit: _Fit) -> tuple[Baseline, Baseline]:
    """A library's iALS alone and pooled."""

    def fitted(site: Site, options: Options, rows: sparse.csr_array) -> Score:
        score = _quietly(lambda: fit(rows.astype(np.float32), site.setting.seed, options))
        return lambda block: _quietly(lambda: score(block))

    def pooled(site: Site, options: Options) -> Score:
        everyone = site.everyone
        return everyone.once(tuple(options.values()), lambda: fitted(site, options, everyone.pooled))

    def trials(_: Setting) -> list[Options]:
        return _GRIDS[library]

    return (
        Baseline(
            name=f"iALS of {library} alone",
            scope="alone",
            fit=lambda site, how: fitted(site, how, site.rows),
            trials=trials,
        ),
        Baseline(name=f"iALS of {library} pooled", scope="pooled", fit=pooled, trials=trials),
    )


def _quietly(job: Callable[[], Any]) -> Any:
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        return job()


#: Ours, always there.
IALS: Final = (
    Baseline(name="iALS alone", scope="alone", fit=_alone, trials=partial(_trials, many=False)),
    Baseline(name="iALS pooled", scope="pooled", fit=_pooled, trials=partial(_trials, many=True)),
)
#: Libraries that are installed; the others are left out.
LIBRARIES: Final[tuple[Baseline, ...]] = tuple(
    one
    for name, fit in (("implicit", _implicit), ("irspack", _irspack))
    if installed(name)
    for one in _library(name, fit)
)
