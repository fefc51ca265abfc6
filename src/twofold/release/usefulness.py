r"""How far a release can rise above its noise, judged by public numbers before anything is drawn.

Prototypes
----------
A user has at most ``s = max_items`` items, each of value at most ``B``; users are shared out over ``k`` prototypes,
about ``n_users/k`` each. The signal in one released sum, root mean square over ``m`` items, is between two extremes
that use the bounds fully: users of a prototype spread evenly over all items, ``(n/k)·B·s/m``, and users of a prototype
exactly alike, ``(n/k)·B·√(s/m)``. Real data is between, or below when people stay under the bounds. On simulated
hospital visits (900 users, 457 items, 66 items each, k=10, ε=0.1) a signal-to-noise ratio of 0.025 was measured; these
formulas give 0.013 to 0.033.

From the ratio ``r`` of one number follow two more for ``H`` entities whose people follow the same ``k`` patterns:

* patterns: ``r·√(H·m)/(√rows+√m)``, how far the k patterns rise above the largest direction that noise alone makes in
  the server's table. It has k·H rows if rows are stacked and k if messages are added up;
* profile: ``r·√(k·H)``, everything added up into one profile, that is: which items are frequent.

Statistics
----------
The pairs of all users, with rows of norm at most 1, have a largest singular value of at most the number of users n.
Their noise, independent with deviation σ in an m × k table, has a spectral norm of about
:math:`\sigma(\sqrt m + \sqrt k)`, and :math:`2\sigma\sqrt m` for the symmetric m × m one. The share of the second in n
says how large a pattern must be to be seen: at 1/100, one with a hundredth of all users' squared length.

Prediction
----------
Unit rows of n people have a Gram matrix whose first eigenvalue, the use of items itself, was .19 to .66 n on the
development data, and whose k-th was about :math:`a k^{-b} n` (`SPECTRUM`). A direction of size λ under noise with the
edge 2h is found again with the squared cosine :math:`1 - (h/\lambda)^2`, and not at all from :math:`\lambda \le h` on.
These cosines added up are the directions D that rise above the noise. The share of the gap between the best model
without pairs of others and the best pooled one that was closed followed :math:`D / (D + c)`, with a spread (`SPREAD`).
An entity with many people of its own tells the strongest directions itself, so c grows with its size: it is
`HALF_CLOSED` for `FEW_USERS` people or fewer, from there grows with the power `GROWTH`, and stays from `MANY_USERS` on,
the largest that was measured. It is at most a quarter of the catalog, so that a short one, all of whose directions are
found, is not told that most of the gap stays. ``python -m studies prediction --size full`` found the constants on six
development sets, one seed each, and fits `SPECTRUM`, `HALF_CLOSED` and `GROWTH` anew on what it is given.

Bounds
------
Where n people have rows of norm at most 1 and E is the noise in the plain sum of their pairs, ‖E‖/n is more than
:math:`d(1 + \sqrt{\ln(2/\beta)/m})` times the edge :math:`2\sigma\sqrt m/n` with a chance of at most β; d is what the
diagonal's noise has over √2 times that beside it, 1.00005. r directions from noisy pairs leave at most
:math:`2r\|E\|/n` more of the squared length of rows than the best r directions do. A sum weighted by size estimates
something else, and has no bound here (docs/explanation/error_bounds.md has the proofs, and what is measured).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from twofold.release.content import DIAGONAL

if TYPE_CHECKING:
    from twofold.release.contract import ReleaseParameters

__all__ = [
    "FEW_USERS",
    "GROWTH",
    "HALF_CLOSED",
    "LEAST_USE",
    "MANY_USERS",
    "SPECTRUM",
    "SPREAD",
    "WORDS",
    "Prediction",
    "Range",
    "Usefulness",
    "Word",
    "closed",
    "directions",
    "fallback_note",
    "moments_bound",
    "noise_ratio",
    "predict",
    "prototype_usefulness",
    "reconstruction_bound",
    "statistic_usefulness",
]

#: Constants a and b of eigenvalues after the first, per person: fitted to unit rows of the development sets.
SPECTRUM: Final = (0.066, 0.84)
#: Smallest first eigenvalue of these sets, per person: where half the edge is above it, not even use is seen.
LEAST_USE: Final = 0.19
#: Directions at which half of the gap was closed at entities of so few people, and how they grow with more people.
HALF_CLOSED: Final = 8.8
FEW_USERS: Final = 25.0
MANY_USERS: Final = 420.0
GROWTH: Final = 0.75
#: Four in five residuals were below .095 on the data they were fitted to; a data set not seen gets twice that.
SPREAD: Final = 0.2
# At most this part of the catalog is the number of directions at which half of the gap is closed.
_MOST_HALF: Final = 0.25
Word = Literal["nothing", "a little", "half", "most"]
#: Shares of the gap from which on a word is used. "nothing" is for noise that hides even use.
WORDS: Final[tuple[tuple[float, Word], ...]] = ((0.65, "most"), (0.35, "half"), (0.0, "a little"))
#: Chance that a stated bound is exceeded.
FAILURE: Final = 0.05
# Noise on the diagonal over √2 times that beside it: a hair above 1, since 70/99 is a hair below √½.
_ON_DIAGONAL: Final = 1 / (math.sqrt(2) * float(DIAGONAL))
# Directions beyond this many add nothing that a list of ten would show.
_MOST_DIRECTIONS: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class Range:
    """A figure for users spread evenly over the items (low) and users of a prototype exactly alike (high)."""

    low: float
    high: float

    def times(self, factor: float) -> Range:
        """Scale both ends."""
        return Range(low=self.low * factor, high=self.high * factor)


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """The patterns that a release can show at one price.

    Parameters
    ----------
    epsilon, delta : float
        Price of the release.
    law : str
        Law of the noise.
    share : float
        Patterns below this share of the largest possible one are hidden by the noise of all entities together; from 1
        on everything is.
    limit : float
        Largest share at which patterns are called clear of the noise.
    users_needed : int
        Fewest promised users of an entity for a share within the limit, with all else unchanged.
    verdict, reason : str
        In one word and in one sentence. Never "yes" for patterns: public numbers do not say whether the data hold one.
    noise, noise_on_mean : float, optional
        For prototypes: standard deviation on one released sum, and after division by the users of a prototype.
    number, patterns, profile : Range, optional
        For prototypes: signal over noise of one number, of the patterns, and of everything added up.
    """

    epsilon: float
    delta: float
    law: str
    share: float
    limit: float
    users_needed: int
    verdict: str
    reason: str = ""
    noise: float | None = None
    noise_on_mean: float | None = None
    number: Range | None = None
    patterns: Range | None = None
    profile: Range | None = None

    @property
    def clear(self) -> bool:
        """Whether patterns are called clear of the noise."""
        return self.share <= self.limit


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a release will probably be worth to a small entity, from public numbers: a guess for any one data set.

    Parameters
    ----------
    word : {"nothing", "a little", "half", "most"}
        How much of the gap to pooled data it closes. "a little" is at least which items are frequent.
    directions : float, optional
        Directions of taste that rise above the noise. None where nothing was measured: other mechanisms, ratings.
    share, low, high : float, optional
        Share of the gap, and a range twice as wide as four in five of what was measured.
    """

    word: Word | None
    directions: float | None = None
    share: float | None = None
    low: float | None = None
    high: float | None = None


