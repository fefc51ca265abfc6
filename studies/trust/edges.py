r"""Empirical ε at the edges of data, through `Entity.release`: nobody, far more people than promised, rows at the cap.

Neighbours differ by one person. The attacker knows everything else: both data sets, and under masks all participants
but the honest ones that share the noise. Its score is the exact log likelihood ratio of what it sees, so it cannot be
improved upon; `twofold.privacy.audit.lower_bound` turns scores into an ε that is proven with a stated confidence.

Under masks the attacker is the server with one colluder and one reader, among four entities: it opens the sum of two
honest ones. Their masks are taken off as in the strip attack: with the same keys and lists they are the same in every
run, so they are computed once.

Two broken variants show that the audit can see: one that refuses an empty table, and one that refuses a number that
leaves the modulus, after a share of the noise was added (audit M1 and M2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity, bounded
from twofold.features import Features
from twofold.federation.key_messages import decode_answer, decode_shares, encode_participants, encode_survivors
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity.keys import Secrets
from twofold.identity.roster import Roster
from twofold.privacy.audit.lower_bound import LowerBound, lower_bound
from twofold.privacy.rng import Source
from twofold.release.bilinear.mechanism import Bilinear, BilinearNoise
from twofold.release.bilinear.records import exact_sums
from twofold.release.clamp import LARGEST_NUMBER, ROOM
from twofold.release.contract import ReleaseParameters, check_rows
from twofold.release.records import RecordPlan, statistic
from twofold.secure_sum.messages import unpack

__all__ = ["EDGES", "Case", "cases", "print_edges", "refusing_after_noise", "refusing_nobody", "shown"]

Edge = Literal["nobody", "beyond the promise", "at the cap"]
EDGES: Final[tuple[Edge, ...]] = ("nobody", "beyond the promise", "at the cap")
CONFIDENCE: Final = 0.999
NAMES: Final = ("a", "b", "c", "d")
_ITEMS: Final = ("v", "w", "x", "y", "z")
_CATALOG: Final = Catalog(list(_ITEMS))
_FEATURES: Final = Features(matrix=1 + np.arange(15).reshape(5, 3) % 2, names=("p", "q", "r"))
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One mechanism at one edge, plain or under masks."""

    mechanism: str
    edge: Edge
    masked: bool
    delta: float = 0.0
    epsilon: float = 1.0

    @property
    def name(self) -> str:
        """What the table calls it."""
        law = "Gaussian" if self.delta else "Laplace"
        return f"{self.mechanism}, {law}, {'masked' if self.masked else 'plain'}: {self.edge}"

    @cached_property
    def enrolled(self) -> tuple[Roster, dict[str, Secrets]]:
        """Everybody's keys."""
        return Roster.new(NAMES)

    @property
    def keys(self) -> dict[str, Secrets]:
        """Everybody's secret keys."""
        return self.enrolled[1]

    @cached_property
    def plan(self) -> Plan:
        """A plan that promises one user of an entity."""
        return Plan(
            catalog=_CATALOG,
            features=_FEATURES if self.mechanism == "features" else None,
            feedback="counts",
            bound=1,
            max_items=2,
            n_users=1,
            n_prototypes=3 if self.mechanism == "sketch" else 1,
            mechanism=self.mechanism,
            epsilon=self.epsilon,
            delta=self.delta,
            simulation=True,
            n_entities=len(NAMES),
            secure=SecureSum(survivors=len(NAMES)) if self.masked else None,
            roster=self.enrolled[0] if self.masked else None,
        )

    @cached_property
    def users(self) -> int:
        """People in the smaller data set; beyond the promise, as many as bring the largest sum to where it is cut."""
        if self.edge == "nobody":
            return 0
        if self.edge == "at the cap":
            return 40
        if not self.masked:
            return 5 * ROOM
        one = int(np.abs(self.exact(people(1))).max())
        sum_spec = self.plan.spec.sum
        assert sum_spec is not None
        return sum_spec.limit // one

    def exact(self, ratings: Ratings) -> Integers:
        """What the message would hold without noise, cut as the mechanism does."""
        public = self.plan.parameters
        rows = check_rows(bounded(ratings, self.plan).matrix, public)
        chosen = self.plan.release_mechanism
        if isinstance(chosen, Bilinear):
            layout = chosen.layout(public)
            return exact_sums(rows, public, layout, limit=BilinearNoise(public=public, layout=layout).limit)
        found = statistic(
            rows, public, RecordPlan.of(public), lambda block: np.zeros(block.n_users, dtype=np.int64), cells=1
        )
        return np.concatenate([found.sums.ravel(), found.counts.ravel()])

    def released(self, ratings: Ratings, noise: Source) -> Integers:
        """What the attacker sees of one release."""
        if not self.masked:
            content: Any = Entity("a", ratings, self.plan, rng=noise).release().content
            return np.concatenate([part.ravel() for part in content.arrays().values()])
        listed, masks = self._opened
        total = -masks
        for name, rows in (("a", ratings), ("b", people(0))):
            message = Entity(name, rows, self.plan, rng=noise, keys=self.keys[name]).release(listed)
            total = total + _numbers(message.content)
        return self._signed(total)

    @cached_property
    def _opened(self) -> tuple[bytes, NDArray[np.uint64]]:
        """The list of those who shared keys, and the masks left on the sum of the two honest messages.

        All answer the list of everybody; c and d are with the attacker, who has their keys and computes as they would.
        """
        from twofold.federation.key_messages import secure_terms
        from twofold.server.secure import SecureServer

        everybody = {name: Entity(name, people(0), self.plan, keys=self.keys[name], rng=1) for name in NAMES}
        shares = {name: decode_shares(one.share(), self.plan).content for name, one in everybody.items()}
        operator = self.keys["coordinator"].sign
        listed = encode_participants(shares, self.plan, signer=operator)
        told = encode_survivors(NAMES, NAMES, self.plan, signer=operator)
        messages = {name: one.release(listed) for name, one in everybody.items()}
        answers = [one.answer(told, listed) for one in everybody.values()]
        assert all(decode_answer(one, self.plan) for one in answers)
        opened = SecureServer(self.plan).total(
            [one.data for one in messages.values()], answers, participants=listed, survivors=told
        )
        # The attacker's own two messages and the opened sum leave the two honest ones without masks.
        both = sum(_numbers(messages[name].content) for name in "ab")
        theirs = [
            self.plan.release_mechanism.release(bounded(people(0), self.plan).matrix, self.plan.parameters, rng=1)
            for _ in "cd"
        ]
        plain = opened.numbers - sum(one.value.numbers for one in theirs)
        modulus = np.uint64(2 ** secure_terms(self.plan).bits - 1)
        return listed, (both - plain.astype(np.uint64)) & modulus

    def _signed(self, numbers: NDArray[np.uint64]) -> Integers:
        from twofold.federation.messages import modulus_bits

        shift = np.int64(64 - modulus_bits(self.plan))
        return (numbers.view(np.int64) << shift) >> shift

    def scores(self, seen: Integers, one: Integers, two: Integers) -> float:
        """Log likelihood ratio of two centres, up to a factor."""
        if self.delta:
            return float(((seen - one).astype(np.float64) * (two - one)).sum())
        return float(np.abs(seen - one).sum() - np.abs(seen - two).sum())


