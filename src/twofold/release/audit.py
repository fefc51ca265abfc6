r"""Every private mechanism end to end, as `twofold audit` attacks it: tiny data, two neighbours, and the claim.

The neighbour has one user more, at the bounds and all in one item. Public numbers promise many users, so that nothing
falls back. The score of an outcome adds up the released numbers of that item and the counts over the prototypes, each
held to what the extra user can move it by: past that, Laplace noise has nothing more to tell.

The bilinear mechanism under attack: thousands of canaries in one release, each with its own coordinates.

A canary is a user with two items that nobody else has, at the full norm of a row. The items' sums, observations and
pairs are moved by no other user; only the number of users is shared, and left out of the score. So one release with
many canaries is as many attempts at the same question, is this user there, with nearly the whole record.
The score is the likelihood ratio: an inner product with the record under Gaussian noise; under Laplace noise each
number held between zero and the record's.

For noise that is drawn twice from one seed there is one more attack: a second release, of people the attacker knows, is
taken off the first. Fresh noise makes that a worse score; repeated noise makes it an exact one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from twofold.csr import csr_rows
from twofold.features import Features
from twofold.privacy.audit.lower_bound import repeat
from twofold.privacy.audit.subjects import Subject
from twofold.privacy.budget import ApproxDP
from twofold.privacy.rng import Source
from twofold.release.bilinear.layout import KINDS, BilinearLayout
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.bilinear.records import exact_sums
from twofold.release.choose import PRIVATE, mechanism
from twofold.release.content import BilinearSums, Floats, Integers, Kind, plain_sum
from twofold.release.contract import Feedback, Mechanism, ReleaseParameters

__all__ = ["CanaryAttack", "bilinear_subjects", "canary_public", "prototype_subjects"]

_RUNS = {"popularity": 2000, "buckets": 1500, "sulq": 500, "balcan": 150}
_OPTIONS: dict[str, dict[str, Any]] = {"buckets": {"cells_per_prototype": 1}, "sulq": {"start_cells": 1}}
_DELTA = 1e-5


def prototype_subjects(*, runs: int | None = None) -> list[Subject]:
    """Subjects for the audit: every mechanism, both feedbacks, pure and with δ where it makes a difference.

    Parameters
    ----------
    runs : int, optional
        Runs on each side; more for the cheaper mechanisms by default. A run of the bilinear mechanism is one canary.

    Examples
    --------
    >>> [subject.name for subject in prototype_subjects()][:2]
    ['balcan, counts', 'balcan, ratings']
    """
    made = []
    for name in PRIVATE:
        for feedback in ("counts", "ratings"):
            made.append(_subject(name, feedback, 0.0, runs or _RUNS[name]))
        if name != "balcan":  # always pure
            made.append(_subject(name, "counts", _DELTA, runs or _RUNS[name]))
    return [*made, *(bilinear_subjects(canaries=runs) if runs else bilinear_subjects())]


def _subject(name: str, feedback: Feedback, delta: float, runs: int) -> Subject:
    public = _public(feedback, delta)
    law = ", with δ" if delta else ""
    return Subject(
        name=f"{name}, {feedback}{law}",
        claimed=ApproxDP(epsilon=public.epsilon, delta=public.delta),
        batch=repeat(_Run(mechanism(name, **_OPTIONS.get(name, {})), public)),
        data=_rows(extra=False),
        neighbour=_rows(extra=True),
        runs=runs,
        statistic=lambda outcomes: outcomes,
    )


def _public(feedback: Feedback, delta: float) -> ReleaseParameters:
    centre = 2.0 if feedback == "ratings" else 0.0
    return ReleaseParameters(
        n_items=3,
        n_users=100_000,
        max_items=1,
        bound=4,
        feedback=feedback,
        centre=centre,
        n_prototypes=2,
        epsilon=1,
        delta=delta,
    )


def _rows(*, extra: bool) -> NDArray[Any]:
    few = np.array([[0, 4, 0], [0, 0, 4]])
    return np.concatenate([few, [[4, 0, 0]]]) if extra else few


class _Run:
    """One release, reduced to a number."""

    def __init__(self, chosen: Mechanism, public: ReleaseParameters) -> None:
        self.chosen, self.public = chosen, public

    def __call__(self, rows: NDArray[Any], noise: Source) -> float:
        message = self.chosen.release(rows, self.public, rng=noise).value
        units, noise_of = message.units, message.noise
        sums = np.clip(message.value_sums()[:, 0], 0, self.public.value_cap) / max(noise_of.values, 1e-9)
        counts = np.clip(message.counts * units.counts, 0, 3) / max(noise_of.counts, 1e-9)
        score = sums.sum() + counts.sum()
        if message.observed is not None:
            score += (np.clip(message.observation_counts()[:, 0], 0, 1) / max(noise_of.observed, 1e-9)).sum()
        return float(score)


# No promise worth giving, but the attack on Gaussian noise is far sharper than at 1e-5: of what is left over at ε the
# runs must see some. The mechanism does not know the difference.
_DELTA_audit = 0.01
_ITEMS = {"gram": 80, "sketch": 20_000, "features": 20_000}
_COLUMNS = 3
# Items of a canary.
_OWN = 2


@dataclass(frozen=True, kw_only=True)
class CanaryAttack:
    """One score per canary, with all canaries of a release present or none.

    Parameters
    ----------
    kind : {"gram", "sketch", "features"}
        The mechanism.
    public : ReleaseParameters
        As `canary_public` makes it; with ``honest`` above 0, that many entities add shares, and one has the canaries.
    height : float
        Value of every canary's entries.
    compared : bool
        Take a second release, of nobody, off the first.
    """

    kind: Kind
    public: ReleaseParameters
    height: float = 1.0
    compared: bool = False

    def __call__(self, present: bool, runs: int, noise: Source) -> NDArray[Any]:
        """Scores of `runs` canaries, as many releases as they need."""
        each = self.public.n_items // _OWN
        own = _own_places(BilinearLayout.of(self.public, self.kind))
        record = _claimed_record(self.kind, self.public)[own].astype(np.float64)
        scores = [self._scores(present, own, record, noise) for _ in range(-(-runs // each))]
        return np.concatenate(scores)[:runs]

    def _scores(self, present: bool, own: Integers, record: Floats, noise: Source) -> Floats:
        items = self.public.n_items
        here = self.height * _canaries(items) if present else sp.csr_array((0, items))
        numbers = self.message(here, noise).numbers.astype(np.float64)
        if self.compared:
            numbers = numbers - self.message(sp.csr_array((0, items)), noise).numbers
        seen = numbers[own]
        if self.public.law == "gaussian":
            return np.asarray((seen * record).sum(axis=1))
        return np.asarray((np.sign(record) * np.clip(seen, np.minimum(record, 0), np.maximum(record, 0))).sum(axis=1))

    def message(self, rows: Any, noise: Source) -> BilinearSums:
        """What the attacker sees of one release: the sum over all whose noise the promise counts on."""
        made = Bilinear(kind=self.kind)
        first = made.release(rows, self.public, rng=noise).value
        nobody = sp.csr_array((0, self.public.n_items))
        others = (made.release(nobody, self.public, rng=noise).value for _ in range(1, self.public.honest))
        return plain_sum([first, *others])


def bilinear_subjects(*, canaries: int = 20_000) -> list[Subject]:
    """Subjects for the audit: every kind, both laws, both feedbacks, shares under a secure sum, and repeated noise.

    Parameters
    ----------
    canaries : int
        Canaries on each side.

    Examples
    --------
    >>> [subject.name for subject in bilinear_subjects()][:3]
    ['gram, counts', 'gram, counts, with δ', 'sketch, counts']
    """
    plain = [
        _subject_audit(kind, canary_public(kind, delta=delta), canaries)
        for kind in KINDS
        for delta in (0.0, _DELTA_audit)
    ]
    ratings = [_subject_audit("sketch", canary_public("sketch", feedback="ratings", delta=_DELTA_audit), canaries)]
    shares = [
        _subject_audit("sketch", canary_public("sketch", honest=3, delta=delta), canaries)
        for delta in (0.0, _DELTA_audit)
    ]
    twice = [
        _subject_audit("sketch", canary_public("sketch", delta=delta), canaries, True) for delta in (0.0, _DELTA_audit)
    ]
    return [*plain, *ratings, *shares, *twice]


def canary_public(
    kind: Kind, *, feedback: Feedback = "counts", delta: float = _DELTA_audit, honest: int = 0
) -> ReleaseParameters:
    """Public numbers of an attack: rows of two items, ε = 1.

    Examples
    --------
    >>> canary_public("gram").n_items
    80
    """
    items = _ITEMS[kind]
    public = ReleaseParameters(
        n_items=items, n_users=items, max_items=_OWN, bound=1, n_prototypes=_COLUMNS, delta=delta
    )
    if feedback == "ratings":
        # two ratings at the bound are 5/7 of it above their user's shrunk mean; the cap is at that
        public = public.with_(feedback="ratings", lower=-1, l2_cap=2**0.5 * 5 / 7)
    if kind == "features":
        table = 1 + np.arange(items * _COLUMNS).reshape(items, _COLUMNS) % 2
        public = public.with_(features=Features(matrix=table, names=("a", "b", "c")))
    return replace(public, honest=honest)


def _subject_audit(kind: Kind, public: ReleaseParameters, canaries: int, compared: bool = False) -> Subject:
    marks = [
        f"{kind}, {public.feedback}",
        *(["with δ"] if public.delta else []),
        *([f"{public.honest} shares"] if public.honest else []),
        *(["two releases"] if compared else []),
    ]
    return Subject(
        name=", ".join(marks),
        claimed=ApproxDP(epsilon=public.epsilon, delta=public.delta),
        batch=CanaryAttack(kind=kind, public=public, compared=compared),
        data=False,
        neighbour=True,
        runs=canaries,
        statistic=lambda outcomes: outcomes,
    )


def _canaries(items: int) -> sp.csr_array:
    return csr_rows(np.ones(items), np.arange(items), np.arange(0, items + 1, _OWN), (items // _OWN, items))


def _own_places(layout: BilinearLayout) -> Integers:
    """Places of each canary's own numbers, one row per canary."""
    own = np.arange(layout.n_items).reshape(-1, _OWN)
    parts = [own]
    if layout.mark:
        parts.append(layout.observed.start + own)
    if layout.gram:
        parts.extend(_in_triangle(own[:, a], own[:, b], layout) for a in range(_OWN) for b in range(a, _OWN))
    else:
        places = own[:, :, None] * layout.columns + np.arange(layout.columns)
        parts.append(layout.pairs.start + places.reshape(len(own), -1))
    return np.concatenate(parts, axis=1)


def _in_triangle(row: Integers, column: Integers, layout: BilinearLayout) -> Integers:
    """Places of pairs in an upper triangle that is stored by rows."""
    places = row * layout.n_items - row * (row - 1) // 2 + column - row
    return np.asarray(layout.pairs.start + places[:, None])


def _claimed_record(kind: Kind, public: ReleaseParameters) -> Integers:
    """What a canary at the full norm adds to its numbers, for all canaries at once."""
    return exact_sums(_canaries(public.n_items), public, BilinearLayout.of(public, kind))