def directions(edge: float, *, n_items: int, spectrum: tuple[float, float] = SPECTRUM) -> float:
    """Directions of taste above the noise, partly found ones in parts.

    Parameters
    ----------
    edge : float
        Spectral norm of the noise in the pairs, per person.
    n_items : int
        Length of the catalog.
    spectrum : pair of float
        The constants a and b.

    Examples
    --------
    >>> [round(directions(edge, n_items=500), 1) for edge in (0.1, 0.02, 0.002)]
    [0.0, 4.5, 90.4]
    """
    first, power = spectrum
    sizes = (first * place**-power for place in range(2, min(n_items, _MOST_DIRECTIONS) + 1))
    return math.fsum(1 - (edge / 2 / size) ** 2 for size in sizes if size > edge / 2)


def closed(
    found: float, *, users: float, n_items: int, half_closed: float = HALF_CLOSED, growth: float = GROWTH
) -> float:
    """Share of the gap that some directions close at an entity of so many people.

    Examples
    --------
    >>> [closed(10.0, users=users, n_items=500, half_closed=10.0, growth=0.5) for users in (20, 225)]
    [0.5, 0.25]
    >>> closed(40.0, users=10**6, n_items=41)
    0.8
    """
    size = min(max(users, FEW_USERS), MANY_USERS) / FEW_USERS
    half = min(half_closed * math.pow(size, growth), _MOST_HALF * (n_items - 1))
    return found / (found + half) if found else 0.0


