"""What an evaluation may know and what it has to find: later entries, or some held out of what the model knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import summed, with_data
from twofold.data.ratings import Ratings
from twofold.data.split import Split, recorded_holdout
from twofold.entity.model import Model
from twofold.entity.models.side import unit_rows
from twofold.entity.personalize import read_factors
from twofold.errors import BadParameter, DataError, EmptyTable, PlanMismatch, Set
from twofold.evaluation.measure import Measured, Scorer, measure
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan

__all__ = ["SHARE", "Judged", "factors_of", "held_out_entries", "later_entries", "plan_of"]

#: Share of everyone's entries that is held out, unless somebody splits otherwise.
SHARE: Final = 0.2
_OUTSIDE: Final = "rows of items outside the catalog"


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """What systems may know, and what they have to find, of the same people."""

    rest: Ratings
    held: Ratings
    how: str
    shared: ItemFactors | None = None
    caveats: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def people(self) -> NDArray[np.intp]:
        """Rows of those who have something to find."""
        return np.flatnonzero(self.held.entries_per_user)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Lengths of their histories."""
        return self.rest.entries_per_user[self.people]

    def measured(self, system: Scorer, *, n: int, metrics: tuple[str, ...], limits: tuple[float, float]) -> Measured:
        """Measure a system on these people."""
        found = measure(
            system,
            self.rest.matrix,
            self.held.matrix,
            feedback=self.rest.feedback,
            n=n,
            metrics=metrics,
            lower=limits[0],
            bound=limits[1],
        )
        return found.take(self.people)


def plan_of(model: Model, plan: Plan | None) -> Plan | None:
    """Give the plan to fit with: the model's own, or the same one with what a model file does not hold.

    Raises
    ------
    PlanMismatch
        It is another plan, or the public features that it names are missing.
    """
    own = model.plan
    if plan is not None and (own is None or plan.hash != own.hash):
        raise PlanMismatch(
            "this is not the plan of the model.",
            found=f"plan {plan.hash[:12]}",
            expected="no plan: the model was made without one" if own is None else f"plan {own.hash[:12]}",
            parameter="plan",
        )
    found = own if plan is None else plan
    if found is not None and found.features is not None and found.features_table is None:
        raise PlanMismatch(
            "the plan names public features, and the table is missing: a model file holds its hash only.",
            fix=Set("plan", "plan.toml"),
            parameter="plan",
        )
    return found


def factors_of(
    model: Model, factors: ItemFactors | bytes | str | PathLike[str], plan: Plan | None = None
) -> ItemFactors:
    """Read the shared factors, which must be those of the model; the plan has the keys that signed them."""
    agreed = model.plan if plan is None else plan
    if agreed is None or model.alone:
        raise BadParameter(
            "nothing was shared with this model, so it has no item factors.", fix="leave them out", parameter="factors"
        )
    if agreed.roster is not None and agreed.members is None and not isinstance(factors, ItemFactors):
        raise PlanMismatch(
            "to check who signed the item factors, the plan is needed: a model file holds its hash only.",
            expected=f"plan {agreed.hash[:12]}, with the list of everybody's public keys beside it",
            fix=Set("plan", "plan.toml"),
            parameter="plan",
        )
    found = read_factors(factors, agreed)
    if found.hash != model.factors_hash:
        raise PlanMismatch(
            "these are not the item factors that the model was made with.",
            found=f"factors {found.hash[:12]}",
            expected=f"factors {model.factors_hash[:12]}",
            parameter="factors",
        )
    return found


def _same_list(model: Model, ratings: Any, parameter: str) -> Ratings:
    """Refuse a table of another catalog; cut its values to the range that the model was fitted with."""
    if not isinstance(ratings, Ratings):
        raise DataError(
            "not ratings.", found=f"a {type(ratings).__name__}", fix="read_ratings(...)", parameter=parameter
        )
    if ratings.catalog.hash != model.catalog.hash:
        raise PlanMismatch(
            "the table was read with a catalog that is not the model's.",
            found=f"catalog {ratings.catalog.hash[:12]} of {len(ratings.catalog):,} items",
            expected=f"catalog {model.catalog.hash[:12]} of {len(model.catalog):,} items",
            fix="read it with the model's own list: model.catalog",
            parameter="catalog",
        )
    read = ratings.as_feedback(model.history.feedback)
    return read.replace(with_data(read.matrix, np.clip(read.matrix.data, model.lower, model.bound)))


