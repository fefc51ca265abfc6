"""Who could work together against an entity of a plan, and the ε that is left then."""

from __future__ import annotations

from twofold.federation.plan import Plan
from twofold.privacy.coalitions import Coalition, coalitions_of

__all__ = ["Coalition", "coalitions"]


def coalitions(plan: Plan) -> tuple[Coalition, ...]:
    """List every coalition of a plan with the ε of one holder in one entity, at the plan's δ.

    Parameters
    ----------
    plan : Plan
        With or without a secure sum of either kind.

    Privacy
    -------
    From public numbers only: touches no data and spends nothing. Proofs are in docs/reference/operators.md.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> from twofold.federation.secure import OperatorSum
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=9), feedback="counts", bound=5, max_items=2, n_users=500,
    ...             n_entities=205, delta=1e-6, mechanism="gram", secure=OperatorSum(floor=103))
    >>> for row in coalitions(plan):
    ...     print(f"{row.who}: {float(row.epsilon):.2f}")
    readers of the sum and any number of entities: 0.69
    one operator and any number of entities: 1.00
    both operators: inf
    """
    colluders = None if plan.secure is None else plan.secure.colluders
    return coalitions_of(plan.spec.event, sharing=plan.sharing, delta=plan.delta, colluders=colluders)
