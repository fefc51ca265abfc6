"""Checks of a plan's fields, in the order a reader meets them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from twofold.errors import BadPlan, TwofoldError
from twofold.privacy.budget import positive, read_delta
from twofold.privacy.unit import Unit
from twofold.prototypes.registry import mechanism

if TYPE_CHECKING:
    from twofold.protocol.plan import Plan

__all__ = ["CatalogKey", "check_entity_name", "check_plan"]

#: Also a file name on every system, and safe to print.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HASH = re.compile("[0-9a-f]{64}")
#: No catalog of ours is longer; a header that says so is refused before anything is allocated.
MOST_ITEMS = 10_000_000


@dataclass(frozen=True, kw_only=True)
class CatalogKey:
    """Hash and length of a catalog: all that the server knows of it.

    Examples
    --------
    >>> CatalogKey(hash="abc", n_items=3)
    Traceback (most recent call last):
    twofold.errors.BadPlan: the catalog's hash is not one...
    """

    hash: str
    n_items: int

    def __post_init__(self) -> None:
        if not isinstance(self.hash, str) or not _HASH.fullmatch(self.hash):
            raise BadPlan("the catalog's hash is not one.", expected="64 hexadecimal digits, as Catalog.hash gives")
        whole("catalog.n_items", self.n_items, most=MOST_ITEMS)

    @classmethod
    def of(cls, catalog: Any) -> CatalogKey:
        """Take hash and length of anything that has both; a key stays as it is."""
        if isinstance(catalog, CatalogKey):
            return catalog
        if not hasattr(catalog, "hash") or not hasattr(catalog, "items") or not hasattr(catalog, "__len__"):
            raise BadPlan(
                "a plan needs the public catalog.", found=f"a {type(catalog).__name__}", fix='Catalog.read("items.csv")'
            )
        return cls(hash=catalog.hash, n_items=len(catalog))


def check_entity_name(name: object) -> str:
    """Refuse a name that is no plain file name; it stands in headers and paths.

    Examples
    --------
    >>> check_entity_name("st-anna")
    'st-anna'
    >>> check_entity_name("../st-anna")
    Traceback (most recent call last):
    twofold.errors.BadPlan: an entity's name is not usable...
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadPlan(
            "an entity's name is not usable.",
            expected="1 to 64 letters, digits, '-', '_' or '.', the first a letter or digit",
        )
    return name


def check_plan(plan: Plan) -> None:
    """Check every field, and bring numbers to one form so that equal plans have equal hashes."""
    _set(plan, "catalog", CatalogKey.of(plan.catalog))
    for name in ("max_items", "n_prototypes", "rank", "n_users", "n_entities", "quorum"):
        whole(name, getattr(plan, name))
    whole("seed", plan.seed, least=0)
    for name in ("bound", "lower", "regularization"):
        _set(plan, name, number(name, getattr(plan, name)))
    for name in ("centre", "l1_cap", "l2_cap"):
        if getattr(plan, name) is not None:
            _set(plan, name, number(name, getattr(plan, name)))
    _set(plan, "epsilon", positive(plan.epsilon, name="epsilon"))
    _set(plan, "delta", read_delta(plan.delta))
    _check_texts(plan)
    _check_together(plan)


def whole(name: str, value: object, *, least: int = 1, most: int | None = None) -> None:
    """Refuse what is not a whole number in its range."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
    if not fits or (most is not None and value > most):  # type: ignore[operator]
        limits = f"a whole number from {least}" + (f" to {most:,}" if most else "")
        raise BadPlan(f"{name} is out of range.", found=f"{value!r:.40}", expected=limits)


def number(name: str, value: object) -> float:
    """Refuse what is not a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadPlan(f"{name} is not a number.", found=f"{value!r:.40}", expected="a finite number")
    return float(value)


def _check_texts(plan: Plan) -> None:
    if not isinstance(plan.unit, Unit):
        raise BadPlan("unit says whose presence is hidden.", expected="Unit.person() or Unit.visit()")
    if type(plan.simulation) is not bool:
        raise BadPlan("simulation is true or false.", found=f"{plan.simulation!r:.40}")
    if not isinstance(plan.name, str) or not _NAME.fullmatch(plan.name):
        raise BadPlan("the plan's name is not usable.", expected="1 to 64 letters, digits, '-', '_' or '.'")
    _set(plan, "entities", tuple(check_entity_name(one) for one in plan.entities))
    if len(set(plan.entities)) != len(plan.entities):
        raise BadPlan("an entity is named twice.", expected="each name once")
    if plan.deadline is not None:
        _check_deadline(plan.deadline)


def _check_deadline(text: object) -> None:
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        when = None
    if when is None or when.tzinfo is None:
        raise BadPlan("the deadline is not a time.", found=f"{text!r:.40}", expected="as 2027-01-31T12:00:00Z")


def _check_together(plan: Plan) -> None:
    if plan.max_items > plan.n_items:
        raise BadPlan(
            "max_items is larger than the catalog.", found=f"{plan.max_items}", expected=f"at most {plan.n_items}"
        )
    expected = len(plan.entities) or plan.n_entities
    if plan.quorum > expected:
        raise BadPlan("the quorum can never be reached.", found=f"{plan.quorum}", expected=f"at most {expected}")
    if plan.regularization < 0:
        raise BadPlan("regularization is out of range.", expected="at least 0")
    try:
        chosen = mechanism(plan.mechanism)
        plan.public  # noqa: B018 - checks feedback, bounds, caps and centre together
    except TwofoldError as error:
        raise BadPlan(error.summary, found=error.found, expected=error.expected, fix=error.fix) from None
    if not chosen.private and not plan.simulation:
        raise BadPlan(
            "this mechanism is not private.",
            found=plan.mechanism,
            expected="a mechanism with a proof",
            fix='mechanism="auto", or simulation=True, which marks everything "not private"',
        )


def _set(plan: Plan, name: str, value: object) -> None:
    object.__setattr__(plan, name, value)
