"""Bytes of one person's report, by catalog and statistic, from real reports."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from scipy import sparse

from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.person import Person
from twofold.features import Features
from twofold.federation.plan import Plan
from twofold.federation.reports import decode_report, half
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role, Secrets
from twofold.identity.roster import Roster

__all__ = ["sizes"]

#: Items, and columns of public features: simulated hospitals, and the movies that MovieLens users rated.
_CATALOGS: Final = ((457, 12), (3_706, 18))


def sizes(people: int = 100_000, *, most_items: int = 10_000) -> Iterator[dict[str, Any]]:
    """Make one report of every kind and weigh it; catalogs of at most so many items."""
    secrets = [Secrets.new(name, Role.OPERATOR) for name in ("one", "two")]
    for items, columns in (one for one in _CATALOGS if one[0] <= most_items):
        catalog = Catalog([f"item-{number}" for number in range(items)])
        table = Features(
            matrix=(np.arange(items)[:, None] % columns == np.arange(columns)).astype(np.int64),
            names=tuple(f"feature-{number}" for number in range(columns)),
        )
        for what in ("gram", "sketch", "features"):
            plan = Plan(
                catalog=catalog,
                feedback="counts",
                bound=5,
                max_items=items,
                n_users=1,
                n_entities=people,
                n_prototypes=40,
                mechanism=what,
                features=table if what == "features" else None,
                delta=1e-6,
                simulation=True,
                secure=OperatorSum(floor=people // 2, people=True),
                roster=Roster(one.identity for one in secrets),
            )
            assert plan.spec.sum is not None
            row = sparse.csr_array(([1.0, 2.0], ([0, 0], [1, 2])), shape=(1, items))
            start = time.process_time()
            made = Person(
                Ratings(row, Identifiers(["me"]), catalog, "counts"), plan, keys=Secrets.new("me", Role.PERSON)
            ).report()
            spent = time.process_time() - start
            report = decode_report(made.data, plan)
            yield {
                "catalog": f"{items:,} items" + (f", {columns} features" if what == "features" else ""),
                "what": f"{what}, 40 columns" if what == "sketch" else what,
                "numbers": plan.spec.sum.length,
                "bytes": len(made.data),
                "first": len(half(report, 0)),
                "second": len(half(report, 1)),
                "milliseconds": 1_000 * spent,
            }
