"""The bare numbers `twofold plan explain` takes when there is no plan yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any

from twofold.errors import BadPrivacyParameter
from twofold.privacy.explain import PublicNumbers
from twofold.protocol.plan import Plan

__all__ = ["check_fit", "check_numbers", "plan_numbers"]


def check_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse a name in a file of numbers that means nothing here; fields of a plan may stand in it.

    Examples
    --------
    >>> check_numbers({"n_item": 5})
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: the file has a number that is not known.
      Found: n_item
      Expected: perhaps n_items
      See docs/errors.md#bad-privacy-parameter
    """
    known = sorted({one.name for one in fields(PublicNumbers)} | {one.name for one in fields(Plan)})
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise BadPrivacyParameter(
                "the file has a number that is not known.",
                found=f"{name:.40}",
                expected=f"perhaps {near[0]}" if near else "n_items, n_users, bound, max_items, n_prototypes, ...",
            )
    return dict(given)


def check_fit(public: PublicNumbers) -> None:
    """Refuse more items of one user than there are.

    Examples
    --------
    >>> check_fit(PublicNumbers(n_items=5, n_users=9, bound=1, max_items=6, n_prototypes=2))
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: a user cannot have more items than the catalog...
    """
    if public.max_items > public.n_items:
        raise BadPrivacyParameter(
            "a user cannot have more items than the catalog.",
            found=f"max_items = {public.max_items}, n_items = {public.n_items}",
            expected=f"max_items of at most {public.n_items}",
            fix=f"--max-items {public.n_items}, or max_items = {public.n_items} in the file",
        )


def plan_numbers(plan: Plan) -> dict[str, Any]:
    """Take the numbers out of a plan; ratings count from their centre. Without a δ, Gaussian rows get the usual one."""
    public = plan.public
    return {
        "n_items": plan.n_items,
        "n_users": plan.n_users,
        "bound": public.value_cap,
        "max_items": plan.max_items,
        "n_prototypes": plan.n_prototypes,
        "n_entities": plan.n_entities,
        "epsilon": float(plan.epsilon),
        **({"delta": float(plan.delta)} if plan.delta else {}),
    }
