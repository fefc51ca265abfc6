"""The local models that are tried, and the loss of each on held-out entries.

Part of every user's entries is held out, and candidates are compared user by user. Nothing leaves the entity, so
looking at its own data as often as it likes costs no privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from twofold.csr import keep_entries
from twofold.entity.models.blend import Scorer
from twofold.entity.models.factors import FactorFit
from twofold.entity.models.item_item import MAX_ITEMS, ItemItemFit, ItemItemScorer, residual_rows
from twofold.entity.models.patterns import PatternFit
from twofold.errors import BadNumber, BadParameter, Set
from twofold.evaluation.measure import user_ndcg
from twofold.features import Features
from twofold.federation.factors import ItemFactors
from twofold.progress import counting, step

__all__ = [
    "LADDER",
    "PARTS",
    "UNUSABLE",
    "Adapted",
    "Candidate",
    "FitSettings",
    "Fold",
    "Judged",
    "Losses",
    "candidates",
    "fitted",
    "folds",
    "judge",
    "left_out",
    "overflowed",
    "paired",
    "rounds_for",
    "sound",
    "unusable",
]

#: Strengths that are tried, in users: of every kind for both kinds of feedback. For counts, of a kind that was asked
#: for: where nothing is asked for, `twofold.entity.ladder` chooses.
LADDER: dict[str, dict[str, tuple[float, ...]]] = {
    "counts": {
        "item-item": (0.0, 30.0, 100.0, 300.0, 1_000.0),
        "features": (0.0,),
        "factors": (0.0, 100.0, math.inf),
    },
    "ratings": {
        "patterns": (0.0, 10.0, math.inf),
        "features": (0.0,),
        "item-item": (0.0, 1_000.0, math.inf),
        "factors": (0.0, 1_000.0, math.inf),
    },
}
#: Strengths of item-item weights for counts where second moments were sent: they are worth more than prototypes.
SECOND_LADDER = (0.0, 100.0, 300.0, 1_000.0, 3_000.0)
#: Likewise of factors, whose few columns say less than the moments do.
SECOND_FACTORS = (0.0, 1.0, math.inf)
#: Users that public features weigh as much as, for counts.
FEATURE_USERS = 300.0
#: Below this number of users, an entity with ratings tries no own factors beside item-item weights.
FEW_RATERS = 25
#: Items up to which item-item weights are tried even where patterns of ratings were sent.
SHORT = 1_000
#: Users scored at once.
BLOCK = 512
#: Length of the list that is judged.
TOP = 10
#: Largest gain of item-item weights for ratings, and how firmly it is held at 1.
MOST_GAIN, GAIN_WEIGHT = 8.0, 1.0
#: Into how many parts a user's entries are cut; one part is held out at a time. Few of them would favour the shared
#: model: its maker saw all entries, while the entity's own candidates are fitted without the held-out ones.
PARTS = 10
#: Parts held out in turn below this number of users. A list of ten says less of a user than the errors of all
#: held-out ratings, so counts need more of them.
ROUNDS: dict[str, tuple[tuple[float, int], ...]] = {
    "counts": ((200, 10), (1_000, 5), (math.inf, 2)),
    "ratings": ((200, 5), (1_000, 2), (math.inf, 1)),
}
#: Most users who are judged in one round; all of them are fitted.
MOST_JUDGED = 1_000
#: Below this many users, entries are taken as independent of one another: so few users have no spread to speak of.
FEW_USERS = 5
#: What the table says of a candidate that cannot be used.
UNUSABLE = "not finite: fitting overflowed"

Floats = NDArray[np.float64]
Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """The settings with which all candidates of an entity are fitted and judged; see `adapt`."""

    feedback: str
    lower: float
    bound: float
    rank: int
    seed: int = 0
    threads: int | None = None
    features: Features | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A kind of local model and how far it is pulled towards the shared one."""

    kind: str
    strength: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Judged:
    """A candidate with its losses on held-out entries (None where it is the only one), and the gain of its weights.

    The remark says why it must not be taken; its loss is infinite then.
    """

    candidate: Candidate
    losses: Losses | None
    gain: float = 1.0
    remark: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Adapted:
    """A local model and how it was chosen.

    Attributes
    ----------
    scorer : Scorer
        The model, fitted to all rows.
    kind : str
        Kind of model: a rung of the ladder for counts (`twofold.entity.ladder`), or "factors", "item-item", "patterns",
        "features", or "mixed": pulled to public features and to the shared model.
    strength : float
        How many users of the entity's own the shared model weighs as much as: 0 alone, infinity shared only.
    gain, gain_error : float
        By how much the validation loss is smaller than that of the best model alone, and the standard error of that;
        0 when nothing was compared.
    table : tuple of dict
        All that was compared: kind, strength, loss and its standard error; ``taken`` at the one that was, a remark
        where one could not be used.
    note : str
        The choice in plain text.
    """

    scorer: Scorer = field(repr=False)
    kind: str
    strength: float
    gain: float
    gain_error: float
    table: tuple[dict[str, Any], ...] = field(repr=False)
    note: str


