r"""Use and taste together: a score is a sum of logarithms, with weights that hidden entries of the entity chose.

A list by use alone is hard to beat where people are few, and item-item weights alone are where they are many. Instead
of choosing, a stack adds them in the logarithm, where either can say no more than the other lets it:

.. math:: z_{uj} = w_P \log P_j + w_E \log\Big(\frac{\max(E_{uj}, 0)}{\mathrm{sd}_u(E)} + 0.3\Big)

P is use, E the score of another local model for the person, sd its spread over the catalog, so that neither the unit of
E nor the length of a history matters.

The weights are those of a softmax: given the rest of a history, hidden entries are drawn from the items without an
entry with probability proportional to :math:`e^z`. They are at least 0 and have a normal prior, so few people move them
little. The problem is concave; Newton steps solve it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms import _reference, _softmax_kernels
from twofold.algorithms._jit import numba_enabled
from twofold.csr import csr_rows
from twofold.entity.models.blend import Columns, Floats, Scorer, Wide
from twofold.errors import BadModel, BadShape

__all__ = ["FLOOR", "Hidden", "StackScorer", "Weighed", "taste", "weigh"]

#: What is added to a score of no taste, in spreads.
FLOOR: Final = 0.3
#: Newton steps; the first few do nearly all.
_STEPS: Final = 25
#: Nats of a last step that is taken without a look: the curvature tells them to a hundredth.
_NEAR: Final = 1e-3


def taste(scores: Floats) -> Wide:
    """Bring scores of another model to the logarithm, person by person.

    Examples
    --------
    >>> taste(np.array([[0.0, 0.0, 0.0], [2.0, -1.0, -1.0]])).round(2).tolist()
    [[-1.2, -1.2, -1.2], [0.54, -1.2, -1.2]]
    """
    wide = np.asarray(scores, np.float64)
    spread = wide.std(axis=1, keepdims=True)
    found = np.maximum(wide, 0.0)
    found /= np.where(spread > 0, spread, 1.0)
    found += FLOOR
    return np.asarray(np.log(found, out=found))


@dataclass(frozen=True, kw_only=True, eq=False)
class Hidden:
    """Histories and what was hidden of them.

    Parameters
    ----------
    history, held : csr arrays (users, items)
        The same users; every one has something held out.
    """

    history: sparse.csr_array = field(repr=False)
    held: sparse.csr_array = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighed:
    """Weights of a stack and how well hidden entries are told with them, in nats.

    Attributes
    ----------
    weights : array
        At least 0.
    likelihood : float
        Logarithm of the probability of all hidden entries.
    worth : float
        The same less what the prior charges for the weights.
    """

    weights: Wide
    likelihood: float
    worth: float


def weigh(
    parts: Sequence[Wide],
    hidden: Hidden,
    *,
    centre: Sequence[float],
    spread: float = 1.0,
    start: Wide | None = None,
) -> Weighed:
    """Find the weights of a softmax over what a person does not have yet.

    Parameters
    ----------
    parts : sequence of arrays (users, items) or (items,)
        What is to be weighed.
    hidden : Hidden
        What the softmax has to tell.
    centre, spread
        Mean and standard deviation of the normal prior of each weight.
    start : array, optional
        Where to begin; the result does not depend on it beyond rounding.

    Examples
    --------
    >>> history, held = (sparse.csr_array(np.array([[a, 0.0, b]])) for a, b in ((1.0, 0.0), (0.0, 1.0)))
    >>> found = weigh([np.array([0.0, 0.0, 1.0])], Hidden(history=history, held=held), centre=[1.0])
    >>> found.weights.round(2).tolist(), round(found.likelihood, 2)
    ([1.23], -0.26)
    """
    middle = np.asarray(centre, np.float64)
    if not hidden.history.shape[0]:
        return Weighed(weights=middle, likelihood=0.0, worth=0.0)
    asked = _Asked(parts, hidden, middle, spread)
    here = asked.at(middle if start is None else start)
    for _ in range(_STEPS):
        step, size = here.step(spread), 1.0
        if (gain := 0.5 * float(step @ here.slope)) < _NEAR and (here.weights + step >= 0).all():
            return asked.ended(here.weights + step, here.worth + gain)
        there = here
        while size > 1e-3:
            there = asked.at(np.maximum(here.weights + size * step, 0.0))
            if there.worth >= here.worth:
                break
            size /= 2
        else:
            break
        gained, here = there.worth - here.worth, there
        if gained < 1e-6 * (1.0 + abs(here.worth)):
            break
    return asked.ended(here.weights, here.worth)


class _Asked:
    """What is weighed, by whom, and the prior."""

    def __init__(self, parts: Sequence[Wide], hidden: Hidden, middle: Wide, spread: float) -> None:
        users, items = hidden.history.shape
        self.middle, self.spread, self.history = middle, spread, hidden.history
        self.number = np.diff(hidden.held.indptr).astype(np.float64)
        owners, wanted = np.repeat(np.arange(users), np.diff(hidden.held.indptr)), hidden.held.indices
        self.parts = np.empty((users, len(parts), items))
        for k, part in enumerate(parts):
            self.parts[:, k] = part
        self.target = self.parts[owners, :, wanted].sum(axis=0)

    def at(self, weights: Wide) -> _Point:
        """Worth of some weights, with its slope and curvature."""
        users, number, _ = self.parts.shape
        sizes, moments = np.empty(users), np.empty((users, number, 1 + number))
        run: Any = _softmax_kernels.softmax_moments if numba_enabled() else _reference.softmax_moments
        run(self.parts, weights, self.history.indptr, self.history.indices, sizes, moments)
        # A person counts as often as they have hidden entries.
        means, square = moments[:, :, 0], np.tensordot(self.number, moments[:, :, 1:], 1)
        apart = (weights - self.middle) / self.spread
        likelihood = float(self.target @ weights - self.number @ sizes)
        return _Point(
            weights=weights,
            worth=likelihood - 0.5 * float(apart @ apart),
            slope=self.target - self.number @ means - apart / self.spread,
            square=square - (means.T * self.number) @ means,
        )

    def ended(self, weights: Wide, worth: float) -> Weighed:
        """The result at some weights."""
        apart = (weights - self.middle) / self.spread
        return Weighed(weights=weights, likelihood=worth + 0.5 * float(apart @ apart), worth=worth)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Point:
    """Weights, their worth, and the slope and curvature of it."""

    weights: Wide
    worth: float
    slope: Wide
    square: Wide

    def step(self, spread: float) -> Wide:
        """One step of Newton; a weight held at 0 that wants to fall stays there."""
        square = self.square.copy()
        square[np.diag_indices_from(square)] += 1.0 / spread**2
        free = (self.weights > 0) | (self.slope > 0)
        step = np.zeros_like(self.weights)
        if free.any():
            step[free] = np.linalg.solve(square[np.ix_(free, free)], self.slope[free])
        return step


class StackScorer:
    """Use and, where it helps, the taste of another local model, added in the logarithm.

    Parameters
    ----------
    use : array (items,)
        log P of each item.
    inner : Scorer or None
        The other model; None ranks by use.
    weights : pair of float
        Of use and of taste, at least 0.

    Examples
    --------
    >>> by_use = StackScorer(np.log([0.5, 0.3, 0.2]), inner=None, weights=(1.0, 0.0))
    >>> by_use.one(np.array([0]), np.array([1.0])).argmax(), by_use.kind
    (np.int64(0), 'popularity')
    """

    def __init__(self, use: Floats, *, inner: Scorer | None, weights: tuple[float, float]) -> None:
        self.use = np.array(use, dtype=np.float32)
        self.inner, self.weights = inner, (float(weights[0]), float(weights[1]))
        if self.use.ndim != 1 or (inner is not None and inner.n_items != self.use.size):
            raise BadShape("the parts of a stack do not have the same items.", parameter="use")
        if not all(np.isfinite(one) and one >= 0 for one in self.weights):
            raise BadModel("the weights of a stack are not valid.", expected="numbers of at least 0")
        self.use.flags.writeable = False

    @property
    def kind(self) -> str:
        """Name in an artefact."""
        return "popularity" if self.inner is None else "stack"

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return int(self.use.size)

    def scores(self, rows: sparse.csr_array) -> NDArray[np.float32]:
        """Score every item for every history; see `Scorer`."""
        base = np.broadcast_to(self._base, (rows.shape[0], self.n_items))
        if self.inner is None:
            return np.array(base, dtype=np.float32)
        scores = np.asarray(base + self.weights[1] * taste(self.inner.scores(rows)), dtype=np.float32)
        scores[np.diff(rows.indptr) == 0] = self.use  # a person without a history has no taste yet
        return scores

    def one(self, columns: Columns, values: Floats) -> NDArray[np.float32]:
        """Score every item for one history; see `Scorer`."""
        starts = np.array([0, len(columns)])
        row = csr_rows(np.asarray(values, dtype=np.float32), np.asarray(columns), starts, (1, self.n_items))
        return np.asarray(self.scores(row)[0])

    def reasons(self, columns: Columns, values: Floats, item: int) -> Wide:
        """How much each entry added to the score of one item, above what use alone gives.

        Taste is a logarithm of a sum over the history. What it adds is dealt out to the entries in proportion to their
        part of that sum.
        """
        if self.inner is None or not len(columns):
            return np.zeros(len(columns))
        starts = np.array([0, len(columns)])
        row = csr_rows(np.asarray(values, dtype=np.float32), np.asarray(columns), starts, (1, self.n_items))
        added = self.weights[1] * float(taste(self.inner.scores(row))[0, item] - np.log(FLOOR))
        told = self.inner.reasons(columns, values, item)
        total = float(told.sum())
        return np.asarray(told * (added / total)) if total > 0 and added > 0 else np.zeros(len(columns))

    def constant(self, item: int) -> float:
        """The part of the score that no entry explains: the score less its `reasons`."""
        return float(self._base[item] + (0.0 if self.inner is None else self.weights[1] * np.log(FLOOR)))

    def similar(self, item: int) -> Wide:
        """Similarity under the other model; by use alone, no two items are alike."""
        if self.inner is not None:
            return self.inner.similar(item)
        alike = np.zeros(self.n_items)
        alike[item] = -np.inf
        return alike

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Use, and the arrays of the other model."""
        more = {} if self.inner is None else {f"inner_{name}": part for name, part in self.inner.arrays().items()}
        return {"use": self.use, **more}

    def settings(self) -> dict[str, Any]:
        """Weights, and the settings of the other model."""
        inner = {} if self.inner is None else {"inner": self.inner.kind, "inner_settings": self.inner.settings()}
        return {"weights": list(self.weights), **inner}

    @classmethod
    def rebuild(cls, arrays: dict[str, NDArray[Any]], settings: dict[str, Any]) -> StackScorer:
        """Rebuild it from `arrays` and `settings`."""
        from twofold.entity.artefact import rebuilt  # which knows every kind, this one included

        weights, inner = settings.get("weights"), None
        if not isinstance(weights, list) or len(weights) != 2 or "use" not in arrays:
            raise BadModel("the parts of a stack are incomplete.", expected="use, weights and another model")
        if "inner" in settings:
            parts = {name.removeprefix("inner_"): part for name, part in arrays.items() if name != "use"}
            inner = rebuilt(settings["inner"], parts, settings.get("inner_settings"))
        return cls(arrays["use"], inner=inner, weights=(weights[0], weights[1]))

    @property
    def _base(self) -> Wide:
        return np.asarray(self.weights[0] * self.use.astype(np.float64))