def predict(public: ReleaseParameters, judged: Usefulness, *, pairs: bool) -> Prediction:
    """Predict what a release is worth.

    Parameters
    ----------
    public : ReleaseParameters
        The release.
    judged : Usefulness
        Its noise, as the mechanism judges it.
    pairs : bool
        Whether all pairs are released (`gram`). For others no share was measured: only "nothing" is said, where noise
        hides everything.

    Examples
    --------
    >>> from twofold.release.bilinear.mechanism import Gram
    >>> from twofold.release.contract import ReleaseParameters
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, delta=1e-6, n_entities=205)
    >>> for entities in (1, 20, 205):
    ...     asked = public.with_(n_entities=entities, epsilon="0.3", honest=entities)
    ...     print(predict(asked, Gram().usefulness(asked), pairs=True).word)
    nothing
    a little
    half
    """
    if not pairs or public.feedback != "counts":
        return Prediction(word="nothing" if judged.verdict == "no" else None)
    found = directions(judged.share, n_items=public.n_items)
    share = closed(found, users=public.n_users, n_items=public.n_items)
    hidden = judged.share / 2 >= LEAST_USE
    return Prediction(
        word="nothing" if hidden else next(word for least, word in WORDS if share >= least),
        directions=found,
        share=share,
        low=max(0.0, share - SPREAD),
        high=0.0 if hidden else min(1.0, share + SPREAD),
    )


def prototype_usefulness(public: ReleaseParameters, *, noise: float, rows: int, stacks: bool) -> Usefulness:
    """Judge prototypes by the noise on one released sum.

    Parameters
    ----------
    public : ReleaseParameters
        The release.
    noise : float
        Standard deviation of the noise on one sum, in the units of the values.
    rows : int
        Prototypes of one message.
    stacks : bool
        Whether the server stacks rows (otherwise it adds messages up).

    Examples
    --------
    >>> from twofold.release.contract import ReleaseParameters
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=1, epsilon="0.1")
    >>> found = prototype_usefulness(public, noise=1037.0, rows=10, stacks=True)
    >>> round(found.noise_on_mean, 1), round(found.number.low, 3), round(found.number.high, 3), found.verdict
    (11.5, 0.013, 0.033, 'no')
    """
    users, share = public.n_users / rows, public.row_items / public.n_items
    signal = Range(low=users * public.value_cap * share, high=users * public.value_cap * math.sqrt(share))
    number = signal.times(1 / noise) if noise else Range(low=math.inf, high=math.inf)
    H, m = public.n_entities, public.n_items
    patterns = number.times(math.sqrt(H * m) / (math.sqrt(rows * H if stacks else rows) + math.sqrt(m)))
    profile = number.times(math.sqrt(rows * H))
    best = profile if rows == 1 else patterns
    verdict, reason = _verdict(number, patterns, profile, alone=rows == 1)
    return Usefulness(
        epsilon=float(public.epsilon),
        delta=float(public.delta),
        law=public.law,
        share=1 / best.high,
        limit=1.0,
        users_needed=math.ceil(public.n_users / best.high),
        verdict=verdict,
        reason=reason,
        noise=noise,
        noise_on_mean=noise / users,
        number=number,
        patterns=patterns,
        profile=profile,
    )