def unusable(candidate: Candidate) -> Judged:
    """A candidate whose numbers failed: shared factors may hold anything a server wrote."""
    return Judged(candidate=candidate, losses=Losses(values=np.zeros(0), owners=np.zeros(0, np.intp)), remark=UNUSABLE)


def candidates(
    shared: ItemFactors | None,
    feedback: str,
    shape: tuple[int, int],
    local: str,
    strength: float | None,
    features: Features | None = None,
) -> list[Candidate]:
    """Give the candidates worth trying for these numbers of users and items, within the request.

    Examples
    --------
    >>> [one.strength for one in candidates(None, "counts", (50, 100), "item-item", None)]
    [0.0]
    >>> [one.kind for one in candidates(None, "ratings", (50, 100), "auto", None)]
    ['patterns', 'item-item', 'factors']
    >>> [one.kind for one in candidates(None, "ratings", (50, 100_000), "auto", None)]
    ['patterns', 'factors']
    """
    (n_users, n_items), free = shape, strength is None
    _check_kind(local, feedback, n_items, features)
    if shared is None:
        if strength not in (None, 0.0):
            raise BadParameter(
                "there is no shared model to pull towards.", fix=Set("strength", "own"), parameter="strength"
            )
        strength = 0.0
    kinds = [local] if local != "auto" else _kinds(shared, feedback, n_items, features)
    few = feedback == "ratings" and n_users < FEW_RATERS and {"item-item", "factors"} <= set(kinds) and free
    tried = [
        Candidate(kind=kind, strength=step)
        for kind in kinds
        for step in (_ladder(kind, feedback, shared) if strength is None else (strength,))
        if not (few and kind == "factors" and not math.isinf(step)) and _can(kind, step, shared, feedback, local)
    ]
    if not tried:
        raise BadParameter(
            f"there is no shared model to pull local={local!r} towards.",
            fix=Set("strength", "own"),
            parameter="local",
        )
    return tried


def _ladder(kind: str, feedback: str, shared: ItemFactors | None) -> tuple[float, ...]:
    """Strengths of one kind."""
    if feedback == "counts" and shared is not None and shared.patterns is not None:
        return {"item-item": SECOND_LADDER, "factors": SECOND_FACTORS}.get(kind, LADDER[feedback].get(kind, ()))
    return LADDER[feedback][kind]


def _kinds(shared: ItemFactors | None, feedback: str, n_items: int, features: Features | None) -> list[str]:
    """Kinds that are tried; for counts, at the strength that was asked for.

    If patterns of ratings were sent, other kinds are tried only as models alone, and only in short catalogs: in long
    ones they take most of the time, and no entity of MovieLens chose one.
    """
    small = ["item-item"] if n_items <= MAX_ITEMS else []
    public = ["features"] if features is not None else []
    if feedback == "counts":
        mixed = ["mixed"] if small and public and shared is not None and shared.patterns is not None else []
        return [*small, *mixed, "factors"]
    if shared is not None and shared.patterns is not None:
        return ["patterns", *public, *(small if n_items <= SHORT else [])]
    return ["patterns", *public, *small, "factors"]


