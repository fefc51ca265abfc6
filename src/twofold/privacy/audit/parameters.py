"""Rule 2 of the privacy layer as a check: neighbouring data sets must give identical parameters.

A noise scale, a size or a number of rounds that depends on the data is a leak that no ε in the event
accounts for. The events of two runs on neighbours, and the shapes of what was released, are compared field
by field. Only names of differing fields are reported, never their values, which may be private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from twofold.privacy.mechanisms.released import Released
from twofold.privacy.rng import Source, source

__all__ = ["differing_parameters"]


def differing_parameters(
    mechanism: Callable[[Any, Source], Released[Any]],
    data: Any,
    neighbour: Any,
    *,
    fixed_shape: bool = True,
    seed: int = 0,
) -> tuple[str, ...]:
    """Names of event fields (and "shape") that differ between runs on two neighbours; empty when all is well.

    Parameters
    ----------
    mechanism : callable
        ``mechanism(data, source)`` returns a `Released`.
    data, neighbour : object
        The two data sets.
    fixed_shape : bool
        Whether the released value must have the same shape on both. False for mechanisms whose result is a
        random list, such as open cells.
    seed : int
        Both runs use it.

    Examples
    --------
    >>> from twofold.privacy.mechanisms.discrete_laplace import DiscreteLaplace
    >>> from twofold.privacy.unit import Unit
    >>> def seen_items_only(data, noise):
    ...     laplace = DiscreteLaplace(epsilon=1, sensitivity=1, unit=Unit.person())
    ...     return laplace.release(data[data > 0], rng=noise)
    >>> differing_parameters(seen_items_only, np.array([3, 0]), np.array([3, 1]))
    ('coordinates', 'shape')
    """
    one, two = mechanism(data, source(seed)), mechanism(neighbour, source(seed))
    names = list(_differences(one.event.as_dict(), two.event.as_dict(), ""))
    if fixed_shape and np.shape(one.value) != np.shape(two.value):
        names.append("shape")
    return tuple(names)


def _differences(one: object, two: object, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(two, dict):
        for key in sorted(set(one) | set(two)):
            yield from _differences(one.get(key), two.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, pair in enumerate(zip(one, two, strict=True)):
            yield from _differences(*pair, f"{path}[{index}]")
    elif one != two:
        yield path
