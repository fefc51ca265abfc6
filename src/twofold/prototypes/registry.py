"""Mechanisms by name."""

from __future__ import annotations

import importlib
from typing import Any, Final, cast

from twofold.errors import BadParameter
from twofold.prototypes.base import Mechanism

__all__ = ["BILINEAR", "NOT_PRIVATE", "PRIVATE", "mechanism"]

_HOMES: Final = {
    "auto": "auto:Auto",
    "balcan": "balcan:Balcan",
    "buckets": "buckets:Buckets",
    "popularity": "popularity:Popularity",
    "sulq": "sulq:SuLQ",
    "exact": "exact:Exact",
    "kmeans": "kmeans:KMeans",
    "random": "random_users:RandomUsers",
    "gram": "bilinear.mechanism:Gram",
    "sketch": "bilinear.mechanism:Sketch",
    "features": "bilinear.mechanism:ItemFeatures",
}
#: Mechanisms with a proof that release prototypes, in the order of the documentation.
PRIVATE: Final = ("balcan", "sulq", "buckets", "popularity")
#: Mechanisms with a proof that release one bilinear statistic (`twofold.prototypes.bilinear`).
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
        made = getattr(importlib.import_module(f"twofold.prototypes.{module}"), kind)(**options)
    except TypeError:
        raise BadParameter(f"mechanism {name!r} has no such option.", found=", ".join(options)) from None
    return cast(Mechanism, made)
