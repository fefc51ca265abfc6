r"""A local model of ratings: item means, a user's offset, and a user's place along common patterns.

The model is :math:`r_{ui} = \mu + b_i + c_u + v_i \cdot p_u + e`. Users have :math:`p_u \sim N(0, \Lambda)`, items
:math:`v_i \sim N(m_i, \Psi)` around their prior: nothing (alone), mixtures of public features, or
the shared loadings. Users and items are solved for in turn, each with the other's uncertainty (variational Bayes for
matrix factorization, Lim and Teh 2007), and every variance is estimated from the entity's own ratings on the way:
that decides how far items are pulled towards their prior. The strength adds to it: shared loadings weigh at least as
much as that many ratings of each item.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import csr_rows, with_data
from twofold.entity.models.blend import Columns, Floats, Wide
from twofold.entity.models.pattern_solve import (
    ItemPrior,
    Posterior,
    Table,
    feature_prior,
    own_prior,
    packed_squares,
    posterior,
    shared_prior,
    unpacked,
)
from twofold.errors import BadModel, BadNumber, BadShape
from twofold.features import Features
from twofold.federation.factors import ItemFactors

__all__ = ["PatternFit", "PatternScorer"]

NAMES = ("patterns", "features")
#: Rounds over users and items: alone, with a pull, and over users only.
SWEEPS = {"own": 10, "drawn": 6, "fixed": 4}
#: Where variances start, in variances of a rating: of a rating around the model, loadings, item and user offsets.
NOISE, LOADINGS, ITEMS, USERS = 0.65, 0.012, 0.2, 0.15
#: Smallest variance.
LEAST = 1e-6
#: Users that the prior covariance of places weighs as much as, beyond one for each pattern.
PRIOR_USERS = 10


def _solved(matrix: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve, or say that the numbers of the model do not allow it; a damaged file may hold any."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        raise BadNumber("the model's patterns cannot be solved for.", expected="numbers of similar size") from None


class PatternScorer:
    """Predicted ratings ``mean_i + o + loading_i · p``, with offset o and place p of a user from the history.

    (p, o) is the posterior mean of a normal model: p standard normal, o of variance `offset`, a rating of variance
    `noise` around the prediction, and loadings that are themselves uncertain by `doubts`: histories of items about
    which little is known move a user less. It is a weighted sum of what was given above the items' means, so that every
    prediction can be taken apart; without a history it is the items' means.

    Parameters
    ----------
    loadings : array (items, patterns)
        What a unit along each pattern adds to an item's rating.
    means : array (items,)
        What an item gets without knowing anything of the user.
    doubts : array (items,)
        Variance of each of an item's loadings.
    noise, offset : float
        Variance of a rating around the model, and of users' offsets.
    kind : {"patterns", "features"}
        Where the loadings come from: the federation or own data; or own data and public features.

    Examples
    --------
    >>> loadings, nothing = np.array([[1.0], [1.0], [-1.0]]), np.zeros(3)
    >>> scorer = PatternScorer(loadings, means=np.full(3, 3.0), doubts=nothing, noise=1.0, offset=0.5)
    >>> scorer.one(np.array([0]), np.array([5.0])).round(2).tolist()
    [4.199999809265137, 4.199999809265137, 2.5999999046325684]
    >>> scorer.reasons(np.array([0]), np.array([5.0]), 2).round(2).tolist()
    [-0.4]
    """

    def __init__(
        self, loadings: Floats, *, means: Floats, doubts: Floats, noise: float, offset: float, kind: str = "patterns"
    ) -> None:
        self.loadings = np.array(loadings, dtype=np.float32, order="C", ndmin=2)
        self.means, self.doubts = (np.array(part, dtype=np.float32) for part in (means, doubts))
        if not self.loadings.shape[:1] == self.means.shape == self.doubts.shape:
            raise BadShape("loadings, means and doubts do not have the same items.", parameter="loadings")
        if kind not in NAMES or not (noise > 0 and offset > 0) or (self.doubts < 0).any():
            raise BadModel(
                "the settings of a pattern model are not valid.", expected="variances above 0", parameter="settings"
            )
        self.noise, self.offset, self._kind = float(noise), float(offset), kind
        for part in (self.loadings, self.means, self.doubts):
            part.flags.writeable = False

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        return self._kind

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.means.size)

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history; see `Scorer`."""
        return np.asarray(self.means + self.places(rows) @ self._sides(slice(None)).T, dtype=np.float32)

    def places(self, rows: sparse.csr_array) -> NDArray[np.float64]:
        """Places along the patterns and offset of every history: (users, patterns + 1)."""
        used, at = np.unique(rows.indices, return_inverse=True)
        sides, shape = self._sides(used), (rows.shape[0], used.size)
        above = (rows.data - self.means[rows.indices]).astype(np.float64)
        given, marks = (csr_rows(part, at.ravel(), rows.indptr, shape) for part in (above, np.ones_like(above)))
        matrices = unpacked(marks @ packed_squares(sides), sides.shape[1])
        matrices += (marks @ self.doubts[used].astype(np.float64))[:, None, None] * self._patterns + self._prior
        return np.asarray(_solved(matrices, (given @ sides)[:, :, None])[:, :, 0])

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        above = np.asarray(values, np.float64) - self.means[columns]
        place = _solved(self._matrix(columns), self._sides(columns).T @ above)
        return np.asarray(self.means + self._sides(slice(None)) @ place, dtype=np.float32)

    def reasons(self, columns: Columns, values: Floats, item: int) -> NDArray[np.float64]:
        """How much each entry added to the score of one item, above the item's own mean."""
        pull = _solved(self._matrix(columns), self._sides(np.array([item]))[0])
        above = np.asarray(values, np.float64) - self.means[columns]
        return np.asarray((self._sides(columns) @ pull) * above)

    def similar(self, item: int) -> NDArray[np.float64]:
        """Correlation of the two items' ratings under the model, beyond users' offsets."""
        wide = self.loadings.astype(np.float64)
        lengths = np.sqrt((wide**2).sum(axis=1) + self.noise)
        likeness = np.clip(wide @ wide[item] / (lengths * lengths[item]), -1.0, 1.0)
        likeness[item] = -np.inf
        return np.asarray(likeness)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Loadings, means and doubts."""
        return {"loadings": self.loadings, "means": self.means, "doubts": self.doubts}

    def settings(self) -> dict[str, Any]:
        """Variances, and where the loadings come from."""
        return {"noise": self.noise, "offset": self.offset, "kind": self._kind}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> PatternScorer:
        """Rebuild it from `arrays` and `settings`."""
        if set(arrays) != {"loadings", "means", "doubts"} or set(settings) != {"noise", "offset", "kind"}:
            raise BadModel(
                "the parts of a pattern model are incomplete.",
                expected="loadings, means, doubts and settings",
                parameter="arrays",
            )
        parts: dict[str, Any] = {**arrays, **settings}
        return cls(**parts)

    @property
    def _patterns(self) -> NDArray[np.float64]:
        """Ones on the diagonal for the patterns, and none for the offset."""
        return np.diag(np.concatenate([np.ones(self.loadings.shape[1]), [0.0]]))

    @property
    def _prior(self) -> NDArray[np.float64]:
        return np.diag(np.concatenate([np.full(self.loadings.shape[1], self.noise), [self.noise / self.offset]]))

    def _sides(self, items: Any) -> NDArray[np.float64]:
        """Loadings of some items, and a one for the offset."""
        wide = self.loadings[items].astype(np.float64)
        return np.hstack([wide, np.ones((len(wide), 1))])

    def _matrix(self, columns: Columns) -> NDArray[np.float64]:
        sides, doubt = self._sides(columns), float(self.doubts[columns].sum(dtype=np.float64))
        return np.asarray(sides.T @ sides + doubt * self._patterns + self._prior)


class PatternFit:
    """One entity's ratings, prepared for patterns of any strength.

    Parameters
    ----------
    rows : csr array (users, items)
        Private.
    shared : ItemFactors or None
        What the server sent, with patterns; never written to.
    features : Features or None
        Public table of what the items are.
    rank : int
        Most patterns of an entity's own.
    seed : int
        Start of an entity's own patterns.
    """

    def __init__(
        self, rows: sparse.csr_array, shared: ItemFactors | None, features: Features | None, *, rank: int, seed: int
    ) -> None:
        self.rows, self.shared, self.features = rows, shared, features
        self.rank, self.seed = rank, seed

    def scorer(self, strength: float) -> PatternScorer:
        """Patterns pulled towards the shared ones: not at all, with some strength, or the shared ones unchanged."""
        if self.shared is None or self.shared.patterns is None or strength == 0:
            prior = own_prior(self.rows, rank=self.rank, seed=self.seed)
            return _scorer(_fitted(self.rows, prior, sweeps=SWEEPS["own"]), "patterns")
        if math.isinf(strength):
            return _scorer(_fitted(self.rows, shared_prior(self.shared, rank=None), fixed=True), "patterns")
        prior = shared_prior(self.shared, rank=self.rank)
        return _scorer(_fitted(self.rows, prior, strength=strength), "patterns")

    def featured(self) -> PatternScorer:
        """Patterns pulled towards public features; nothing shared is used."""
        assert self.features is not None
        return _scorer(_fitted(self.rows, feature_prior(self.rows, self.features, rank=self.rank)), "features")


@dataclass(eq=False)
class _State:
    """Everything that is estimated, in standard deviations of a rating."""

    mean: float
    scale: float
    items: Posterior = field(repr=False)
    places: Wide = field(repr=False)
    loadings: Wide = field(repr=False)
    noise: float = NOISE
    item_offsets: float = ITEMS
    user_offsets: float = USERS


def _fitted(
    rows: sparse.csr_array,
    prior: ItemPrior,
    *,
    sweeps: int = SWEEPS["drawn"],
    strength: float = 0.0,
    fixed: bool = False,
) -> _State:
    mean, scale, target, start = _standard(rows, prior)
    items, width = start.shape[0], start.shape[1] - 1
    triangle = np.zeros((items, (width + 1) * (width + 2) // 2))
    state = _State(
        mean=mean,
        scale=scale,
        items=Posterior(means=start, spreads=triangle),
        places=np.eye(width),
        loadings=np.full(width, LOADINGS),
    )
    table = Table.of(_shifted(rows, mean, scale))
    turned = table.turned
    for _ in range(SWEEPS["fixed"] if fixed else sweeps):
        users = _users(state, table, free=prior.free)
        if not fixed:
            _items(state, turned, users, target, strength)
    return state


def _standard(rows: sparse.csr_array, prior: ItemPrior) -> tuple[float, float, Wide, Wide]:
    """Mean and size of a rating, and the prior and the start of (loadings, offset) of every item in that unit."""
    counts = np.bincount(rows.indices, minlength=rows.shape[1]).astype(np.float64)
    values = rows.data.astype(np.float64)
    offsets, mean, scale = prior.offsets, 0.0, 1.0
    if values.size:
        offsets = offsets - counts @ offsets / counts.sum()
        mean, spread = float(values.mean()), float(values.std())
        scale = spread if spread > LEAST * max(1.0, abs(mean)) else 1.0
    # Loadings of public features and of a start have no unit; those that were sent are in that of the ratings.
    target = np.column_stack([prior.loadings / (scale if prior.rated else 1.0), offsets / scale])
    start = np.column_stack([prior.start / (scale if prior.rated else 1.0), offsets / scale])
    if not np.isfinite(target).all():
        raise BadNumber("a prior is NaN or infinite.")
    return mean, scale, target, start


def _shifted(rows: sparse.csr_array, mean: float, scale: float) -> sparse.csr_array:
    return with_data(rows, (rows.data.astype(np.float64) - mean) / scale)


def _users(state: _State, table: Table, *, free: bool) -> Posterior:
    """Update the places of all users, then the variances that follow from them."""
    width = state.items.means.shape[1] - 1
    precision = np.zeros((width + 1, width + 1))
    precision[:width, :width] = np.linalg.inv(state.places)
    precision[width, width] = 1.0 / state.user_offsets
    found = posterior(table, *_regressors(state.items), precision, np.zeros(width + 1), noise=state.noise)
    if not table.marks.nnz:
        return found
    offsets, spread = state.items.means[:, width], state.items.spreads[:, -1]
    left = (
        (table.values.data**2).sum() - 2 * (table.values @ offsets).sum() + (table.marks @ (offsets**2 + spread)).sum()
    )
    state.noise = max((float(left) - found.explained) / table.marks.nnz, LEAST)
    second = unpacked(found.squares.sum(axis=0)[None, :], width + 1)[0]
    users = found.means.shape[0]
    state.user_offsets = max(second[width, width] / users, LEAST)
    if not free:  # with nothing known of the loadings their size says it all
        weight = width + PRIOR_USERS
        state.places = (second[:width, :width] + weight * state.places) / (users + weight) + LEAST * np.eye(width)
    return found


def _items(state: _State, turned: Table, users: Posterior, target: Wide, strength: float) -> None:
    """Update loadings and offsets of all items, then the variances around their priors."""
    width = target.shape[1] - 1
    precision = np.zeros((width + 1, width + 1))
    precision[:width, :width] = np.diag(1.0 / state.loadings) + strength * state.places / state.noise
    precision[width, width] = 1.0 / state.item_offsets
    found = posterior(turned, *_regressors(users), precision, target @ precision, noise=state.noise)
    state.items = found
    rated = turned.lengths > 0
    if rated.any():
        diagonal = np.cumsum(np.concatenate([[0], np.arange(width + 1, 1, -1)]))
        spread = ((found.means - target) ** 2 + found.spreads[:, diagonal])[rated].mean(axis=0)
        state.loadings = np.maximum(spread[:width], LEAST)
        state.item_offsets = max(float(spread[width]), LEAST)


def _regressors(side: Posterior) -> tuple[Wide, Wide, Wide]:
    """Regressors (loadings, 1), their second moments, and those with the offset, which is the last number of a side."""
    width = side.means.shape[1] - 1
    offsets = side.means[:, width]
    regressors = np.column_stack([side.means[:, :width], np.ones(len(offsets))])
    one, other = np.triu_indices(width + 1)
    squares = packed_squares(regressors) + np.where(other < width, side.spreads, 0.0)
    shifted = regressors * offsets[:, None]
    shifted[:, :width] += side.spreads[:, (other == width) & (one < width)]
    return regressors, squares, shifted


def _scorer(state: _State, kind: str) -> PatternScorer:
    """Back to the unit of ratings, with places of variance 1; an item's covariances become one number."""
    width = state.items.means.shape[1] - 1
    covariances = unpacked(state.items.spreads, width + 1)[:, :width, :width]
    doubts = np.einsum("nij,ij->n", covariances, state.places) / width
    return PatternScorer(
        state.scale * state.items.means[:, :width] @ np.linalg.cholesky(state.places),
        means=state.mean + state.scale * state.items.means[:, width],
        doubts=state.scale**2 * np.maximum(doubts, 0.0),
        noise=state.scale**2 * state.noise,
        offset=state.scale**2 * state.user_offsets,
        kind=kind,
    )
