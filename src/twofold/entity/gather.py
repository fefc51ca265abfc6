"""An entity's users part by part: the exact records of a release, added up over them.

Round 2 gathers something else in the same way (`twofold.entity.own`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain

from scipy import sparse

from twofold.data.bounds import Bounds
from twofold.data.ratings import Ratings
from twofold.data.scan import Scan
from twofold.errors import PlanMismatch, Set
from twofold.federation.plan import Plan
from twofold.release.clamp import Sums, joined
from twofold.release.contract import Adding, adding

__all__ = ["adder_of", "bounded", "part_of", "release_sums"]


def bounded(ratings: Ratings, plan: Plan) -> Ratings:
    """Cut every user's row to the plan's public bounds; norms are capped by the mechanism, in whole numbers.

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> from twofold.data.catalog import Identifiers
    >>> from scipy import sparse
    >>> catalog = Catalog(["x", "y", "z"])
    >>> ratings = Ratings(sparse.csr_array([[9.0, 1.0, 0.0]]), Identifiers(["ann"]), catalog, "counts")
    >>> bounded(ratings, Plan(catalog=catalog, feedback="counts", bound=5, max_items=2)).of("ann")
    {'x': 5.0, 'y': 1.0}
    """
    return Bounds(bound=plan.bound, lower=plan.lower, max_items=plan.max_items, seed=plan.seed).apply(ratings)[0]


def release_sums(ratings: Scan, plan: Plan) -> Sums:
    """Exact sums of the records of all users, added up part by part. Private, no noise yet.

    Parameters
    ----------
    ratings : Scan
        Private.
    plan : Plan
        With a mechanism that adds users up.
    """
    return joined(ratings.parts(partial(part_of, plan)))


def part_of(plan: Plan, batches: Iterable[Ratings]) -> Sums:
    """Exact sums of the records of one part of the users: the one function that an engine runs.

    Privacy
    -------
    Pure: it draws nothing and stores nothing. Records are whole numbers of one user each, so the sums over all parts
    are the same however users are cut into parts and batches, and a part that is computed twice gives the same again.

    Examples
    --------
    >>> from twofold.data.catalog import Catalog
    >>> rows = Ratings.from_matrix(sparse.csr_array([[9.0, 1.0, 0.0], [0.0, 2.0, 2.0]]))
    >>> plan = Plan(catalog=rows.catalog, feedback="counts", bound=5, max_items=2, mechanism="popularity")
    >>> one, two = part_of(plan, [rows]), part_of(plan, [rows.take([1]), rows.take([0])])
    >>> bool((one[0].held(2**60) == two[0].held(2**60)).all())
    True
    """
    adder = adder_of(plan)
    nobody = adder.part(sparse.csr_array((0, plan.n_items)))
    return joined(chain([nobody], (adder.part(bounded(batch, plan).matrix) for batch in batches)))


def adder_of(plan: Plan) -> Adding:
    """Give the plan's release as a sum over users, or refuse a plan that has none."""
    found = adding(plan.release_mechanism, plan.parameters)
    if found is None:
        raise PlanMismatch(
            "this mechanism has to see all users at once, which a scan does not give; nothing was drawn.",
            found=plan.spec.mechanism,
            expected="gram, features, sketch, buckets or popularity, which add users up",
            fix=("read_ratings(...), which reads everything into memory", Set("mechanism", "gram")),
            parameter="mechanism",
        )
    return found
