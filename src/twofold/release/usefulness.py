r"""Whether more than one prototype can pay, judged by public numbers before anything is drawn.

A prototype of n users has a mean whose noise has the energy items·σ²/n². What it can win over publishing the mean of
everybody is at most the squared distance of its mean from that one, which rows of l2 norm R keep below R². Where the
noise energy exceeds R² no data whatsoever can make the split pay, and the mechanism releases one prototype instead, and
says so. n is the promised number of users over the number of prototypes, times the entities where messages are added.

Whether a bilinear statistic can rise above its noise, judged by public numbers before anything is drawn.

The pairs of all users, with rows of norm at most 1, have a largest singular value of at most the number of users n.
Their noise, independent with deviation σ in an m × k table, has a spectral norm of about
:math:`\sigma(\sqrt m + \sqrt k)`, and :math:`2\sigma\sqrt m` for the symmetric m × m one. The share of the second in n
says how large a pattern must be to be seen: at 1/100 one that a hundredth of all users' squared length lies along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from twofold.release.bilinear.layout import MOST_NUMBERS, BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise
from twofold.release.cells import CellNoise
from twofold.release.content import Kind
from twofold.release.contract import ReleaseParameters

__all__ = [
    "GRAM_ITEMS",
    "LEAST_ITEMS",
    "Usefulness",
    "bilinear_choice",
    "clear_share",
    "fallback_note",
    "noise_ratio",
    "noise_share",
    "possible_kinds",
    "worth",
]


def noise_ratio(noise: CellNoise, *, cells: int, entities: int = 1) -> float:
    """Noise energy of a cell's mean over the most a split can win; above 1 it cannot pay.

    Parameters
    ----------
    noise : CellNoise
        The noise of the release.
    cells : int
        Among how many cells users are taken to be shared out evenly.
    entities : int
        How many messages are added up: σ² grows with them, n² with their square.

    Examples
    --------
    >>> few = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=1, epsilon="0.1")
    >>> round(noise_ratio(CellNoise(public=few, budget=few.budget, cells=10), cells=10))
    919
    """
    public = noise.public
    users = public.n_users / cells
    energy = public.n_items * noise.noise.values**2 / (users**2 * entities)
    return energy / public.row_l2**2


def fallback_note(ratio: float, public: ReleaseParameters) -> str:
    """Say why one prototype was released instead of several; public numbers only."""
    return (
        f"fell back to one prototype: with {public.n_users:,} promised users, {public.n_items:,} items, "
        f"{public.n_prototypes} prototypes and ε = {float(public.epsilon):g} the noise in a prototype has "
        f"{ratio:.3g} times the energy that the largest possible pattern has"
    )


#: Largest catalog for which "auto" sends all pairs: two million numbers.
GRAM_ITEMS: Final = 2_000
#: Smallest catalog for which "auto" looks at pairs at all, unless the sum is secure: of fewer items a handful of
#: prototypes says as much, and simpler.
LEAST_ITEMS: Final = 16
# Shares up to which a statistic was better than none in research: on simulated hospitals a Gram matrix still won at
# 1/8; on MovieLens ratings it lost from 1/22 on, and features with shrinkage to the public table won up to 2/3.
_CLEAR: Final = {"counts": 1 / 8, "ratings": 1 / 25}
_CLEAR_FEATURES: Final = {"counts": 1 / 8, "ratings": 1.0}


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """How far a bilinear statistic can rise above its noise.

    Parameters
    ----------
    epsilon : float
        Price of the release.
    share : float
        Noise of all entities together: patterns along which less than this share of all users' squared length lies
        are hidden (`noise_share`).
    limit : float
        Largest share that "auto" calls clear (`clear_share`).
    users_needed : int
        Promised users of an entity from which on the share is at most the limit, all else as it is.
    """

    epsilon: float
    share: float
    limit: float
    users_needed: int

    @property
    def clear(self) -> bool:
        """Whether "auto" calls the statistic clear of its noise."""
        return self.share <= self.limit

    @property
    def verdict(self) -> str:
        """Say "perhaps" where clear, "hardly" above the limit, "no" where even a pattern of all users is hidden.

        Never "yes": whether the data hold a pattern that is large enough, public numbers do not say.
        """
        if self.clear:
            return "perhaps"
        return "hardly" if self.share < 1 else "no"


def worth(public: ReleaseParameters, kind: Kind) -> Usefulness:
    """Judge a statistic by public numbers alone, with the limit that "auto" uses.

    Privacy
    -------
    Touches no data.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, delta=1e-6, n_entities=205)
    >>> found = worth(public, "gram")
    >>> round(found.share, 4), found.limit, found.users_needed, found.verdict
    (0.0116, 0.125, 84, 'perhaps')
    """
    share, limit = noise_share(public, kind), clear_share(kind, public.feedback)
    # The noise does not depend on the users, so its share in them falls as they grow.
    needed = math.ceil(public.n_users * share / limit)
    return Usefulness(epsilon=float(public.epsilon), share=share, limit=limit, users_needed=needed)


def clear_share(kind: Kind, feedback: str) -> float:
    """Largest share of the noise at which "auto" calls a statistic clear of it.

    Examples
    --------
    >>> clear_share("gram", "counts"), clear_share("gram", "ratings"), clear_share("features", "ratings")
    (0.125, 0.04, 1.0)
    """
    return (_CLEAR_FEATURES if kind == "features" else _CLEAR)[feedback]


def noise_share(public: ReleaseParameters, kind: Kind) -> float:
    """Spectral norm of the noise in the pairs of all entities, as a share of the number of users.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, delta=1e-6, n_entities=205)
    >>> round(noise_share(public, "gram"), 4), round(noise_share(public.with_(honest=205), "gram"), 4)
    (0.0116, 0.0008)
    """
    layout = BilinearLayout.of(public, kind)
    # A second vector of l1 norm S has an l2 norm of about S/√k.
    profile = layout.profile_norm / (1 if layout.l2 else math.sqrt(layout.columns))
    largest = layout.norm * (layout.norm if layout.gram else profile)
    one = BilinearNoise(public=public, layout=layout).deviation / largest
    width = math.sqrt(layout.n_items) + math.sqrt(layout.columns)
    return one * width * math.sqrt(public.n_entities) / (public.n_users * public.n_entities)


def possible_kinds(public: ReleaseParameters) -> list[Kind]:
    """Kinds that a plan can use, the better ones first.

    Examples
    --------
    >>> possible_kinds(ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5))
    ['gram']
    """
    gram: list[Kind] = ["gram"] if public.n_items <= GRAM_ITEMS else []
    features: list[Kind] = ["features"] if public.features is not None else []
    small = public.n_items * public.n_prototypes <= MOST_NUMBERS
    sketch: list[Kind] = ["sketch"] if small and not gram else []
    # A sketch of few columns keeps less of every pattern, so it is for catalogs with too many pairs.
    # Features say what a rating of an unknown film will be like; co-occurrence says more about counts.
    first = [*features, *gram] if public.feedback == "ratings" else [*gram, *features]
    return [*first, *sketch]


def bilinear_choice(public: ReleaseParameters) -> tuple[Kind, float, bool] | None:
    """Give the kind that is clear of its noise, its share, and True; under a secure sum the clearest one and False.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5, delta=1e-6, n_entities=205)
    >>> bilinear_choice(public)[0], bilinear_choice(public.with_(epsilon="0.01"))
    ('gram', None)
    """
    if public.n_items < LEAST_ITEMS and not public.honest:
        return None
    shares = {kind: noise_share(public, kind) for kind in possible_kinds(public)}
    for kind, share in shares.items():
        if share <= clear_share(kind, public.feedback):
            return kind, share, True
    if not public.honest or not shares:
        return None
    least = min(shares, key=lambda kind: shares[kind])
    return least, shares[least], False
