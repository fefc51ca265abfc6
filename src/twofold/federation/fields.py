"""Checks of a plan's fields, in the order a reader meets them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

from twofold.checks import LARGEST, NAME, check_entity_name, is_hash, number, whole
from twofold.errors import BadPlan, Set, TwofoldError
from twofold.privacy.budget import positive, read_delta
from twofold.privacy.unit import Unit
from twofold.release.choose import mechanism
from twofold.storage.strict_json import printable

if TYPE_CHECKING:
    from twofold.federation.plan import Plan

__all__ = [
    "CatalogKey",
    "CatalogLike",
    "check_names",
    "check_plan",
    "check_time",
]

#: No catalog of ours is longer; a header that says so is refused before anything is allocated.
MOST_ITEMS = 10_000_000
#: Of a whole number in a plan; every reader of JSON takes it.
MOST = 10**15
#: Characters of the plan's record; it must fit into the header of a message.
LONGEST_RECORD = 40_000
_BITS = 400


class CatalogLike(Protocol):
    """A list of items with a hash, such as `twofold.Catalog`."""

    @property
    def hash(self) -> str:
        """SHA-256 of the ordered list."""
        ...

    @property
    def items(self) -> Any:
        """The list."""
        ...

    def __len__(self) -> int: ...


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
        if not is_hash(self.hash):
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


def check_names(given: Iterable[object], known: Iterable[str], *, optional: Iterable[str] = ()) -> None:
    """Refuse unknown and missing fields by name, with the name that was probably meant.

    Examples
    --------
    >>> check_names(["max_item"], ["max_items", "rank"], optional=["rank"])
    Traceback (most recent call last):
    twofold.errors.BadPlan: the plan has a field that is not known.
      Found: max_item
      Expected: perhaps max_items
      More: twofold errors bad-plan
    """
    names, wanted = {str(one) for one in given}, set(known)
    for name in sorted(names - wanted):
        near = get_close_matches(name, sorted(wanted), n=1)
        listed = f"perhaps {near[0]}" if near else f"one of {', '.join(sorted(wanted))}"
        shown = printable(name, 40)
        raise BadPlan("the plan has a field that is not known.", found=shown, expected=listed, parameter=shown)
    if missing := sorted(wanted - names - set(optional)):
        raise BadPlan(
            "the plan is not complete.",
            found=f"missing {', '.join(missing)}",
            parameter=missing[0],
            fix="add them; twofold plan new writes a file with every field and what it means",
        )


def check_plan(plan: Plan) -> None:
    """Check every field, and bring numbers to one form so that equal plans have equal hashes."""
    given: Any = plan.catalog
    _set(plan, "catalog", CatalogKey.of(given))
    # Not a field: kept for those who made the plan with the whole list, never hashed, compared or written.
    _set(plan, "_catalog_items", None if isinstance(given, CatalogKey) else given)
    _check_features(plan)
    for name in ("max_items", "n_prototypes", "rank", "n_users", "n_entities", "quorum"):
        whole(name, getattr(plan, name), most=MOST)
    whole("seed", plan.seed, least=0, most=MOST)
    for name in ("bound", "lower", "regularization"):
        _set(plan, name, number(name, getattr(plan, name)))
    for name in ("centre", "l1_cap", "l2_cap"):
        if getattr(plan, name) is not None:
            _set(plan, name, number(name, getattr(plan, name)))
    _set(plan, "epsilon", _short(positive(plan.epsilon, name="epsilon"), "epsilon"))
    _set(plan, "delta", _short(read_delta(plan.delta), "delta"))
    _check_texts(plan)
    _check_together(plan)
    if len(plan.canonical()) > LONGEST_RECORD:
        raise BadPlan(
            "the plan is too long for the header of a message.",
            expected=f"at most {LONGEST_RECORD:,} characters",
            fix="name fewer entities, or none: then any may take part",
        )


def _short(value: Fraction, name: str) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _BITS:
        limit = f"at most {_BITS} bits above and below its fraction bar"
        raise BadPlan("{parameter} has too many digits.", expected=limit, parameter=name)
    return value


def _check_texts(plan: Plan) -> None:
    if not isinstance(plan.unit, Unit):
        raise BadPlan(
            "{parameter} says whose presence is hidden.", expected="Unit.person() or Unit.visit()", parameter="unit"
        )
    for name in ("feedback", "mechanism"):
        if not isinstance(getattr(plan, name), str):
            raise BadPlan("{parameter} is a word.", found=type(getattr(plan, name)).__name__, parameter=name)
    if type(plan.simulation) is not bool:
        raise BadPlan("{parameter} is true or false.", found=f"{plan.simulation!r:.40}", parameter="simulation")
    if not isinstance(plan.name, str) or not NAME.fullmatch(plan.name):
        letters = "1 to 64 letters, digits, '-', '_' or '.'"
        raise BadPlan("the plan's name is not usable.", expected=letters, parameter="name")
    named: object = plan.entities
    if isinstance(named, str) or not isinstance(named, Iterable):
        example = '["st-anna", "st-bern"]'
        raise BadPlan(
            "{parameter} is a list of names.", found=type(named).__name__, expected=example, parameter="entities"
        )
    # Sorted: the order says nothing, and equal plans have equal hashes.
    _set(plan, "entities", tuple(sorted(check_entity_name(one) for one in named)))
    if len(set(plan.entities)) != len(plan.entities):
        raise BadPlan("an entity is named twice.", expected="each name once", parameter="entities")
    if plan.deadline is not None:
        _set(plan, "deadline", check_time(plan.deadline))


def check_time(text: object) -> str:
    """Bring a time to one form, in UTC.

    Examples
    --------
    >>> check_time("2027-01-31T13:00:00+01:00")
    '2027-01-31T12:00:00Z'
    """
    try:
        when = datetime.fromisoformat(text) if isinstance(text, str) else None
        if when is not None and when.tzinfo is not None:
            return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        pass
    example = "as 2027-01-31T12:00:00Z"
    raise BadPlan("the deadline is not a time.", found=f"{text!r:.40}", expected=example, parameter="deadline")


def _check_together(plan: Plan) -> None:
    if plan.max_items > plan.n_items:
        raise BadPlan(
            "{parameter} is larger than the catalog.",
            found=f"{plan.max_items}",
            expected=f"at most {plan.n_items}",
            parameter="max_items",
        )
    # The rules of twofold.data.Bounds, which sees the same numbers only after the ledger has reserved their price.
    if plan.bound <= 0:
        raise BadPlan(
            "{parameter} is not usable.",
            found=f"{plan.bound:g}",
            parameter="bound",
            expected="above 0; absent entries lie at 0 or, for ratings, at the centre",
            fix="shift the values so that the largest is above 0",
        )
    if plan.bound - plan.lower < 1 / LARGEST:
        raise BadPlan("the values have no room.", expected="lower < bound", parameter="lower")
    if plan.secure is not None and plan.secure.keys is not None and not plan.entities:
        _set(plan, "entities", tuple(plan.secure.keys))
    expected = len(plan.entities) or plan.n_entities
    if plan.quorum > expected:
        raise BadPlan(
            "the quorum can never be reached.",
            found=f"{plan.quorum}",
            expected=f"at most {expected}",
            parameter="quorum",
            fix=(Set("quorum", expected), "name more entities" if plan.entities else Set("n_entities", plan.quorum)),
        )
    if plan.secure is not None:
        plan.secure.check(expected)
        _check_order(plan.secure.share_deadline, plan.deadline)
        _check_roster(plan)
    if plan.regularization < 0:
        raise BadPlan("{parameter} is out of range.", expected="at least 0", parameter="regularization")
    try:
        chosen = mechanism(plan.mechanism)
        plan.public  # noqa: B018 - checks feedback, bounds, caps and centre together
    except TwofoldError as error:
        raise error.as_(BadPlan) from None
    _check_summable(plan)
    _check_alone(plan)
    if not chosen.private and not plan.simulation:
        raise BadPlan(
            "this mechanism is not private.",
            found=plan.mechanism,
            expected="a mechanism with a proof",
            fix=(Set("mechanism", "auto"), Set("simulation", True)),
            parameter="mechanism",
        )


def _check_order(sharing: str | None, sending: str | None) -> None:
    """Refuse messages that would be due before the keys they need."""
    if sharing and sending and datetime.fromisoformat(sharing) >= datetime.fromisoformat(sending):
        raise BadPlan(
            "keys would be shared after the messages are due.",
            found=f"keys by {sharing}, messages by {sending}",
            expected="keys well before messages",
            parameter="secure.share_deadline",
        )


def _check_summable(plan: Plan) -> None:
    """Refuse a secure sum of messages that cannot be added up; said now, not when keys are already shared."""
    if plan.secure is None:
        return
    from twofold.federation.expected import (  # read the plan, which is complete by now
        cannot_be_summed,
        chosen_mechanism,
    )
    from twofold.release.bilinear.mechanism import Bilinear

    if not isinstance(found := chosen_mechanism(plan)[0], Bilinear):
        raise cannot_be_summed(found)


def _check_alone(plan: Plan) -> None:
    """Hold a secure sum to the largest ε that it allows one entity's message alone."""
    if plan.secure is None or plan.secure.most_alone is None:
        return
    from twofold.federation.leaving import leaving  # reads the plan, which is complete by now

    alone, most = leaving(plan).alone, float(plan.secure.most_alone)
    if alone is not None and alone > most:
        raise BadPlan(
            "one entity's message seen alone would promise less than the plan demands.",
            found=f"ε = {alone:.3g} alone, should all others collude",
            expected=f"at most {most:g}",
            fix=("a smaller ε", "fewer survivors", Set("secure.most_alone", f"{alone:.3g}")),
            parameter="secure.most_alone",
        )


def _check_features(plan: Plan) -> None:
    """Keep hash and width; the table itself stays with those who made the plan with it."""
    from twofold.federation.tables import FeaturesKey

    given: Any = plan.features
    _set(plan, "_features_table", None if given is None or isinstance(given, FeaturesKey) else given)
    if given is not None:
        _set(plan, "features", FeaturesKey.of(given))


def _check_roster(plan: Plan) -> None:
    """Entities and keys are the same names; a plan made with the keys alone takes its names from them."""
    keys = plan.secure.keys if plan.secure is not None else None
    if plan.secure is not None and plan.secure.roster and not plan.entities:
        raise BadPlan(
            "a plan with a list of keys names its entities.",
            found="entities = [] beside the hash of a list of keys",
            expected="the names in the list of keys",
            fix="secure=SecureSum(roster=Roster.read(...)), which names them",
            parameter="entities",
        )
    if keys is not None and tuple(keys) != plan.entities:
        raise BadPlan(
            "the entities of the plan are not those of the list of keys.",
            found=f"{len(plan.entities)} names and {len(keys)} keys",
            expected="a key of every entity, and no other",
            parameter="secure.roster",
        )


def _set(plan: Plan, name: str, value: object) -> None:
    object.__setattr__(plan, name, value)
