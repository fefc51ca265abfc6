r"""`mechanism="auto"`: choose by public numbers only, and say why.

Mechanisms by name.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from twofold.errors import BadParameter, MissingExtra
from twofold.privacy.events import Event, Released
from twofold.privacy.rng import Source
from twofold.release.balcan import Balcan
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.buckets import Buckets, Popularity
from twofold.release.cells import CellNoise
from twofold.release.content import Kind
from twofold.release.contract import Mechanism, ReleaseParameters
from twofold.release.sulq import SuLQ
from twofold.release.usefulness import bilinear_choice, noise_ratio

__all__ = ["BILINEAR", "NOT_PRIVATE", "PRIVATE", "Auto", "Choice", "choose", "mechanism"]

# Noise energy over that of the largest pattern. Real patterns are well below the largest; at a quarter, clusters of an
# entity's own were found again on mixtures, at one hardly anything was.
_CLEAR = 0.25


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A mechanism and the reason, in words and public numbers."""

    mechanism: Mechanism
    reason: str


def choose(public: ReleaseParameters) -> Choice:
    """Choose a mechanism from catalog size, promised users, ε, δ, prototypes, entities, and what is known of items.

    Notes
    -----
    A bilinear statistic where it is clear of its noise by public numbers (`twofold.release.usefulness`): for
    counts all pairs (`gram`), for ratings the public features if there are any, a sketch where a catalog has too many
    pairs, and none of these for a catalog of a few items. Under a secure sum only these can be added up, so the
    clearest is taken in any case. Where none is clear:

    Clusters of an entity's own when its noise leaves them clear: by the paper's chain (`Balcan`) for pure ε, by noisy
    Lloyd steps (`SuLQ`) where a δ allows Gaussian noise; each was the better one there on mixtures. Else cells that all
    entities share (`Buckets`), whose noise falls with the number of entities; else one profile (`Popularity`).

    Examples
    --------
    >>> public = ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=1, epsilon=0.1, n_entities=205)
    >>> print(choose(public).reason)
    popularity: even added up over 205 entities, the noise in a prototype has 4.48 times the energy...
    >>> choose(public.with_(delta=1e-6)).mechanism.name
    'gram'
    >>> choose(public.with_(n_items=10_000, n_users=10**6)).mechanism.name
    'sketch'
    """
    if public.n_prototypes > 1 or public.honest:
        found = bilinear_choice(public)
        if found is not None:
            return _bilinear(*found)
    return _prototypes(public)


def _bilinear(kind: Kind, share: float, clear: bool) -> Choice:
    seen = f"the noise of all entities together hides patterns below {share:.3g} of the users' squared length"
    words = seen if clear else f"{seen}, which is too much; under a secure sum nothing else can be added up"
    return Choice(mechanism=Bilinear(kind=kind), reason=f"{kind}: {words}.")


def _prototypes(public: ReleaseParameters) -> Choice:
    """Choose among the mechanisms that release prototypes."""
    noise = CellNoise(public=public, budget=public.budget, cells=public.n_prototypes)
    own = SuLQ().noise_ratio(public)
    shared = noise_ratio(noise, cells=public.n_prototypes, entities=public.n_entities)
    if public.n_prototypes == 1:
        return Choice(mechanism=Popularity(), reason="popularity: the plan asks for one prototype.")
    if own <= _CLEAR:
        chain = public.law == "laplace" and Balcan().size(public) == public.n_prototypes  # the tree can open
        chosen: Mechanism = Balcan() if chain else SuLQ()
        return Choice(
            mechanism=chosen,
            reason=f"{chosen.name}: {_has(own)}, little enough for every entity's own clusters; "
            f"{'with pure ε' if public.law == 'laplace' else 'with a δ'} this one finds them best.",
        )
    if shared <= 1:
        return Choice(
            mechanism=Buckets(),
            reason=f"buckets: {_has(own)} for clusters of an entity's own, but {shared:.3g} times for public cells "
            f"added up over {public.n_entities} entities.",
        )
    return Choice(
        mechanism=Popularity(),
        reason=f"popularity: even added up over {public.n_entities} entities, {_has(shared)}.",
    )