def _can(kind: str, strength: float, shared: ItemFactors | None, feedback: str, local: str) -> bool:
    """Whether there is a shared model of that kind to pull towards."""
    sent = shared is not None and shared.patterns is not None
    if kind == "features" or (kind == "patterns" and not sent):
        return strength == 0
    if kind == "mixed":
        return 0 < strength < math.inf
    return kind == "patterns" or strength == 0 or not (sent and feedback == "ratings" and local == "auto")


def _check_kind(local: str, feedback: str, n_items: int, features: Features | None) -> None:
    if n_items > MAX_ITEMS and (local == "item-item" or (local == "features" and feedback == "counts")):
        raise BadParameter(
            "the catalog is too long for item-item weights.",
            found=f"{n_items:,} items",
            expected=f"at most {MAX_ITEMS:,}",
            fix=Set("local", "factors"),
            parameter="local",
        )
    if local == "patterns" and feedback != "ratings":
        raise BadParameter(
            'local="patterns" is for ratings.', found=feedback, fix=Set("local", "auto"), parameter="local"
        )
    if local == "features" and features is None:
        raise BadParameter(
            'local="features" needs a public table of what the items are.', fix="features=...", parameter="features"
        )


def judge(
    rows: sparse.csr_array,
    shared: ItemFactors | None,
    tried: Sequence[Candidate],
    settings: FitSettings,
) -> list[Judged]:
    """Fit every candidate to each round's training entries and judge it on the held-out ones.

    One that fails on its numbers, or says anything that is not finite, gets an infinite loss.
    """
    feedback = settings.feedback
    needs_gain = feedback == "ratings" and any(one.kind == "item-item" for one in tried)
    if len(tried) == 1 and not needs_gain:
        return [Judged(candidate=tried[0], losses=None)]
    rounds = folds(rows, rounds=rounds_for(rows.shape[0], feedback), rng=np.random.default_rng([settings.seed, 6]))
    seen: dict[Candidate, list[_Seen]] = {candidate: [] for candidate in tried}
    with counting("models tried", len(rounds) * len(tried)):
        for fold in rounds:
            fits = _Fits(fold.train, shared, settings)
            for candidate in list(seen):
                try:
                    seen[candidate].append(sound(lambda: _look(fits.scorer(candidate), fold, feedback)))  # noqa: B023
                except BadNumber:
                    del seen[candidate]
    return [_verdict(one, seen[one], settings) if one in seen else unusable(one) for one in tried]


def sound(compute: Callable[[], Result]) -> Result:
    """Fit a model; any numeric failure, silent or not, becomes BadNumber. Counts as one `step`.

    Examples
    --------
    >>> sound(lambda: np.linalg.inv(np.zeros((2, 2))))  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    twofold.errors.BadNumber: the local model cannot be computed: fitting overflowed.
    """
    try:
        with np.errstate(all="ignore"):
            return compute()
    except (np.linalg.LinAlgError, ArithmeticError, BadNumber):
        raise overflowed() from None
    finally:
        step()


def left_out(number: int, tried: int) -> str:
    """Say how many models could not be used, if any."""
    return f"; {number} of {tried} models left out: fitting overflowed" if number else ""


def overflowed() -> BadNumber:
    """Give the error for numbers that do not allow a computation."""
    return BadNumber(
        "the local model cannot be computed: fitting overflowed.",
        expected="finite numbers of ordinary size in the shared factors and in the entity's own data",
        fix=(Set("strength", "own"), "ask the server how the shared factors were made"),
        parameter="strength",
    )


def fitted(
    candidate: Candidate,
    rows: sparse.csr_array,
    shared: ItemFactors | None,
    settings: FitSettings,
    *,
    gain: float,
) -> Scorer:
    """Fit the chosen one to all rows.

    Raises
    ------
    BadNumber
        It cannot be computed, or what it says is not finite.
    """
    fits = _Fits(rows, shared, settings)

    def made() -> Scorer:
        scorer = fits.scorer(candidate, gain)
        _finite(*scorer.arrays().values(), _of_nobody(scorer), scorer.scores(rows[:BLOCK]))
        return scorer

    return sound(made)


