"""Private item means and covariance, and predictions from them: McSherry and Mironov 2009."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from studies.systems._covariance import Covariance, covariance_score, leading
from studies.systems._pair_sums import PairSums
from studies.systems.base import Feedback, Fitted, Traffic, read_as
from studies.systems.exchange import Release, entity_seed
from studies.systems.factorization import rows_bytes
from twofold.csr import with_data
from twofold.data.federation import Federation
from twofold.entity.agent import bounded
from twofold.federation.plan import Plan
from twofold.privacy.events import Event, SequentialEvent
from twofold.privacy.rng import Seeded
from twofold.release.cells import CellNoise
from twofold.release.combine import added_up
from twofold.release.content import WeightedRows
from twofold.release.records import check_rows, statistic

__all__ = ["McSherryMironov"]

Floats = NDArray[Any]
_SHARES = {"counts": {"means": 1, "products": 3}, "ratings": {"means": 1, "products": 2, "pairs": 1}}


@dataclass(frozen=True, kw_only=True)
class McSherryMironov:
    """Noisy item means, then noisy covariance of the most common items; users are predicted by ridge regression.

    Parameters
    ----------
    release : Release
        ε, δ and bounds; its mechanism is not used.
    rank : int
        Most directions of the covariance that are kept; fewer where noise drowns them.
    items : int
        How many items have a covariance, chosen by the released means; the others are predicted at their means.
    clamp : float
        For ratings: largest residual of a rating.
    damping : float
        For ratings: with how many ratings of no surprise a user's own mean is averaged.
    curator : bool
        True sends raw rows to a curator who adds the noise once, as in the original. That curator must be trusted, so
        it is not called private here.

    Paper
    -----
    McSherry and Mironov 2009, "Differentially Private Recommender Systems", named in section 3 as needing the raw data
    in one place.

    Privacy
    -------
    Two or three releases per entity in sequence (`SequentialEvent`), whose prices add up to the budget exactly: item
    sums and counts (`CellNoise`), then for the chosen items products of residuals and, for ratings, of observations
    (`PairSums`). Unit: a person with their whole row. Chosen items, residuals and offsets come from the person's own
    row and from what was released before.

    Deviations
    ----------
    The unit is a person, not one rating. Noise is added at every entity. Noise is discrete and exact. The original's
    nearest neighbours and SVD of the cleaned covariance are here the leading eigenvectors above the noise edge, with
    users fitted by ridge regression. Counts, which the original does not treat, have the covariance of whole rows.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> system = McSherryMironov(release=Release(epsilon=2, max_items=20), items=10, rank=2)
    >>> fitted = system.fit(hospitals.load(0.001), feedback="counts", seed=0)
    >>> fitted.rounds, fitted.epsilon, fitted.bytes_up == 8 * (457 + 1 + 55)
    (4, 2.0, True)
    """

    release: Release = field(default_factory=lambda: Release(mechanism="popularity"))
    rank: int = 20
    items: int = 500
    clamp: float = 2.0
    damping: float = 5.0
    curator: bool = False

    @property
    def name(self) -> str:
        """How tables name it."""
        return "McSherry-Mironov" + (", trusted curator" if self.curator else "")

    @property
    def private(self) -> bool:
        """Yes, unless raw rows go to a curator."""
        return not self.curator

    def fit(self, train: Federation, *, feedback: Feedback, seed: int) -> Fitted:
        """Release means, choose items, release products, predict."""
        entities = read_as(train, feedback, seed)
        plan = Release(**{**vars(self.release), "mechanism": "popularity"}).plan(entities, feedback=feedback, rank=1)
        holders = {"everybody": entities.pooled()} if self.curator else dict(entities)
        rows = {label: bounded(one, plan).matrix for label, one in holders.items()}
        noise = {label: Seeded(entity_seed(seed, label)) for label in rows}
        means, first = self._means(rows, plan, noise)
        kept = _common(means, min(self.items, plan.n_items))
        found, later = self._covariance(rows, plan, noise, means, kept)
        factors = leading(found, self.rank)
        score = covariance_score(means.values[0], kept, factors, feedback=feedback, damping=self.damping)
        event = SequentialEvent.of(first, *later)
        return Fitted(
            scorers=dict.fromkeys(entities, score),
            traffic=self._traffic(entities, first, later, kept.size, factors.vectors.size),
            promise=None if self.curator else plan.budget,
            event=event,
            note=f"{factors.vectors.shape[1]} directions above the noise, {kept.size} items"
            + ("; a curator sees raw rows" if self.curator else ""),
        )

    def _means(
        self, rows: dict[Any, sparse.csr_array], plan: Plan, noise: dict[Any, Seeded]
    ) -> tuple[WeightedRows, Event]:
        public = plan.parameters
        cells = CellNoise(public=public, budget=self._part(plan, "means"), cells=1)
        released = []
        for label, matrix in rows.items():
            everybody = statistic(
                check_rows(matrix, public), public, cells.plan, lambda block: np.zeros(block.n_users, np.int64), cells=1
            )
            released.append(cells.release(everybody, name="means", rng=noise[label]))
        return added_up([one.value for one in released], public), released[0].event

    def _covariance(
        self, rows: dict[Any, sparse.csr_array], plan: Plan, noise: dict[Any, Seeded], means: WeightedRows, kept: Floats
    ) -> tuple[Covariance, list[Event]]:
        ratings = plan.feedback == "ratings"
        size = min(plan.max_items, kept.size)
        # a person's vector is divided by the root of its length for ratings, so that its square norm is a mean square
        top = self.clamp if ratings else plan.parameters.row_l2
        wide = self.clamp * size**0.5 if ratings else min(plan.parameters.row_l1, plan.bound * size)
        products = PairSums(l1=wide, l2=top, budget=self._part(plan, "products"), unit=plan.unit)
        vectors = {label: self._residuals(one, means.values[0], kept, ratings) for label, one in rows.items()}
        sums, events = _total(products, vectors, noise)
        if not ratings:
            users = max(float(means.sizes[0]), 1.0)
            return Covariance.of_counts(
                sums, products.deviation * len(rows) ** 0.5, means.values[0][kept], users
            ), events
        pairs = PairSums(l1=size**0.5, l2=1.0, budget=self._part(plan, "pairs"), unit=plan.unit)
        counted, more = _total(pairs, {label: _evened(one) for label, one in vectors.items()}, noise)
        errors = products.deviation * len(rows) ** 0.5, pairs.deviation * len(rows) ** 0.5
        return Covariance.of_ratings(sums, counted, errors), events + more

    def _residuals(self, rows: sparse.csr_array, means: Floats, kept: Floats, ratings: bool) -> sparse.csr_array:
        """What a person gave above the released means and above their own damped mean, clamped; counts as they are."""
        own = sparse.csr_array(rows[:, kept])
        own.sort_indices()
        if not ratings:
            return own.astype(np.float64)
        lengths = np.diff(own.indptr)
        above = own.data.astype(np.float64) - means[kept][own.indices]
        owners = np.repeat(np.arange(lengths.size), lengths)
        offsets = np.bincount(owners, weights=above, minlength=lengths.size) / (lengths + self.damping)
        values = np.clip(above - offsets[owners], -self.clamp, self.clamp) / np.sqrt(lengths[owners])
        return with_data(own, values)

    def _part(self, plan: Plan, name: str) -> Any:
        return plan.parameters.budget.split(**_SHARES[plan.feedback])[name]

    def _traffic(self, entities: Federation, first: Event, later: list[Event], kept: int, numbers: int) -> Traffic:
        """Whole numbers as int64 up; means, chosen columns, factors and one variance down as 4 bytes each."""
        down = 4 * (len(entities.catalog) + kept + numbers + 1)
        if self.curator:
            up = sum(rows_bytes(one.matrix) for one in entities.values())
            return Traffic(rounds=2, bytes_up=up, bytes_down=len(entities) * down)
        sent = 8 * sum(one.coordinates for one in (first, *later))  # type: ignore[attr-defined]
        return Traffic(rounds=4, bytes_up=len(entities) * sent, bytes_down=len(entities) * down)


def _common(means: WeightedRows, count: int) -> NDArray[np.intp]:
    """Columns of the items most is known about, by what was released: most ratings, or largest mean count."""
    known = means.values[0] if means.entry_weights is None else means.entry_weights[0]
    return np.sort(np.argsort(-known, kind="stable")[:count])


def _evened(vectors: sparse.csr_array) -> sparse.csr_array:
    """One over the root of the length at every entry of a person."""
    lengths = np.diff(vectors.indptr)
    return with_data(vectors, 1 / np.sqrt(np.repeat(lengths, lengths)))


def _total(
    sums: PairSums, vectors: dict[Any, sparse.csr_array], noise: dict[Any, Seeded]
) -> tuple[NDArray[np.float64], list[Event]]:
    """Add the entities' releases up; one event, the same at every entity."""
    released = [sums.release(one, rng=noise[label]) for label, one in vectors.items()]
    n_items = next(iter(vectors.values())).shape[1]
    return sums.matrix(np.sum([one.value for one in released], axis=0), n_items), [released[0].event]
