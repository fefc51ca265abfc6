"""Where a new plan starts, from the length of the catalog and the kind of feedback alone."""

from __future__ import annotations

import math
from typing import Any

from twofold.protocol.plan import Plan
from twofold.protocol.plan_checks import CatalogKey

__all__ = ["new_plan", "suggested"]

_MOST_ITEMS_OF_A_USER = 100


def suggested(n_items: int, feedback: str) -> dict[str, Any]:
    """Suggest the fields that depend on the catalog; a federation that knows better says so.

    Notes
    -----
    * `max_items`: three times the root of the catalog, between 10 and 100. Noise grows with it and few people have
      more; 64 for the 457 items of a hospital list, 100 from 1,112 items on.
    * `bound`: 5, and `lower` 1 for ratings, the usual five stars. Counts beyond 5 say little more and cost much noise.
    * `n_prototypes`: 10, `rank`: 20, as in the paper's experiments; no more than there are items.

    Examples
    --------
    >>> suggested(457, "counts")
    {'bound': 5, 'lower': 0, 'max_items': 64, 'n_prototypes': 10, 'rank': 20}
    """
    most = min(_MOST_ITEMS_OF_A_USER, max(10, round(3 * math.sqrt(n_items))))
    return {
        "bound": 5,
        "lower": 1 if feedback == "ratings" else 0,
        "max_items": min(n_items, most),
        "n_prototypes": min(10, n_items),
        "rank": min(20, n_items),
    }


def new_plan(catalog: Any, *, feedback: str = "counts", **given: Any) -> Plan:
    """Make a plan for a catalog, with suggestions where nothing is given (None counts as not given).

    Examples
    --------
    >>> plan = new_plan(CatalogKey(hash="0" * 64, n_items=457), epsilon=0.5, rank=None)
    >>> plan.max_items, plan.rank, plan.epsilon
    (64, 20, Fraction(1, 2))
    """
    key = CatalogKey.of(catalog)
    chosen = {name: value for name, value in given.items() if value is not None}
    return Plan(**{"catalog": key, "feedback": feedback, **suggested(key.n_items, feedback), **chosen})
