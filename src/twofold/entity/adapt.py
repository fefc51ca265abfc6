"""An entity's own model, drawn towards the shared one as far as its own users say it should be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.algorithms._blas_threads import one_blas_thread
from twofold.entity._candidates import Judged, candidates, fitted, judge, unusable
from twofold.entity._choice import Choice, choose
from twofold.entity.scorer import Scorer
from twofold.errors import BadNumber, BadParameter, BadShape
from twofold.features import Features
from twofold.protocol.factors import ItemFactors

__all__ = ["Adapted", "adapt"]

Local = Literal["auto", "factors", "item-item", "patterns", "features"]
Strength = float | Literal["auto", "own", "shared"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapted:
    """A local model and how it was chosen.

    Attributes
    ----------
    scorer : Scorer
        The model, fitted to all rows.
    kind : {"factors", "item-item", "patterns", "features", "mixed"}
        Which kind of model. For counts "features" is item-item weights drawn to public features alone, "mixed" to these
        and to the shared model.
    strength : float
        How many users of the entity's own the shared model weighs as much as: 0 alone, infinity shared only.
    gain, gain_error : float
        By how much the validation loss is smaller than that of the best model alone, and the standard error of that;
        0 when nothing was compared.
    table : tuple of dict
        All that was compared: kind, strength, loss and its standard error; ``taken`` at the one that was, a remark
        where one could not be used.
    note : str
        The choice in plain words.
    """

    scorer: Scorer = field(repr=False)
    kind: str
    strength: float
    gain: float
    gain_error: float
    table: tuple[dict[str, Any], ...] = field(repr=False)
    note: str


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
    """Fit the entity's own model, drawn towards the shared one; kind and strength by validation on its own users.

    Parameters
    ----------
    rows : csr array (users, items)
        Private: bounded values, as the plan has them.
    shared : ItemFactors or None
        What the server sent; None fits the entity alone. Never written to.
    feedback : {"counts", "ratings"}
        Absent entries are zeros, or unknown.
    lower, bound : float
        Smallest and largest value; predicted ratings are cut to them when they are judged.
    local : {"auto", "factors", "item-item", "patterns", "features"}
        Kind of local model. Item-item weights are offered for catalogs of at most 6,000 items; patterns for ratings;
        features where a table of them is given.
    strength : "auto", "own", "shared" or float
        How many own users the shared model weighs as much as. "own" is 0, "shared" infinity.
    rank : int
        Most factors of the entity's own.
    seed : int
        Of the held-out entries and of random starts: the same seed gives the same model.
    threads : int, optional
        All processors by default. The result does not depend on it.
    features : Features, optional
        Public table of what the items are: one more thing an entity's own model may be drawn to, without any sharing.

    Returns
    -------
    Adapted

    Raises
    ------
    FactorsChanged
        The shared factors are not the same afterwards.
    BadNumber
        Numbers too large or too small to compute with, and no candidate without them: with ``strength="auto"`` shared
        factors like that are left out instead, and the entity is alone.

    Privacy
    -------
    Stays inside the entity and costs nothing: the shared factors are post-processing of what was released, and the
    model is never sent.

    Paper
    -----
    "Local adaptation of the global model" of the abstract, which the text does not work out.

    Deviations
    ----------
    The paper's second round fits users to frozen item factors: that is ``local="factors", strength="shared"``.

    Examples
    --------
    >>> rows = sparse.csr_array(np.kron(np.eye(2), np.ones((6, 4))))
    >>> made = adapt(rows, None, feedback="counts", lower=0, bound=5, rank=2)
    >>> made.strength, bool(made.scorer.one(np.array([0, 1, 2]), np.ones(3)).argmax() == 3)
    (0.0, True)
    """
    rows = _checked(rows, shared, rank)
    before = None if shared is None else shared.hash
    _check_features(features, rows.shape[1])
    tried = candidates(shared, feedback, rows.shape, _kind(local), _number(strength), features)
    with one_blas_thread():
        judged = judge(
            rows,
            shared,
            tried,
            feedback=feedback,
            lower=lower,
            bound=bound,
            rank=rank,
            seed=seed,
            threads=threads,
            features=features,
        )
        judged, chosen, scorer = _best(
            judged,
            lambda one: fitted(
                one.candidate,
                rows,
                shared,
                feedback=feedback,
                rank=rank,
                seed=seed,
                threads=threads,
                gain=one.gain,
                features=features,
            ),
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


def _best(judged: list[Judged], fit: Callable[[Judged], Scorer]) -> tuple[list[Judged], Choice, Scorer]:
    """Fit the best one to all rows; if its numbers fail only there, the best of the others."""
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


def _checked(rows: Any, shared: ItemFactors | None, rank: int) -> sparse.csr_array:
    matrix = sparse.csr_array(rows)
    if shared is not None and matrix.shape[1] != shared.n_items:
        raise BadShape(
            "rows and shared factors do not have the same items.",
            found=f"{matrix.shape[1]:,} and {shared.n_items:,} items",
        )
    if not np.isfinite(matrix.data).all():
        raise BadNumber("rows hold NaN or infinity.", expected="finite numbers")
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
        raise BadParameter("rank is out of range.", found=repr(rank), expected="a whole number from 1")
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    values: NDArray[np.float32] = matrix.data.astype(np.float32)
    parts: Any = (values, matrix.indices, matrix.indptr)
    return sparse.csr_array(parts, shape=matrix.shape)


def _check_features(features: Features | None, n_items: int) -> None:
    if features is not None and features.n_items != n_items:
        raise BadShape(
            "rows and features do not have the same items.", found=f"{n_items:,} and {features.n_items:,} items"
        )


def _kind(local: str) -> str:
    kinds = ("auto", "factors", "item-item", "patterns", "features")
    if local not in kinds:
        raise BadParameter("local is unknown.", found=f"{local!r:.40}", expected=", ".join(map(repr, kinds)))
    return local


def _number(strength: Strength) -> float | None:
    """Strength as a number; None where validation chooses."""
    words = {"auto": None, "own": 0.0, "shared": math.inf}
    if isinstance(strength, str):
        if strength not in words:
            raise BadParameter("strength is unknown.", found=f"{strength!r:.40}", expected="'auto', 'own' or 'shared'")
        return words[strength]
    if isinstance(strength, bool) or not isinstance(strength, (int, float)) or not strength >= 0:
        raise BadParameter("strength is out of range.", found=f"{strength!r:.40}", expected="a number from 0")
    return float(strength)