def _numbers(content: Any) -> NDArray[np.uint64]:
    return unpack(content.packed.tobytes(), content.bits)[:-2]


def people(number: int) -> Ratings:
    """So many people, each with two items at the bound: a row at its cap."""
    rows = np.zeros((number, len(_ITEMS)))
    rows[:, :2] = 1.0
    ids = Identifiers(pl.Series([f"u{place:06}" for place in range(number)], dtype=pl.String))
    return Ratings(sparse.csr_array(rows), ids, _CATALOG, "counts")


def cases() -> list[Case]:
    """Every mechanism that exists there, at every edge; gram and popularity with both laws.

    Gaussian noise at a small δ is far wider than ε asks for at most outcomes. It gets a larger ε: else nothing shows.
    """
    places = [(name, masked) for masked in (False, True) for name in ("gram", "sketch", "features", "popularity")]
    exist = [(name, masked) for name, masked in places if not masked or name != "popularity"]
    laplace = [Case(name, edge, masked, epsilon=2) for name, masked in exist for edge in EDGES]
    both = [("gram", False), ("popularity", False), ("gram", True)]
    return laplace + [Case(name, edge, masked, delta=1e-6, epsilon=8) for name, masked in both for edge in EDGES]


def shown(
    case: Case,
    *,
    runs: int,
    rng: int | None = None,
    release: Callable[[Case, Ratings, Source], Integers | None] | None = None,
) -> LowerBound:
    """Prove an ε of a case; a `release` of its own may refuse, which the attacker sees as well.

    Parameters
    ----------
    case : Case
        What is attacked.
    runs : int
        On each side.
    rng : int, optional
        Seed of the noise; the operating system by default.
    release : callable, optional
        In place of `Case.released`; None for a refusal.
    """
    fewer, more = people(case.users), people(case.users + 1)
    one, two = case.exact(fewer), case.exact(more)
    draw = release or (lambda chosen, rows, noise: chosen.released(rows, noise))

    def batch(rows: Ratings, number: int, noise: Source) -> NDArray[np.float64]:
        seen = (draw(case, rows, noise) for _ in range(number))
        return np.array([np.inf if one_run is None else case.scores(one_run, one, two) for one_run in seen])

    return lower_bound(batch, fewer, more, runs=runs, delta=case.delta, confidence=CONFIDENCE, rng=rng)


