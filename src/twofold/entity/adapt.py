"""An entity's own model, pulled towards the shared one as far as its own validation supports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from scipy import sparse

from twofold.algorithms._jit import one_blas_thread
from twofold.checks import whole
from twofold.csr import summed, with_data
from twofold.entity.candidates import (
    Adapted,
    FitSettings,
    Judged,
    Losses,
    candidates,
    fitted,
    judge,
    left_out,
    overflowed,
    paired,
    unusable,
)
from twofold.entity.ladder import FACTOR_USERS, climb
from twofold.entity.models.blend import Scorer
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.models.side import Rest
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.progress import counting

__all__ = ["CAUTION", "Adapted", "Choice", "Local", "Strength", "adapt", "adapted", "choose"]

Local = Literal["auto", "factors", "item-item", "patterns", "features"]
Strength = float | Literal["auto", "own", "shared"]
#: A step away from an entity's own model, to public features and then to what was shared, has to gain this many of its
#: standard errors. Of 0 to 3, set on development splits: the larger, the fewer entities take what does them harm.
CAUTION = 2.0


def adapt(
    rows: sparse.csr_array,
    shared: ItemFactors | None,
    *,
    feedback: Literal["counts", "ratings"],
    lower: float,
    bound: float,
    local: Local = "auto",
    strength: Strength = "auto",
    rank: int,
    seed: int = 0,
    threads: int | None = None,
    features: Features | None = None,
) -> Adapted:
    """Fit the entity's own model, pulled towards the shared one; its own validation chooses kind and strength.

    Parameters
    ----------
    rows : csr array (users, items)
        Private: values within the plan's bounds.
    shared : ItemFactors or None
        Factors from the server; None fits the entity alone. Never changed.
    feedback : {"counts", "ratings"}
        Absent entries are zeros, or unknown.
    lower, bound : float
        Smallest and largest value; predicted ratings are cut to them when they are judged.
    local : {"auto", "factors", "item-item", "patterns", "features"}
        Kind of local model. Item-item weights are offered for catalogs of at most 6,000 items; patterns for ratings;
        features if a table of them is given.
    strength : "auto", "own", "shared" or float
        Weight of the shared model, in own users. "own" is 0, "shared" infinity.
    rank : int
        Most factors of the entity's own model.
    seed : int
        Seed of the held-out entries and of random starts: the same seed gives the same model.
    threads : int, optional
        All processors by default. The result does not depend on it.
    features : Features, optional
        Public table that describes the items. It may pull an entity's own model without any sharing.

    Returns
    -------
    Adapted

    Raises
    ------
    FactorsChanged
        The shared factors were changed during the fit.
    BadNumber
        Numbers too large or too small to compute with, and no other candidate: with ``strength="auto"``, such shared
        factors are left out instead, and the entity is alone.

    Privacy
    -------
    Stays inside the entity and costs nothing: the shared factors are post-processing of what was released, and the
    model is never sent.

    Paper
    -----
    "Local adaptation of the global model" in the abstract, which the text does not develop.

    Deviations
    ----------
    The paper's second round fits users to frozen item factors: that is ``local="factors", strength="shared"``.

    Examples
    --------
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((6, 4))))
    >>> made = adapt(rows, None, feedback="counts", lower=0, bound=5, rank=2)
    >>> made.strength, int(made.scorer.one(np.array([0, 1, 2]), np.ones(3))[3:].argmax())  # of those not had
    (0.0, 0)
    """
    settings = FitSettings(
        feedback=feedback, lower=lower, bound=bound, rank=rank, seed=seed, threads=threads, features=features
    )
    return adapted(rows, shared, settings, local=local, strength=strength)


def adapted(
    rows: sparse.csr_array,
    shared: ItemFactors | None,
    settings: FitSettings,
    *,
    local: Local = "auto",
    strength: Strength = "auto",
    rest: Rest | None = None,
) -> Adapted:
    """Do what `adapt` does, with the settings in one object and, out of core, sums over the rest of the people."""
    whole("rank", settings.rank, kind=Integral, error=BadParameter)
    rows = _checked(rows, shared, settings.features)
    before = None if shared is None else shared.hash
    if settings.feedback == "counts" and local == "auto" and strength in ("auto", "own"):
        with one_blas_thread(), counting("models tried", _most_models(rows, shared, settings)):
            found = climb(rows, None if strength == "own" else shared, settings, rest)
        if shared is not None and before is not None:
            shared.check_unchanged(before)
        return found
    tried = candidates(shared, settings.feedback, rows.shape, _kind(local), _number(strength), settings.features)
    with one_blas_thread():
        judged, chosen, scorer = _best(
            judge(rows, shared, tried, settings),
            lambda one: fitted(one.candidate, rows, shared, settings, gain=one.gain),
        )
    if shared is not None and before is not None:
        shared.check_unchanged(before)
    return Adapted(
        scorer=scorer,
        kind=chosen.best.candidate.kind,
        strength=chosen.best.candidate.strength,
        gain=chosen.gain,
        gain_error=chosen.error,
        table=tuple(_line(one, taken=one is chosen.best) for one in judged),
        note=chosen.note,
    )


def _most_models(rows: sparse.csr_array, shared: ItemFactors | None, settings: FitSettings) -> int:
    """About how many models a climb tries: of each kind one, and two neighbours of its ridge."""
    users, items = rows.shape
    if items > MAX_ITEMS:
        kinds = 1 + (users >= FACTOR_USERS)
        return kinds + 1
    kinds = 2 + (users >= FACTOR_USERS) + (settings.features is not None)
    if shared is not None and shared.totals is not None:
        kinds += 2 + (settings.features is not None)
    return 3 * kinds


def _best(judged: list[Judged], fit: Callable[[Judged], Scorer]) -> tuple[list[Judged], Choice, Scorer]:
    """Fit the best candidate to all rows; if its numbers fail, fit the best of the others."""
    while True:
        chosen = choose(judged)
        try:
            return judged, chosen, fit(chosen.best)
        except BadNumber:
            if len(judged) == 1:
                raise
            judged = [unusable(one.candidate) if one is chosen.best else one for one in judged]


def _line(one: Judged, *, taken: bool) -> dict[str, Any]:
    loss, error = (one.losses.mean, one.losses.error) if one.losses is not None else (math.nan, math.nan)
    line = {"kind": one.candidate.kind, "strength": one.candidate.strength, "loss": loss, "error": error}
    return line | ({"taken": True} if taken else {}) | ({"remark": one.remark} if one.remark else {})


def _checked(rows: Any, shared: ItemFactors | None, features: Features | None) -> sparse.csr_array:
    matrix = sparse.csr_array(rows)
    for name, table in (("shared", shared), ("features", features)):
        if table is not None and matrix.shape[1] != table.n_items:
            raise BadShape(
                "rows and {parameter} do not have the same items.",
                found=f"{matrix.shape[1]:,} and {table.n_items:,} items",
                parameter=name,
            )
    if not np.isfinite(matrix.data).all():
        raise BadNumber("rows hold NaN or infinity.", expected="finite numbers", parameter="rows")
    matrix = summed(matrix)
    return with_data(matrix, matrix.data.astype(np.float32))


def _kind(local: str) -> str:
    kinds = ("auto", "factors", "item-item", "patterns", "features")
    if local not in kinds:
        raise BadParameter(
            "{parameter} is unknown.", found=f"{local!r:.40}", expected=", ".join(map(repr, kinds)), parameter="local"
        )
    return local


def _number(strength: Strength) -> float | None:
    """Strength as a number; None if validation chooses."""
    named = {"auto": None, "own": 0.0, "shared": math.inf}
    if isinstance(strength, str):
        if strength not in named:
            raise BadParameter(
                "{parameter} is unknown.",
                found=f"{strength!r:.40}",
                expected="'auto', 'own' or 'shared'",
                parameter="strength",
            )
        return named[strength]
    if isinstance(strength, bool) or not isinstance(strength, (int, float)) or not strength >= 0:
        raise BadParameter(
            "{parameter} is out of range.",
            found=f"{strength!r:.40}",
            expected="a number of at least 0",
            parameter="strength",
        )
    return float(strength)


@dataclass(frozen=True, kw_only=True, eq=False)
class Choice:
    """The candidate taken, what it gains over the best one alone, and why."""

    best: Judged
    gain: float
    error: float
    note: str


def choose(judged: Sequence[Judged]) -> Choice:
    """Start from the best of the entity's own models and leave it only for one that is clearly better.

    The first step is to public features, the second to anything shared. A step is taken to the candidate with the
    largest gain less `CAUTION` standard errors of that gain, if anything is left of it. Gain and error are of the same
    held-out entries, so what makes some users harder than others drops out. Nothing that is only neutral takes the
    place of the entity's own model, and of many candidates one that is better by luck seldom does. An entity too small
    for its own model still moves, because there the gain is many times its error.

    A candidate with a remark is never taken.

    Raises
    ------
    BadNumber
        All of them have one.
    """
    usable = [one for one in judged if not one.remark]
    if not usable:
        raise overflowed()
    if len(judged) == 1:
        return Choice(best=judged[0], gain=0.0, error=0.0, note="as asked for; nothing was compared")
    own, public, shared = ([one for one in usable if _step(one) == step] for step in range(3))
    alone = min(own or public or shared, key=_order)
    best = alone
    for further in (public, shared):
        best = _further(best, further)
    gain, error = paired(_losses(alone), _losses(best))
    if alone.candidate.strength != 0:
        said = f"{best.candidate.kind}, the better kind at the strength asked for; not compared with alone"
    elif all(one.candidate.strength == 0 for one in judged):
        said = f"{_own_text(best)}: the smallest held-out loss; nothing was shared"
    else:
        said = _choice_text(best, gain, error)
    note = said + left_out(len(judged) - len(usable), len(judged))
    return Choice(best=best, gain=gain, error=error, note=note)


def _step(one: Judged) -> int:
    """What a candidate uses: 0 only the entity's own data, 1 also public features, 2 also the shared model."""
    if one.candidate.strength != 0:
        return 2
    return 1 if one.candidate.kind == "features" else 0


def _further(held: Judged, others: Sequence[Judged]) -> Judged:
    """Take the best of the others if it is clearly better than the current one."""
    worth = [_cautious(*paired(_losses(held), _losses(one))) for one in others]
    best = max(range(len(others)), key=worth.__getitem__, default=None)
    return held if best is None or worth[best] <= 0 else others[best]


def _cautious(gain: float, error: float) -> float:
    return gain - CAUTION * error


def _order(one: Judged) -> tuple[float, float]:
    return (_losses(one).mean, one.candidate.strength)


def _losses(one: Judged) -> Losses:
    assert one.losses is not None
    return one.losses


def _choice_text(best: Judged, gain: float, error: float) -> str:
    strength = best.candidate.strength
    if strength == 0:
        return (
            f"{_own_text(best)}: nothing shared was better on held-out entries by {CAUTION:g} standard errors or more"
        )
    much = "the shared model as it came" if math.isinf(strength) else f"the shared model weighs {strength:g} users"
    return f"{best.candidate.kind}, {much}: held-out loss smaller than alone by {gain:.4f} (standard error {error:.4f})"


def _own_text(best: Judged) -> str:
    kind = best.candidate.kind
    return f"{kind}, {'public features' if kind == 'features' else 'alone'}"