def _of_nobody(scorer: Scorer) -> NDArray[np.float32]:
    return scorer.one(np.zeros(0, np.intp), np.zeros(0, np.float32))


def _finite(*arrays: NDArray[Any]) -> None:
    if not all(np.isfinite(part).all() for part in arrays):
        raise BadNumber("a score is NaN or infinite.")


class _Fits:
    """Rows made ready for each kind, when first asked for."""

    def __init__(self, rows: sparse.csr_array, shared: ItemFactors | None, how: FitSettings) -> None:
        self._ratings = how.feedback == "ratings"
        self._patterns = PatternFit(rows, shared, how.features, rank=how.rank, seed=how.seed)
        self._items = cache(lambda: ItemItemFit(rows, shared, feedback=how.feedback, features=how.features))
        self._factors = cache(
            lambda: FactorFit(rows, shared, feedback=how.feedback, rank=how.rank, seed=how.seed, threads=how.threads)
        )

    def scorer(self, candidate: Candidate, gain: float = 1.0) -> Scorer:
        if candidate.kind == "patterns":
            return self._patterns.scorer(candidate.strength)
        if candidate.kind == "features":
            return self._patterns.featured() if self._ratings else self._items().scorer(0.0, public=FEATURE_USERS)
        if candidate.kind in ("item-item", "mixed"):
            public = FEATURE_USERS if candidate.kind == "mixed" else 0.0
            return self._items().scorer(candidate.strength, gain=gain, public=public)
        return self._factors().scorer(candidate.strength)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Seen:
    """A scorer's results in one round: for counts losses of users, for ratings base, pull and truth of entries."""

    owners: NDArray[np.intp]
    loss: NDArray[np.float64] | None = None
    base: NDArray[np.float64] | None = None
    pull: NDArray[np.float64] | None = None
    truth: NDArray[np.float64] | None = None


def _look(scorer: Scorer, fold: Fold, feedback: str) -> _Seen:
    _finite(_of_nobody(scorer))
    parts = [
        _look_block(scorer, fold, slice(start, start + BLOCK), feedback) for start in range(0, len(fold.users), BLOCK)
    ]
    if not parts:
        nothing = np.zeros(0)
        return _Seen(owners=np.zeros(0, np.intp), loss=nothing, base=nothing, pull=nothing, truth=nothing)
    fields = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("owners", "loss", "base", "pull", "truth")
        if getattr(parts[0], name) is not None
    }
    return _Seen(**fields)


def _look_block(scorer: Scorer, fold: Fold, span: slice, feedback: str) -> _Seen:
    history, held, users = fold.history[span], fold.held[span], fold.users[span]
    scores = scorer.scores(history)
    _finite(scores)
    if feedback == "counts":
        return _Seen(owners=users, loss=1.0 - user_ndcg(scores, held, seen=history, n=TOP))
    lines = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
    said = scores[lines, held.indices].astype(np.float64)
    base, pull = said, np.zeros_like(said)
    if isinstance(scorer, ItemItemScorer):
        _, offsets = residual_rows(history, scorer.means, scorer.shrinkage)
        base = (scorer.means[held.indices] + offsets[lines]).astype(np.float64)
        pull = said - base
    return _Seen(owners=users[lines], base=base, pull=pull, truth=held.data.astype(np.float64))


def _verdict(candidate: Candidate, parts: Sequence[_Seen], settings: FitSettings) -> Judged:
    owners = np.concatenate([part.owners for part in parts])
    if settings.feedback == "counts":
        values = np.concatenate([part.loss for part in parts if part.loss is not None])
        return Judged(candidate=candidate, losses=Losses(values=values, owners=owners))
    base, pull, truth = (np.concatenate([getattr(part, name) for part in parts]) for name in ("base", "pull", "truth"))
    gain = _gain(pull, truth - base) if candidate.kind == "item-item" else 1.0
    errors = (np.clip(base + gain * pull, settings.lower, settings.bound) - truth) ** 2
    return Judged(candidate=candidate, losses=Losses(values=errors, owners=owners), gain=gain)


