"""Mechanisms by name, and `mechanism="auto"`: a choice by public numbers only, with its reason."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Final, cast

from twofold.errors import BadParameter, MissingExtra, Set
from twofold.release.balcan import Balcan
from twofold.release.bilinear.layout import MOST_NUMBERS, MOST_PAIRED
from twofold.release.bilinear.mechanism import Bilinear, clear_share
from twofold.release.buckets import Buckets, Popularity
from twofold.release.cells import CellNoise
from twofold.release.content import Kind
from twofold.release.contract import Mechanism, ReleaseParameters
from twofold.release.sulq import SuLQ
from twofold.release.usefulness import noise_ratio

__all__ = [
    "BILINEAR",
    "GRAM_ITEMS",
    "LEAST_ITEMS",
    "NOT_PRIVATE",
    "PRIVATE",
    "Choice",
    "bilinear_choice",
    "choose",
    "mechanism",
    "possible_kinds",
    "resolve",
]

#: Largest catalog for which "auto" sends all pairs. Of counts as many as an entity's model can use, 18 million numbers,
#: and no plan may send more; of ratings two million.
GRAM_ITEMS: Final = {"counts": MOST_PAIRED, "ratings": 2_000}
#: Smallest catalog for which "auto" looks at pairs at all, unless the sum is secure: of fewer items a handful of
#: prototypes says as much, and simpler.
LEAST_ITEMS: Final = 16
# Noise energy over that of the largest pattern. Real patterns are well below the largest; at a quarter, clusters of an
# entity's own were found again on mixtures, at one hardly anything was.
_CLEAR = 0.25


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A mechanism and the reason, in words and public numbers."""

    mechanism: Mechanism
    reason: str


def choose(public: ReleaseParameters) -> Choice:
    """Choose a mechanism from catalog size, promised users, ε, δ, prototypes, entities, and public features.

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
    if public.n_prototypes > 1 or public.summed:
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
    shared = noise_ratio(public, noise=noise.noise.values, cells=public.n_prototypes, entities=public.n_entities)
    if public.n_prototypes == 1:
        return Choice(mechanism=Popularity(), reason="popularity: the plan asks for one prototype.")
    if own <= _CLEAR:
        chain = public.law == "laplace" and Balcan().spec(public).rows == public.n_prototypes  # the tree can open
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
            f"added up over {_entities(public)}.",
        )
    return Choice(
        mechanism=Popularity(),
        reason=f"popularity: even added up over {_entities(public)}, {_has(shared)}.",
    )


def resolve(name: str, public: ReleaseParameters) -> Choice:
    """Give the mechanism that a plan names; for "auto", the one that public numbers choose, with the reason.

    Examples
    --------
    >>> resolve("sulq", ReleaseParameters(n_items=9, n_users=10, max_items=3, bound=1)).mechanism.name
    'sulq'
    """
    return choose(public) if name == "auto" else Choice(mechanism=mechanism(name), reason="")


def possible_kinds(public: ReleaseParameters) -> list[Kind]:
    """Kinds that a plan can use, the better ones first.

    Examples
    --------
    >>> possible_kinds(ReleaseParameters(n_items=457, n_users=900, max_items=66, bound=5))
    ['gram']
    """
    gram: list[Kind] = ["gram"] if public.n_items <= GRAM_ITEMS[public.feedback] else []
    columns = 0 if public.features is None else public.features.n_features
    features: list[Kind] = ["features"] if 0 < public.n_items * columns <= MOST_NUMBERS else []
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
    if public.n_items < LEAST_ITEMS and not public.summed:
        return None
    shares = {kind: Bilinear(kind=kind).noise_share(public) for kind in possible_kinds(public)}
    for kind, share in shares.items():
        if share <= clear_share(kind, public.feedback):
            return kind, share, True
    if not public.summed or not shares:
        return None
    least = min(shares, key=lambda kind: shares[kind])
    return least, shares[least], False


def _entities(public: ReleaseParameters) -> str:
    return "1 entity" if public.n_entities == 1 else f"{public.n_entities:,} entities"


def _has(ratio: float) -> str:
    return f"the noise in a prototype has {ratio:.3g} times the energy of the largest possible pattern"


_HOMES: Final = {
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
    """Return the mechanism that a plan names, with its public options.

    Parameters
    ----------
    name : str
        One of `PRIVATE`, `BILINEAR` or `NOT_PRIVATE`.
    **options
        Public parameters of that mechanism, its defaults when not given.

    Examples
    --------
    >>> mechanism("sulq", steps=1).name
    'sulq'
    >>> mechanism("magic")
    Traceback (most recent call last):
    twofold.errors.BadParameter: this mechanism is unknown...
    """
    if name not in _HOMES:
        raise BadParameter(
            "this mechanism is unknown.",
            found=repr(name),
            expected=f"{', '.join(sorted((*PRIVATE, *BILINEAR, 'auto')))}; "
            f"not private, for comparison: {', '.join(NOT_PRIVATE)}",
            fix=Set("mechanism", "auto"),
            parameter="mechanism",
        )
    module, _, kind = _HOMES[name].partition(":")
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if not (problem.name or "").startswith("studies"):
            raise
        raise MissingExtra(
            "this {parameter} is for comparison only; it is not part of the package.",
            parameter="mechanism",
            found=repr(name),
            expected=", ".join(sorted((*PRIVATE, *BILINEAR, "auto"))),
            fix="run it from the folder studies/ of the source repository",
        ) from None
    try:
        made = getattr(home, kind)(**options)
    except TypeError:
        raise BadParameter(
            f"mechanism {name!r} does not have this option.", found=", ".join(options), parameter="options"
        ) from None
    return cast(Mechanism, made)