@dataclass(frozen=True, kw_only=True)
class Auto:
    """The mechanism that `choose` chooses; entities and server choose alike, for they have the same public numbers.

    Examples
    --------
    >>> public = ReleaseParameters(n_items=9, n_users=10, max_items=3, bound=1, epsilon=0.1)
    >>> Auto().price(public) == Popularity().price(public)
    True
    """

    @property
    def name(self) -> str:
        """How a plan names it."""
        return "auto"

    @property
    def private(self) -> bool:
        """Yes: it chooses among private ones."""
        return True

    def size(self, public: ReleaseParameters) -> int | None:
        """As the chosen one."""
        return choose(public).mechanism.size(public)

    def price(self, public: ReleaseParameters, *, seeded: bool = False) -> Event:
        """As the chosen one."""
        return choose(public).mechanism.price(public, seeded=seeded)

    def release(self, rows: Any, public: ReleaseParameters, *, rng: int | Source | None = None) -> Released[Any]:
        """As the chosen one."""
        return choose(public).mechanism.release(rows, public, rng=rng)

    def combine(self, messages: Iterable[Any], public: ReleaseParameters) -> Any:
        """As the chosen one."""
        return choose(public).mechanism.combine(messages, public)


def _has(ratio: float) -> str:
    return f"the noise in a prototype has {ratio:.3g} times the energy of the largest possible pattern"


_HOMES: Final = {
    "auto": "twofold.release.choose:Auto",
    "balcan": "twofold.release.balcan:Balcan",
    "buckets": "twofold.release.buckets:Buckets",
    "popularity": "twofold.release.buckets:Popularity",
    "sulq": "twofold.release.sulq:SuLQ",
    "gram": "twofold.release.bilinear.mechanism:Gram",
    "sketch": "twofold.release.bilinear.mechanism:Sketch",
    "features": "twofold.release.bilinear.mechanism:ItemFeatures",
    "exact": "studies.not_private:Exact",
    "kmeans": "studies.not_private:KMeans",
    "random": "studies.not_private:RandomUsers",
}
#: Mechanisms with a proof that release prototypes, in the order of the documentation.
PRIVATE: Final = ("balcan", "sulq", "buckets", "popularity")
#: Mechanisms with a proof that release one bilinear statistic (`twofold.release.bilinear`).
BILINEAR: Final = ("gram", "sketch", "features")
#: For comparison only; their events cost infinity.
NOT_PRIVATE: Final = ("kmeans", "random", "exact")


def mechanism(name: str, **options: Any) -> Mechanism:
    """Return the mechanism a plan names, with its own public options.

    Parameters
    ----------
    name : str
        One of `PRIVATE`, `BILINEAR` or `NOT_PRIVATE`, or "auto".
    **options
        Public parameters of that mechanism, its defaults when not given.

    Examples
    --------
    >>> mechanism("sulq", steps=1).name
    'sulq'
    >>> mechanism("magic")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this mechanism is not known...
    """
    if name not in _HOMES:
        raise BadParameter(
            "this mechanism is not known.",
            found=repr(name),
            expected=f"{', '.join(sorted((*PRIVATE, *BILINEAR, 'auto')))}; "
            f"not private, for comparison: {', '.join(NOT_PRIVATE)}",
            fix='mechanism="auto"',
        )
    module, _, kind = _HOMES[name].partition(":")
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if not (problem.name or "").startswith("studies"):
            raise
        raise MissingExtra(
            "this {parameter} is for comparison only and not part of the package.",
            parameter="mechanism",
            found=repr(name),
            expected=", ".join(sorted((*PRIVATE, *BILINEAR, "auto"))),
            fix="run it in the laboratory of the source repository, the folder studies/",
        ) from None
    try:
        made = getattr(home, kind)(**options)
    except TypeError:
        raise BadParameter(f"mechanism {name!r} has no such option.", found=", ".join(options)) from None
    return cast(Mechanism, made)
