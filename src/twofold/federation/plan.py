r"""The plan: every public parameter of a federation, in one place, with a hash all sides compare.

Where a new plan starts, from the length of the catalog and the kind of feedback alone.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from twofold.errors import BadPlan, TwofoldError
from twofold.features import Features
from twofold.federation.fields import CatalogKey, CatalogLike, check_names, check_plan
from twofold.federation.secure import SecureSum
from twofold.federation.tables import FeaturesKey
from twofold.privacy.budget import ApproxDP, Number, PureDP
from twofold.privacy.unit import Unit
from twofold.release.choose import mechanism
from twofold.release.contract import Mechanism, ReleaseParameters
from twofold.storage.strict_json import canonical_json, printable

__all__ = ["SCHEMA", "CatalogKey", "Plan", "new_plan", "suggested"]

#: A new major number means that an older program must not read it.
SCHEMA = "twofold.plan/1"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every public parameter of a federation. Nothing in it may come from private data.

    Parameters
    ----------
    catalog : Catalog or CatalogKey
        The public item list; only its hash and length are kept.
    feedback : {"counts", "ratings"}
        Whether an absent entry is a zero, or unknown.
    bound, lower : float
        Largest and smallest value of an entry; what lies outside is cut. Λ of the paper.
    max_items : int
        Most items one user contributes to the release, s of the paper.
    n_prototypes, rank : int
        Prototypes an entity releases, and number of factors the server looks for: k and ℓ of the paper.
    epsilon, delta : number
        Price of the one release, per unit. With ``delta=0`` the promise is pure ε and the noise Laplace.
    mechanism : str
        How prototypes are made; ``"auto"`` chooses by the public numbers here.
    n_users, n_entities : int
        Promised users of an entity and expected entities. Promised, never counted: a wrong number costs accuracy.
    centre : float, optional
        Public value ratings are centred at; the middle of `lower` and `bound` by default, 0 for counts.
    l1_cap, l2_cap : float, optional
        Largest norm of a user's contribution, if smaller than what `bound` and `max_items` imply.
    unit : Unit
        Whose presence is hidden.
    quorum : int
        Fewest entities with whose messages the server goes on.
    deadline : str, optional
        Until when the server waits for all of them, as ``2027-01-31T12:00:00Z``.
    entities : tuple of str
        Names that may take part; empty: any.
    name : str
        Public name of the federation.
    regularization : float
        λ of the server's factorization, before the noise adds to it.
    seed : int
        Public seed of projections and starts. Never a seed of noise.
    features : Features or FeaturesKey, optional
        Public table of what the items are (genres, classes), in the catalog's order; only its hash and width are kept.
    secure : SecureSum, optional
        The server sees only the sum of the messages, and every entity adds only its share of the noise. Without it
        every message has the whole noise.
    simulation : bool
        True allows seeds, missing ledgers and mechanisms without a proof, and marks everything "not private".

    Paper
    -----
    The inputs k, ε, δ, λ, ℓ, Λ, s of Algorithms 1 and 2.

    Examples
    --------
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> plan.rank, plan.budget
    (20, ApproxDP(epsilon=Fraction(1, 1), delta=Fraction(1, 1000000)))
    >>> plan.differences(plan.with_(rank=12))
    ('rank',)
    """

    catalog: CatalogKey
    feedback: Literal["counts", "ratings"]
    bound: float
    max_items: int
    n_prototypes: int = 10
    rank: int = 20
    epsilon: Number = 1
    delta: Number = Fraction(1, 1_000_000)
    mechanism: str = "auto"
    lower: float = 0.0
    centre: float | None = None
    l1_cap: float | None = None
    l2_cap: float | None = None
    n_users: int = 1_000
    n_entities: int = 1
    unit: Unit = field(default_factory=Unit.person)
    quorum: int = 1
    deadline: str | None = None
    entities: tuple[str, ...] = ()
    name: str = "federation"
    regularization: float = 0.08
    seed: int = 0
    features: FeaturesKey | None = None
    secure: SecureSum | None = None
    simulation: bool = False

    if TYPE_CHECKING:  # the fields again, with all that is taken for them; what is kept is narrower

        def __init__(
            self,
            *,
            catalog: CatalogKey | CatalogLike,
            feedback: str,
            bound: float,
            max_items: int,
            n_prototypes: int = 10,
            rank: int = 20,
            epsilon: Number = 1,
            delta: Number = Fraction(1, 1_000_000),
            mechanism: str = "auto",
            lower: float = 0.0,
            centre: float | None = None,
            l1_cap: float | None = None,
            l2_cap: float | None = None,
            n_users: int = 1_000,
            n_entities: int = 1,
            unit: Unit = ...,
            quorum: int = 1,
            deadline: str | None = None,
            entities: Iterable[str] = (),
            name: str = "federation",
            regularization: float = 0.08,
            seed: int = 0,
            features: FeaturesKey | Features | None = None,
            secure: SecureSum | None = None,
            simulation: bool = False,
        ) -> None: ...

    def __post_init__(self) -> None:
        check_plan(self)

    @property
    def n_items(self) -> int:
        """Length of the catalog."""
        return self.catalog.n_items

    @property
    def catalog_items(self) -> Any:
        """The Catalog this plan was made with, or None when only its hash was given; not part of the plan."""
        return getattr(self, "_catalog_items", None)

    @property
    def features_table(self) -> Features | None:
        """The table of features this plan was made with, or None when only its hash was given; not part of the plan."""
        return getattr(self, "_features_table", None)

    @property
    def public(self) -> ReleaseParameters:
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
            honest=0 if self.secure is None else self.secure.honest(len(self.entities) or self.n_entities),
            features=self.features_table,
        )

    @property
    def centre_value(self) -> float:
        """Value that ratings are centred at."""
        if self.centre is not None:
            return self.centre
        return 0.0 if self.feedback == "counts" else (self.lower + self.bound) / 2

    @property
    def budget(self) -> PureDP | ApproxDP:
        """What the one release of an entity costs."""
        if self.delta == 0:
            return PureDP(epsilon=self.epsilon)
        return ApproxDP(epsilon=self.epsilon, delta=self.delta)

    @property
    def release_mechanism(self) -> Mechanism:
        """The mechanism `mechanism` names."""
        return mechanism(self.mechanism)

    @property
    def hash(self) -> str:
        """SHA-256 of every field, the same on every machine and however the file is written."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()

    def canonical(self) -> str:
        """Give the fields as canonical JSON: sorted keys, no spaces, no NaN, exact fractions."""
        return canonical_json(self.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Give plain JSON; what `from_dict` reads."""
        record = {one.name: getattr(self, one.name) for one in fields(self)}
        record["catalog"] = {"hash": self.catalog.hash, "n_items": self.catalog.n_items}
        record["unit"] = self.unit.as_dict()
        record["entities"] = list(self.entities)
        record["epsilon"], record["delta"] = str(self.epsilon), str(self.delta)
        # Younger than the format: left out where there are none, so that older plans keep their hashes.
        table, secure = record.pop("features"), record.pop("secure")
        record |= {} if table is None else {"features": {"hash": table.hash, "n_features": table.n_features}}
        record |= {} if secure is None else {"secure": secure.as_dict()}
        return {"schema": SCHEMA, **record}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Plan:
        """Read what `as_dict` wrote; an unknown schema or field is refused by name."""
        rest = dict(record)
        schema = rest.pop("schema", None)
        if schema != SCHEMA:
            raise BadPlan(
                "the plan has another format.",
                found=f"schema {printable(schema)}",
                expected=SCHEMA,
                fix="update twofold, or write the plan anew: twofold plan new",
            )
        check_names(rest, (one.name for one in fields(cls)), optional=("features", "secure"))
        try:
            rest["catalog"] = CatalogKey(**rest["catalog"])
            rest["unit"] = Unit.from_dict(rest["unit"])
            if rest.get("features") is not None:
                rest["features"] = FeaturesKey(**rest["features"])
            if rest.get("secure") is not None:
                rest["secure"] = SecureSum.from_dict(rest["secure"])
            return cls(**rest)
        except TypeError as error:
            raise BadPlan("a part of the plan has another form.", found=printable(error)) from None
        except TwofoldError as error:
            raise error.as_(BadPlan) from None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Plan:
        """Read a plan file (TOML); an unknown or missing field is refused by name."""
        from twofold.federation.plan_file import read_plan

        return read_plan(path)

    def write(self, path: str | PathLike[str]) -> None:
        """Write a plan file with a comment at every field, whole or not at all."""
        from twofold.federation.plan_file import write_plan

        write_plan(self, path)

    def with_(self, **changes: Any) -> Plan:
        """Return the same plan with some fields changed."""
        same = {one.name: getattr(self, one.name) for one in fields(self)}
        given = {"catalog": self.catalog_items or self.catalog, "features": self.features_table or self.features}
        return type(self)(**{**same, **given, **changes})

    def differences(self, other: Plan | Mapping[str, Any]) -> tuple[str, ...]:
        """Name the fields in which another plan (or its record in a message) differs."""
        mine = self.as_dict()
        theirs = other.as_dict() if isinstance(other, Plan) else dict(other)
        return tuple(sorted(name for name in mine.keys() | theirs.keys() if mine.get(name) != theirs.get(name)))


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
