"""The plan: every public parameter of a federation in one place, with a hash that all sides compare."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import PlainValidator, PrivateAttr

from twofold.checks import NAME, check_entity_name
from twofold.errors import BadPlan, Set, TwofoldError
from twofold.features import Features
from twofold.federation.fields import (
    Delta,
    Epsilon,
    FieldTable,
    Number,
    Time,
    Whole,
    WholeFromZero,
    check_names,
    described,
)
from twofold.federation.plan_check import check_together
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.federation.tables import CatalogKey, FeaturesKey, RosterKey
from twofold.html import block, facts_of
from twofold.privacy.accountant import spent
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.unit import Unit
from twofold.release.choose import Choice, resolve
from twofold.release.clamp import LARGEST_NUMBER
from twofold.release.contract import Mechanism, ReleaseParameters, ReleaseSpec
from twofold.release.usefulness import Prediction, predict
from twofold.storage.container import canonical_json, printable

if TYPE_CHECKING:
    from twofold.identity.roster import Roster
    from twofold.privacy.coalitions import Coalition

__all__ = ["LARGEST_NUMBER", "SCHEMA", "CatalogKey", "Plan"]

#: A new major number means that an older program must not read it.
SCHEMA: Final = "twofold.plan/3"
# Noise exceeds this many standard deviations about once in 10^20 draws (Laplace; a Gaussian never).
_FAR: Final = 32
_MOST_ITEMS_OF_A_USER: Final = 100
_RAISE: Final = "raise epsilon, or lower max_items"
#: Newer than the format: left out when absent, so that older plans keep their hashes.
_NEWER: Final = ("features", "secure", "roster", "writer")


def _plain(value: Any) -> Any:
    if isinstance(value, SecureSum | OperatorSum):
        return value.as_dict()
    return value if isinstance(value, str) else asdict(value)


def _kept_name(value: object) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise BadPlan("the plan's name is not valid.", expected="1 to 64 letters, digits, '-', '_' or '.'")
    return value


def _kept_unit(value: object) -> Unit:
    if not isinstance(value, Unit):
        raise BadPlan("unit must say whose presence is hidden.", expected="Unit.person() or Unit.visit()")
    return value


def _kept_secure(value: object) -> SecureSum | OperatorSum | None:
    if value is not None and not isinstance(value, SecureSum | OperatorSum):
        raise BadPlan(
            "secure must be a plan table.",
            found=f"a {type(value).__name__}",
            expected="SecureSum(...) or OperatorSum(...)",
        )
    return value


def _kept_features(value: object) -> FeaturesKey | None:
    return None if value is None else FeaturesKey.of(value)


def _kept_writer(value: object) -> str | None:
    return None if value is None else check_entity_name(value)


def _kept_names(value: object) -> tuple[str, ...]:
    """Sort the names, so that equal plans have equal hashes."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise BadPlan("entities must be a list.", found=type(value).__name__, expected='["st-anna", "st-bern"]')
    names = tuple(sorted(check_entity_name(one) for one in value))
    if len(set(names)) != len(names):
        raise BadPlan("an entity is named twice.", expected="each name once")
    return names


def _items(data: Mapping[str, Any]) -> int:
    return data["catalog"].n_items if "catalog" in data else 1


def _usual_items(data: Mapping[str, Any]) -> int:
    """Three times the root of the catalog's length, from 10 to 100: noise grows with it, and few people have more."""
    items = _items(data)
    return min(items, _MOST_ITEMS_OF_A_USER, max(10, round(3 * math.sqrt(items))))