def later_entries(model: Model, test: Any) -> Judged:
    """Keep what a table has that is new about people the model knows; count the rest.

    Raises
    ------
    EmptyTable
        Nothing of it is new, or nobody in it is known.
    """
    given, history = _same_list(model, test, "test"), model.history
    if not given.n_entries:
        raise EmptyTable("the test table has no entries.", parameter="test")
    places = [history.user_ids.get(one) for one in given.user_ids]
    owners = np.repeat(np.array([-1 if at is None else at for at in places], np.int64), given.entries_per_user)
    columns, known = given.matrix.indices, owners >= 0
    own = np.repeat(np.arange(history.n_users), history.entries_per_user) * given.n_items + history.matrix.indices
    seen = known & np.isin(owners * given.n_items + columns, own)
    new = known & ~seen
    if not new.any():
        raise EmptyTable(
            "the test table has nothing new about people whom the model knows.",
            expected=f"entries that came after the model was fitted, of people with ids of type "
            f"{history.user_ids.kind}, as in the model",
            fix="a later table; or leave it out, and entries are held out of the model's own histories",
            parameter="test",
        )
    cells = sparse.coo_array((given.matrix.data[new], (owners[new], columns[new])), shape=history.matrix.shape)
    held = history.replace(summed(sparse.csr_array(cells)))
    left = {
        "people the model does not know": places.count(None),
        "entries of people the model does not know": int(np.count_nonzero(~known)),
        "entries the model has seen": int(np.count_nonzero(seen)),
        _OUTSIDE: given.notes.unknown_items_dropped,
    }
    people = int(np.count_nonzero(held.entries_per_user))
    return Judged(
        rest=history,
        held=held,
        how=f"The model was judged as it is, on {held.n_entries:,} entries of {people:,} people from a later table.",
        left_out={name: number for name, number in left.items() if number},
        caveats=("Whether that table is really later than the model, only you can know.",),
    )


def held_out_entries(
    model: Model, split: Split[Ratings] | None, shared: ItemFactors | None, *, seed: int, climbs: bool
) -> Judged:
    """Hold entries out, and take what the entity sent about them out of what was shared.

    Parameters
    ----------
    model, split, shared
        As for `evaluate`.
    seed : int
        Seed of the split, if none is given.
    climbs : bool
        Whether validation chooses the model, which for counts then uses the noisy totals and nothing else of what was
        shared.
    """
    if not model.alone and shared is None:
        raise BadParameter(
            "to fit the model again, the shared item factors are needed.",
            expected=f"factors {model.factors_hash[:12]}; the model file holds their hash only",
            fix=("the file that the server sent, such as items.round2", "or a table of later entries, as test"),
            parameter="factors",
        )
    if split is None:
        if not model.history.n_entries:
            raise EmptyTable("the model has no histories to hold entries out of.", parameter="data")
        split = recorded_holdout(model.history, users=1.0, probability=SHARE, rng=seed)
    if not isinstance(split, Split):
        raise DataError(
            "not a split.", found=f"a {type(split).__name__}", fix="leave_n_out(ratings, n=1)", parameter="split"
        )
    rest, held = (_same_list(model, one, "split") for one in (split.train, split.test))
    if rest.user_ids != held.user_ids:
        raise DataError("the two parts of the split have different people.", parameter="split")
    dropped = rest.notes.unknown_items_dropped
    if not rest.n_entries and not held.n_entries:
        raise EmptyTable("the table has no entries.", parameter="data")
    if not held.n_entries:
        raise EmptyTable(
            "nothing was held out: nobody's last entry is taken, and of few entries chance may take none.",
            expected="enough people with two entries or more",
            fix=("leave one out of everyone: --leave-n-out 1, or leave_n_out", "a table of later entries, as test"),
            parameter="split",
        )
    people = int(np.count_nonzero(held.entries_per_user))
    how = (
        f"{held.n_entries:,} entries of {people:,} people were held out; every system, the model too, was fitted "
        f"to the other {rest.n_entries:,}."
    )
    caveats = ["The model in use knows the held-out entries as well, and is probably a little better than this."]
    if shared is not None:
        shared, said = _without_held_out(shared, rest, held, climbs=climbs)
        caveats.append(said)
    left = {_OUTSIDE: dropped} if dropped else {}
    return Judged(rest=rest, held=held, how=how, shared=shared, caveats=tuple(caveats), left_out=left)


def _without_held_out(shared: ItemFactors, rest: Ratings, held: Ratings, *, climbs: bool) -> tuple[ItemFactors, str]:
    """Exchange the entity's part of noisy totals for that of the rest, so that a fit takes all of it out.

    A fit to counts takes its own rows out of the totals (`others_of`). Fitted to the rest, it would take out the rest
    only, and meet the held-out entries as if others had had them.
    """
    totals = shared.totals
    if rest.feedback != "counts" or totals is None or not climbs:
        return shared, (
            "The shared factors were made with this entity's own release, of which the held-out entries were part: "
            "seen through noise, but seen. The figure for joining may be a little too good; a later table has no such "
            "doubt."
        )
    whole = unit_rows(_joined(rest, held))
    left = unit_rows(rest.matrix.astype(np.float32))
    weight = totals.weight(rest.n_users)
    own = (whole.T @ whole - left.T @ left).toarray()
    sums = np.asarray(whole.sum(axis=0) - left.sum(axis=0)).ravel()
    cleaned = replace(
        totals,
        pairs=totals.pairs.astype(np.float64) - weight * own,
        sums=totals.sums - weight * sums,
    )
    return replace(shared, totals=cleaned), (
        "This entity's own part was taken out of the shared totals, held-out entries included, before anything was "
        "fitted: they do not come back through what was shared."
    )


def _joined(rest: Ratings, held: Ratings) -> Any:
    return (rest.matrix.astype(np.float32) + held.matrix.astype(np.float32)).tocsr()