def statistic_usefulness(public: ReleaseParameters, *, share: float, limit: float) -> Usefulness:
    """Judge a bilinear statistic by the share of its noise: "perhaps", "hardly" above the limit, "no" from 1 on.

    Examples
    --------
    >>> from twofold.release.contract import ReleaseParameters
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=1, delta=1e-6)
    >>> found = statistic_usefulness(public, share=0.25, limit=0.125)
    >>> found.verdict, found.users_needed
    ('hardly', 1800)
    """
    verdict = "perhaps" if share <= limit else "hardly" if share < 1 else "no"
    return Usefulness(
        epsilon=float(public.epsilon),
        delta=float(public.delta),
        law=public.law,
        share=share,
        limit=limit,
        # The noise does not depend on the users, so its share in them falls as they grow.
        users_needed=math.ceil(public.n_users * share / limit),
        verdict=verdict,
    )


def moments_bound(edge: float, *, n_items: int, failure: float = FAILURE) -> float:
    """Spectral norm that the error of second moments, per person, exceeds with a small chance only.

    Parameters
    ----------
    edge : float
        2σ√m/n: the share of a gram of counts, under a secure sum or of one entity.
    n_items : int
        Length of the catalog.
    failure : float
        The chance.

    Examples
    --------
    >>> round(moments_bound(0.01, n_items=457), 5)
    0.0109
    """
    return _ON_DIAGONAL * edge * (1 + math.sqrt(math.log(2 / failure) / n_items))


def reconstruction_bound(edge: float, rank: int, *, n_items: int, failure: float = FAILURE) -> float:
    """Part of the squared length of rows that noise costs shared directions at most; from 1 on it says nothing.

    Examples
    --------
    >>> [round(reconstruction_bound(0.0007, rank, n_items=457), 4) for rank in (1, 10, 50)]
    [0.0015, 0.0153, 0.0763]
    """
    return 2 * rank * moments_bound(edge, n_items=n_items, failure=failure)


def _verdict(number: Range, patterns: Range, profile: Range, *, alone: bool) -> tuple[str, str]:
    """Judge by the best case first; only noise below the average entry is called useful outright."""
    if number.low >= 1 and not alone:
        return "yes", "even a single released number stands above its noise"
    if patterns.high >= 1 and not alone:
        return (
            "perhaps",
            "noise hides single numbers; patterns may show, the more alike the users of a prototype are",
        )
    if profile.high >= 1:
        return "one profile", "noise hides the prototypes; at best, the release shows which items are frequent"
    return "no", "noise hides even the total; the release is private but useless"


def noise_ratio(public: ReleaseParameters, *, noise: float, cells: int, entities: int = 1) -> float:
    """Noise energy of a cell's mean over the most a split can gain; above 1, a split cannot pay.

    A cell of n users has a mean whose noise has the energy items·σ²/n². What it can gain over publishing the mean of
    all users is at most the squared distance of its mean from that one, which rows of l2 norm R keep below R².

    Parameters
    ----------
    public : ReleaseParameters
        The release.
    noise : float
        Standard deviation of the noise on one sum, in the units of the values.
    cells : int
        Number of cells among which users are assumed to be spread evenly.
    entities : int
        Number of messages that are added up: σ² grows with them, n² with their square.

    Examples
    --------
    >>> from twofold.release.contract import ReleaseParameters
    >>> few = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=1, epsilon="0.1")
    >>> round(noise_ratio(few, noise=1037.0, cells=10))
    919
    """
    users = public.n_users / cells
    energy = public.n_items * noise**2 / (users**2 * entities)
    return energy / public.row_l2**2


def fallback_note(ratio: float, public: ReleaseParameters) -> str:
    """Say why one prototype was released instead of several; public numbers only."""
    return (
        f"fell back to one prototype: with {public.n_users:,} promised users, {public.n_items:,} items, "
        f"{public.n_prototypes} prototypes and ε = {float(public.epsilon):g} the noise in a prototype has "
        f"{ratio:.3g} times the energy that the largest possible pattern has"
    )
