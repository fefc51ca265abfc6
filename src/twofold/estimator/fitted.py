"""Asked too early: an error that scikit-learn's own handlers know, without importing scikit-learn."""

from __future__ import annotations

import sys

from twofold.errors import NotFitted

__all__ = ["not_fitted"]


def not_fitted() -> NotFitted:
    """Make the error; where scikit-learn is loaded already it is one of its NotFittedError too.

    Examples
    --------
    >>> raise not_fitted()
    Traceback (most recent call last):
    twofold.errors.NotFitted: this recommender was not fitted...
    """
    kind: type[NotFitted] = NotFitted
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    if theirs is not None:
        names = {"__module__": NotFitted.__module__, "__doc__": NotFitted.__doc__, "__reduce__": _reduce}
        kind = type("NotFitted", (NotFitted, theirs), names)
    return kind("this recommender was not fitted.", fix="fit(frame, entity=...) first")


def _reduce(_: NotFitted) -> tuple[object, ...]:
    return not_fitted, ()