class Plan(FieldTable):
    """Every public parameter of a federation. Nothing in it may come from private data.

    Each field has a meaning, a range, a default and an example in its declaration below; docs/reference/plan.md lists
    them. Python, plan files and `twofold plan new` have the same defaults.

    Parameters
    ----------
    catalog : Catalog or CatalogKey
        The public item list; only its hash and length are part of the plan.
    features : Features or FeaturesKey, optional
        Public table that describes the items, in the catalog's order; only its hash and width are part of the plan.
    secure : SecureSum or OperatorSum, optional
        Nobody sees more than the sum of the messages: among the entities, or with two operators.
    roster : Roster or RosterKey, optional
        Everybody's public keys; only its hash is part of the plan. A plan that is not a simulation needs one.
    **fields
        See docs/reference/plan.md.

    Paper
    -----
    The inputs k, ε, δ, λ, ℓ, Λ, s of Algorithms 1 and 2.

    Examples
    --------
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> plan.rank, plan.budget
    (20, ApproxDP(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000)))
    >>> plan.spec.mechanism, plan.spec.numbers
    ('gram', 105111)
    >>> plan.differences(plan.with_(rank=12))
    ('rank',)
    """

    catalog: Annotated[CatalogKey, PlainValidator(CatalogKey.of)] = described(
        "The public item list, in its order.", expected="a Catalog", option=False
    )
    name: Annotated[str, PlainValidator(_kept_name)] = described(
        "Public name of the federation.", default="federation", expected="letters, digits, '-', '_' and '.'"
    )
    feedback: Literal["counts", "ratings"] = described(
        '"counts": an absent entry is a zero. "ratings": an absent entry is unknown.', default="counts"
    )
    lower: Number = described(
        "Smallest value of an entry; smaller values are raised to it.",
        suggested=lambda data: 1.0 if data.get("feedback") == "ratings" else 0.0,
        default_text="0 for counts, 1 for ratings",
    )
    bound: Number = described("Largest value of an entry; larger values are cut. Noise grows with it.", default=5.0)
    max_items: Whole = described(
        "Most items one user contributes. Noise grows with it, or with its root if delta is above 0.",
        suggested=_usual_items,
        default_text="three times the root of the catalog's length, between 10 and 100",
    )
    centre: Number | None = described(
        "Value at which ratings are centred.",
        default=None,
        default_text="the middle of lower and bound; 0 for counts",
        example=3.0,
    )
    l1_cap: Number | None = described(
        "Largest sum of the sizes of one user's (centred) values, if below what max_items and bound imply.",
        default=None,
        example=100.0,
    )
    l2_cap: Number | None = described(
        "Largest Euclidean norm of a user's (centred) values. Counts in gram, sketch and features have norm 1 anyway.",
        default=None,
        example=20.0,
    )
    n_prototypes: Whole = described(
        "Prototypes of an entity: groups of similar users.",
        suggested=lambda data: min(10, _items(data)),
        default_text="10, or the number of items",
    )
    rank: Whole = described(
        "Most factors the server computes.",
        suggested=lambda data: min(20, _items(data)),
        default_text="20, or the number of items",
    )
    regularization: Number = described("Penalty of the server's factorization; the noise adds to it.", default=0.08)
    epsilon: Epsilon = described(
        "Price of the one release, per unit; smaller is more private.",
        default=Fraction(1),
        expected='a number above 0, exact: 0.1, or "1/3"',
    )
    delta: Delta = described(
        "Allowed failure of that promise; 0 for pure epsilon. Keep it well below one over the number of users.",
        default=Fraction(1, 1_000_000),
        expected="a number from 0 to below 1",
    )
    mechanism: str = described(
        '"auto" chooses by public numbers. By name: gram, sketch, features, balcan, sulq, buckets, popularity.',
        default="auto",
    )
    n_users: Whole = described(
        "Users an entity promises to have. Never count them for this: a wrong number costs only accuracy.",
        default=1_000,
    )
    n_entities: Whole = described("Entities expected to answer.", default=1)
    quorum: Whole = described("Fewest messages with which the server continues.", default=1)
    deadline: Time | None = described(
        "Until when the server waits for the others.",
        default=None,
        expected="a time, as 2027-01-31T12:00:00Z",
        example="2027-01-31T12:00:00Z",
    )
    entities: Annotated[tuple[str, ...], PlainValidator(_kept_names)] = described(
        "Names that may take part; with an empty list, anyone may.",
        default=(),
        default_text="[]",
        expected="a list of names",
        option=False,
    )
    seed: WholeFromZero = described("Public seed of projections and starts. Never a seed of noise.", default=0)
    simulation: bool = described(
        "true allows seeds and missing ledgers and marks everything as not private. Never use it for real people.",
        default=False,
    )
    unit: Annotated[Unit, PlainValidator(_kept_unit)] = described(
        "Whose presence is hidden: a person with everything recorded about them, or one visit.",
        suggested=lambda _: Unit.person(),
        default_text="a person found in one entity",
        expected="holder and entities",
        option=False,
    )
    features: Annotated[FeaturesKey | None, PlainValidator(_kept_features)] = described(
        "Public table that describes the items, in the catalog's order.",
        default=None,
        expected="a table of features",
        option=False,
    )
    secure: Annotated[SecureSum | OperatorSum | None, PlainValidator(_kept_secure)] = described(
        "Secure sum: nobody sees more than the sum of the messages.",
        default=None,
        expected="SecureSum or OperatorSum",
        option=False,
    )
    roster: Annotated[RosterKey | None, PlainValidator(lambda it: it if it is None else RosterKey.of(it))] = described(
        "Everybody's public keys. Messages are signed with them; without, a plan can be explained and simulated only.",
        default=None,
        expected="a Roster",
        option=False,
    )
    writer: Annotated[str | None, PlainValidator(_kept_writer)] = described(
        "Who wrote the plan: an entity or the operator of the roster.",
        default=None,
        default_text="with a roster, the operator; with two operators, nobody",
        expected="a name in the roster",
        example="st-anna",
    )

    # Kept for those who made the plan with the whole lists; never hashed, compared or written.
    _catalog_items: Any = PrivateAttr(default=None)
    _features_table: Features | None = PrivateAttr(default=None)
    _members: Any = PrivateAttr(default=None)

    def __init__(self, **given: Any) -> None:
        members: Any = given.get("roster")
        known = members is not None and not isinstance(members, RosterKey)
        if known:
            RosterKey.of(members)
            given["entities"] = given.get("entities") or tuple(members.entities)
            if not isinstance(given.get("secure"), OperatorSum):
                given["writer"] = given.get("writer") or next(iter(members.operators), None)
        super().__init__(**given)
        if known:
            self._members = members
        if not isinstance(given["catalog"], CatalogKey):
            self._catalog_items = given["catalog"]
        if isinstance(given.get("features"), Features):
            self._features_table = given["features"]
        check_together(self)

    def _repr_html_(self) -> str:
        kept = not self.simulation and self.spec.private
        promise = f"ε = {float(self.epsilon):g}, δ = {float(self.delta):g} for one {self.unit.holder}"
        facts = {
            "items": f"{self.n_items:,}, catalog {self.catalog.hash[:12]}",
            "values": f"{self.feedback} from {self.lower:g} to {self.bound:g}, at most {self.max_items} of one user",
            "mechanism": f"{self.spec.mechanism}, rank {self.rank}",
            "sharing": self.sharing,
            "entities": f"{self.expected_entities:,}",
            "promise": promise if kept else "NOT PRIVATE: for simulations",
            "hash": self.hash,
        }
        return block(f"Plan {self.name}", [], facts_of(facts))

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return self.catalog.n_items

    @property
    def catalog_items(self) -> Any:
        """The Catalog this plan was made with, or None when only its hash was given; not part of the plan."""
        return self._catalog_items

    @property
    def features_table(self) -> Features | None:
        """The table of features this plan was made with, or None when only its hash was given; not part of the plan."""
        return self._features_table

    @property
    def members(self) -> Roster | None:
        """The roster this plan was made with, or None when only its hash was given; not part of the plan."""
        members: Roster | None = self._members
        return members

    @property
    def peers(self) -> SecureSum | None:
        """The secure sum among the entities, if the plan has one."""
        return self.secure if isinstance(self.secure, SecureSum) else None

    @property
    def operators(self) -> OperatorSum | None:
        """The secure sum with two operators, if the plan has one."""
        return self.secure if isinstance(self.secure, OperatorSum) else None

    @property
    def sharing(self) -> Literal["plain", "peers", "operators"]:
        """How messages are protected beside their noise."""
        return "plain" if self.secure is None else "peers" if self.operators is None else "operators"

    @property
    def people(self) -> bool:
        """Whether every entity is one person, without a name in the plan."""
        return self.operators is not None and self.operators.people

    @property
    def expected_entities(self) -> int:
        """Number of entities that may answer."""
        return self.n_entities if self.people else len(self.entities) or self.n_entities

    @property
    def counted_users(self) -> int:
        """Users among whom δ must stay rare: those of an entity, or all people of a plan in which each is an entity."""
        return self.n_entities if self.people else self.n_users

    @property
    def centre_value(self) -> float:
        """Value that ratings are centred at."""
        if self.centre is not None:
            return self.centre
        return 0.0 if self.feedback == "counts" else (self.lower + self.bound) / 2

    @cached_property
    def parameters(self) -> ReleaseParameters:
        """The numbers a release mechanism needs."""
        return ReleaseParameters(
            n_items=self.n_items,
            n_users=self.n_users,
            max_items=self.max_items,
            bound=self.bound,
            lower=self.lower,
            feedback=self.feedback,
            centre=self.centre_value,
            l1_cap=self.l1_cap,
            l2_cap=self.l2_cap,
            n_prototypes=self.n_prototypes,
            epsilon=self.epsilon,
            delta=self.delta,
            unit=self.unit,
            n_entities=self.n_entities,
            seed=self.seed,
            honest=self._honest(),
            operators=0 if self.operators is None else self.operators.whole_noises,
            features=self.features_table,
        )

    def _honest(self) -> int:
        if self.operators is not None:
            return self.operators.honest
        return 0 if self.peers is None else self.peers.honest(self.expected_entities)

    @cached_property
    def budget(self) -> PureDP | ApproxDP:
        """Cost of an entity's one release."""
        if self.delta == 0:
            return PureDP(epsilon=self.epsilon)
        return ApproxDP(epsilon=self.epsilon, delta=self.delta)

    @property
    def across(self) -> PureDP | ApproxDP:
        """Price for a holder in several entities: several releases, or one sum that the holder moves several times."""
        if not self.parameters.summed or self.unit.entities == 1:
            return self.unit.across(self.budget)
        if isinstance(self.budget, PureDP):
            return PureDP(epsilon=self.unit.entities * self.budget.epsilon)
        whole = spent(self.spec.event, delta=self.delta, units=self.unit.entities)
        assert isinstance(whole, ApproxDP)  # a sum always has noise
        return whole

    @cached_property
    def coalitions(self) -> tuple[Coalition, ...]:
        """Who could work together against an entity, and the ε of one holder in it that is left then, at the plan's δ.

        Privacy
        -------
        From public numbers only: touches no data and spends nothing. Proofs are in docs/reference/operators.md.

        Examples
        --------
        >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=9), feedback="counts", bound=5, max_items=2,
        ...             n_users=500, n_entities=205, delta=1e-6, mechanism="gram", secure=OperatorSum(floor=103))
        >>> for row in plan.coalitions:
        ...     print(f"{row.who}: {float(row.epsilon):.2f}")
        readers of the sum and any number of entities: 0.69
        one operator and any number of entities: 1.00
        both operators: inf
        """
        from twofold.privacy.coalitions import coalitions_of

        colluders = None if self.secure is None else self.secure.colluders
        return coalitions_of(self.spec.event, sharing=self.sharing, delta=self.delta, colluders=colluders)

    @property
    def release_mechanism(self) -> Mechanism:
        """The mechanism that runs: as named, or as chosen by "auto"."""
        return self.choice.mechanism

    @cached_property
    def choice(self) -> Choice:
        """The mechanism that runs, and the reason if "auto" chose it."""
        return resolve(self.mechanism, self.parameters)

    @cached_property
    def spec(self) -> ReleaseSpec:
        """The common properties of all messages of this plan; refused if messages could not be added up."""
        try:
            stated = self.release_mechanism.spec(self.parameters)
        except BadPlan:
            raise
        except TwofoldError as error:
            raise BadPlan(**{**error.parts, "fix": error.parts["fix"] or _RAISE}) from None
        except ArithmeticError:
            raise BadPlan("the numbers of the plan are out of proportion.", fix=_RAISE) from None
        if self.secure is not None and stated.sum is None:
            raise BadPlan(
                "this mechanism cannot be summed securely.",
                found=stated.mechanism,
                expected="gram, sketch or features: one row of whole numbers from every entity",
                fix=(Set("mechanism", "gram"), "no secure sum"),
                parameter="mechanism",
            )
        _check_room(stated)
        return replace(stated, reason=self.choice.reason)

    @cached_property
    def prediction(self) -> Prediction:
        """What the release will probably be worth to a small entity, from public numbers only.

        Examples
        --------
        >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), n_users=900, n_entities=205, mechanism="gram")
        >>> plan.prediction.word, plan.with_(n_users=5, n_entities=2).prediction.word
        ('a little', 'nothing')
        """
        if not self.spec.private:
            return Prediction(word=None)
        judged = self.release_mechanism.usefulness(self.parameters)
        return predict(self.parameters, judged, pairs=self.spec.mechanism == "gram")

    @property
    def useless(self) -> bool:
        """Whether a price would be spent on a release that is predicted to show nothing; a simulation spends none."""
        return not self.simulation and self.prediction.word == "nothing"

    @cached_property
    def hash(self) -> str:
        """SHA-256 of every field, the same on every machine and however the file is written."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    def canonical(self) -> str:
        """Give the fields as canonical JSON: sorted keys, no spaces, no NaN, exact fractions."""
        return canonical_json(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON, as `from_dict` reads it."""
        record = {name: getattr(self, name) for name in type(self).model_fields}
        record["catalog"] = {"hash": self.catalog.hash, "n_items": self.catalog.n_items}
        record["unit"] = self.unit.as_dict()
        record["entities"] = list(self.entities)
        record["epsilon"], record["delta"] = str(self.epsilon), str(self.delta)
        newer = {name: record.pop(name) for name in _NEWER}
        record |= {name: _plain(value) for name, value in newer.items() if value is not None}
        return {"schema": SCHEMA, **record}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Plan:
        """Read a record of `as_dict`; an unknown schema or field is refused by name."""
        rest = dict(record)
        schema = rest.pop("schema", None)
        if schema != SCHEMA:
            raise BadPlan(
                "the plan has an unknown format.",
                found=f"schema {printable(schema)}",
                expected=SCHEMA,
                fix="update twofold, or write a new plan: twofold plan new",
                parameter="schema",
            )
        check_names(rest, cls.model_fields, optional=_NEWER)
        try:
            rest["catalog"] = CatalogKey(**rest["catalog"])
            rest["unit"] = Unit.from_dict(rest["unit"])
            if rest.get("features") is not None:
                rest["features"] = FeaturesKey(**rest["features"])
            if (kept := rest.get("secure")) is not None:
                shared = isinstance(kept, Mapping) and kept.get("kind") == "operators"
                rest["secure"] = OperatorSum.from_dict(kept) if shared else SecureSum.from_dict(kept)
            if rest.get("roster") is not None:
                rest["roster"] = RosterKey(**rest["roster"])
            return cls(**rest)
        except TypeError as error:
            raise BadPlan("a part of the plan has the wrong form.", found=printable(error)) from None
        except TwofoldError as error:
            raise error.as_(BadPlan) from None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan file (TOML); an unknown or missing field is refused by name."""
        from twofold.federation.plan_file import read_plan

        return read_plan(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write a plan file with a comment at every field, completely or not at all."""
        from twofold.federation.plan_file import write_plan

        write_plan(self, path)

    def with_(self, **changes: Any) -> Plan:
        """Return the same plan with some fields changed."""
        same = {name: getattr(self, name) for name in type(self).model_fields}
        given = {"catalog": self.catalog_items or self.catalog, "features": self.features_table or self.features}
        given["roster"] = self.members or self.roster
        return type(self)(**{**same, **given, **changes})

    def differences(self, other: Plan | Mapping[str, Any]) -> tuple[str, ...]:
        """Name the fields in which another plan (or its record in a message) differs."""
        mine = self.as_dict()
        theirs = other.as_dict() if isinstance(other, Plan) else dict(other)
        return tuple(sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.hash == other.hash

    def __hash__(self) -> int:
        return hash(self.hash)


def _check_room(spec: ReleaseSpec) -> None:
    noise, units = spec.noise, spec.units
    sizes = (noise.values / units.values, noise.observed / units.observed, noise.counts / units.counts)
    if max(sizes) * _FAR > LARGEST_NUMBER:
        raise BadPlan(
            "the noise is too large for messages to be added up.",
            expected=f"noise below {LARGEST_NUMBER // _FAR:.0e} steps of its grid",
            fix=_RAISE,
            parameter="epsilon",
        )