def _gain(pull: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """Least squares of the target on the prediction, held at 1 by a prior."""
    return float(np.clip((pull @ wanted + GAIN_WEIGHT) / (pull @ pull + GAIN_WEIGHT), 0.0, MOST_GAIN))


@dataclass(frozen=True, kw_only=True, eq=False)
class Fold:
    """Rows without the held-out entries, and the held-out entries of the users to be judged.

    Attributes
    ----------
    train : csr array (users, items)
        What models are fitted to.
    users : array (judged,)
        Rows that are judged.
    history, held : csr arrays (judged, items)
        Their training entries and their held-out ones.
    """

    train: sparse.csr_array
    users: NDArray[np.intp]
    history: sparse.csr_array
    held: sparse.csr_array


@dataclass(frozen=True, kw_only=True, eq=False)
class Losses:
    """Losses of one candidate, one per judged entry or user, and whose they are."""

    values: Floats
    owners: NDArray[np.intp]

    @property
    def mean(self) -> float:
        """Average loss; infinite when nothing could be judged."""
        return float(self.values.mean()) if self.values.size else math.inf

    @property
    def error(self) -> float:
        """Standard error of the average, users being independent of one another."""
        return _clustered_error(self.values, self.owners)


def rounds_for(n_users: int, feedback: str) -> int:
    """Number of parts held out in turn: the fewer users, the more; depends on their number alone.

    Examples
    --------
    >>> [rounds_for(number, "counts") for number in (10, 700, 5_000)]
    [10, 5, 2]
    """
    return next(rounds for most, rounds in ROUNDS[feedback] if n_users < most)


def folds(rows: sparse.csr_array, *, rounds: int, rng: np.random.Generator) -> list[Fold]:
    """Cut every user's entries into `PARTS` parts and hold out some of the parts, one at a time.

    A user with a single entry keeps it; nobody is left without a history.

    Examples
    --------
    >>> rows = sparse.csr_array(np.ones((3, 10)))
    >>> [fold.held.nnz for fold in folds(rows, rounds=2, rng=np.random.default_rng(0))]
    [3, 3]
    """
    lengths = np.diff(rows.indptr)
    owners = np.repeat(np.arange(rows.shape[0]), lengths)
    part = _parts(lengths, owners, rng)
    made = []
    for number in range(rounds):
        held = (part == number) & (np.repeat(lengths, lengths) > 1)
        users = np.flatnonzero(np.bincount(owners[held], minlength=rows.shape[0]))
        if users.size > MOST_JUDGED:
            users = np.sort(rng.choice(users, MOST_JUDGED, replace=False))
        train = keep_entries(rows, ~held)
        made.append(Fold(train=train, users=users, history=train[users], held=keep_entries(rows, held)[users]))
    return made


def paired(one: Losses, other: Losses) -> tuple[float, float]:
    """By how much `other` is better than `one`, and the standard error of that, user by user.

    Examples
    --------
    >>> owners = np.arange(4)
    >>> one = Losses(values=np.array([1.0, 2.0, 3.0, 4.0]), owners=owners)
    >>> paired(one, Losses(values=one.values - 0.5, owners=owners))
    (0.5, 0.0)
    """
    gaps = one.values - other.values
    return (float(gaps.mean()), _clustered_error(gaps, one.owners)) if gaps.size else (0.0, 0.0)


def _parts(lengths: NDArray[Any], owners: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Part of each entry: a user's entries in random order are dealt out, from a random part on."""
    order = np.lexsort((rng.random(owners.size), owners))
    places = np.arange(owners.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    part = np.empty(owners.size, np.intp)
    part[order] = (places + np.repeat(rng.integers(PARTS, size=lengths.size), lengths)) % PARTS
    return part


def _clustered_error(values: Floats, owners: NDArray[np.intp]) -> float:
    if values.size < 2:
        return 0.0
    apart = values - values.mean()
    _, groups = np.unique(owners, return_inverse=True)
    number = int(groups.max()) + 1
    sums = np.bincount(groups, apart) if number >= FEW_USERS else apart
    scale = sums.size / max(sums.size - 1, 1)
    return float(np.sqrt(scale * np.sum(sums**2)) / values.size)