def refusing_nobody(case: Case, rows: Ratings, noise: Source) -> Integers | None:
    """Broken as the command line was: an empty table is refused."""
    return case.released(rows, noise) if rows.n_users else None


def refusing_after_noise(parties: int) -> Callable[[Case, Ratings, Source], Integers | None]:
    """Broken as masks were: a number beyond the limit is refused, when one of many shares of the noise is in it."""

    def release(case: Case, rows: Ratings, noise: Source) -> Integers | None:
        public: ReleaseParameters = case.plan.parameters.with_(honest=parties)
        chosen = case.plan.release_mechanism
        assert isinstance(chosen, Bilinear)
        layout = chosen.layout(public)
        shares = BilinearNoise(public=public, layout=layout)
        sums = exact_sums(check_rows(rows.matrix, public), public, layout, limit=LARGEST_NUMBER)
        mine = shares.release(sums, rng=noise).value
        return None if int(np.abs(mine).max()) > shares.limit else np.zeros_like(mine)  # the message itself is masked

    return release


def print_edges(*, runs: int, chosen: Sequence[Case] | None = None) -> int:
    """Print claimed and shown ε of every case; return 1 if one exceeds its claim or a broken variant was missed."""
    wrong = 0
    print(f"{'case':48}  {'users':>6}  {'claimed':>7}  {'shown':>6}  verdict")
    for case in cases() if chosen is None else chosen:
        found = shown(case, runs=runs).epsilon
        wrong += found > case.epsilon
        verdict = "within" if found <= case.epsilon else "EXCEEDED"
        print(f"{case.name:48}  {case.users:6}  {case.epsilon:7.2f}  {found:6.2f}  {verdict}", flush=True)
    for name, case, broken in _broken():
        found = shown(case, runs=runs, release=broken).epsilon
        wrong += found <= case.epsilon
        verdict = "caught" if found > case.epsilon else "MISSED"
        print(f"{name:48}  {case.users:6}  {case.epsilon:7.2f}  {found:6.2f}  {verdict}", flush=True)
    print(f"Lower bounds on ε with confidence {CONFIDENCE:.1%}, {runs:,} runs on each side, noise of the system.")
    return int(wrong > 0)


def _broken() -> list[tuple[str, Case, Callable[[Case, Ratings, Source], Integers | None]]]:
    at_limit = Case("gram", "beyond the promise", masked=True, epsilon=0.5)
    return [
        ("broken: refuses an empty table", Case("gram", "nobody", masked=False), refusing_nobody),
        ("broken: refuses after a share of 43", at_limit, refusing_after_noise(43)),
    ]
