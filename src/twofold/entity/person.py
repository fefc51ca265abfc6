"""A person as an entity: one device, one row, one report under a key that serves once; recommendations from the rest.

With one row there is nothing to learn locally and nothing to judge by. So the device takes the shared factors and folds
its row in, with a kind and a strength that are fixed, not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scipy import sparse

from twofold.data.bounds import Bounds
from twofold.data.catalog import Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.candidates import Candidate, FitSettings, fitted
from twofold.entity.model import Model
from twofold.entity.models.blend import Scorer
from twofold.entity.models.item_item import MAX_ITEMS
from twofold.entity.personalize import read_factors, settings_of
from twofold.errors import BadMessage, DataError, NotReady, PlanMismatch, ProtocolError
from twofold.federation.agreement import plan_words
from twofold.federation.factors import ItemFactors
from twofold.federation.messages import roster_of
from twofold.federation.plan import Plan
from twofold.federation.reports import check_voucher, person_name, voucher_text
from twofold.identity.keys import LARGEST_PART, Role, Secrets
from twofold.identity.keystore import KeyStore, new_keys
from twofold.storage.container import canonical_json, parse_json
from twofold.storage.files import read_limited
from twofold.storage.signing import KEY_BYTES, Purpose, check_public_key

if TYPE_CHECKING:
    from twofold.federation.agreement import Agreements
    from twofold.privacy.ledger import Ledger
    from twofold.privacy.rng import Source

__all__ = [
    "Person",
    "fold_person_in",
    "person_keys",
    "person_request",
    "personal_model",
    "read_request",
    "read_voucher",
    "vouch",
    "voucher_file",
]

#: Users that the shared second moments weigh as much as, for counts. Of 30 to infinity, set on development splits:
#: more follows the noise, less forgets what items have in common.
STRENGTH: Final = 1_000.0
#: Name in the file of keys and in the ledger; it never leaves.
_NAME: Final = "person"
_REQUEST: Final = "twofold.request/1"
_VOUCHER: Final = "twofold.voucher/1"


class Person(Entity):
    """One person's device: their own row, one report, and recommendations made on the device.

    Parameters
    ----------
    ratings : Ratings
        Private. The row of the person who owns the device; a table without rows counts as an empty one.
    plan : Plan
        With two operators and `people`.
    keys : path or Secrets
        A key that serves one plan (`person_keys`).
    voucher : path or mapping, optional
        By one of the institutions that the plan names, for this very key (`vouch`). Only a simulation does without.
    ledger, version, rng, agreements
        As for `Entity`. One ledger serves all plans of the person.

    Privacy
    -------
    What was sent is hidden; *that* something was sent is not, and neither is which institution vouched. A person who
    does not want to show even the difference between having entries and having none sends a report of an empty row:
    it has the same length. Operators, entities and readers know the person by the hash of a key that serves once;
    the institution that vouches knows whose key it is, as it knows who its people are. How many rows the table has is
    looked at before anything is drawn, since the table of a device is its owner's: several rows are a mistake of the
    caller. Nothing else about the content is ever refused.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from twofold.data.catalog import Catalog, Identifiers
    >>> from twofold.federation.secure import OperatorSum
    >>> from twofold.identity.roster import Roster
    >>> two = [Secrets.new(name, Role.OPERATOR) for name in ("uni", "clinic")]
    >>> catalog = Catalog(["heparin", "lactate", "sodium"])
    >>> plan = Plan(
    ...     catalog=catalog, feedback="counts", bound=5, max_items=3, n_users=1, n_entities=100, simulation=True,
    ...     mechanism="gram", secure=OperatorSum(floor=2, people=True), roster=Roster(one.identity for one in two),
    ... )
    >>> row = sparse.csr_array(np.array([[1.0, 0.0, 2.0]]))
    >>> me = Person(Ratings(row, Identifiers(["me"]), catalog, "counts"), plan, keys=Secrets.new("me", Role.PERSON))
    >>> sent = me.report()
    >>> sent.entity == me.name, me.report().data == sent.data, len(me.name)
    (True, True, 64)
    """

    def __init__(
        self,
        ratings: Ratings,
        plan: Plan,
        *,
        keys: str | PathLike[str] | Secrets,
        voucher: str | PathLike[str] | Mapping[str, str] | None = None,
        ledger: str | PathLike[str] | Ledger | None = None,
        version: str = "1",
        rng: int | Source | None = None,
        agreements: str | PathLike[str] | bytes | Agreements | None = None,
    ) -> None:
        if not isinstance(plan, Plan) or not plan.people:
            raise PlanMismatch(
                "the plan is not one for people.",
                expected="two operators, and people = true in its table [secure]",
                fix="Entity(...), or a plan with OperatorSum(people=True)",
                parameter="plan",
            )
        store = KeyStore(keys)
        given = read_voucher(voucher) if isinstance(voucher, str | PathLike) else voucher
        self._given = None if given is None else dict(given)
        super().__init__(
            person_name(store.identity.sign),
            _one_row(ratings),
            plan,
            ledger=ledger,
            version=version,
            rng=rng,
            keys=keys,
            agreements=agreements,
        )
        self._store_made = store

    def __repr__(self) -> str:
        return f"Person(plan {self.plan.hash[:12]})"

    def check_keys(self) -> None:
        """Refuse a key that serves another plan, and a voucher that is missing or for another key."""
        store = self._store()
        if store.identity.role is not Role.PERSON:
            raise PlanMismatch(
                "the keys are not those of a person.",
                found=f"keys of the {store.identity.role} {store.identity.name}",
                expected="a key that serves once: an institution's own key would name it",
                fix="twofold keys person",
                parameter="keys",
            )
        check_voucher(self._given or {}, self.plan, self.name)
        store.bind(self.plan.hash, self.version)

    def confirm(self) -> None:
        """Record that the person has compared the operators' fingerprints, and agrees to the plan."""
        store = self._store()
        store.agree(self.plan.hash)
        store.confirm(self.plan.hash)

    def check_confirmed(self) -> None:
        """Refuse a real plan whose operators' fingerprints nobody has compared; nothing is drawn or written."""
        if not self.plan.simulation:
            self._check_consent()

    def personalize(self, factors: ItemFactors | bytes | str | PathLike[str] | None, **_: Any) -> Model:
        """Fold the person's row into the shared factors; see `personal_model`. Other options have no effect."""
        assert isinstance(self._ratings, Ratings)  # one row
        return personal_model(self._ratings, self.plan, factors)

    @property
    def _dataset(self) -> str:
        """Name in the ledger: the same for all plans of the person, while the key is another one each time."""
        return _NAME

    def _ledger_signer(self) -> None:
        """A key that serves one plan cannot sign a ledger that serves them all."""

    def _check_named(self) -> None:
        """A person has no name in the plan."""

    def _check_own(self, store: KeyStore) -> None:
        """A person's key is not in the roster."""

    def _voucher(self) -> Mapping[str, str]:
        return self._given or {}

    def _check_consent(self) -> None:
        """Refuse to seal a report before the person has confirmed who the operators are."""
        store = self._store()
        if store.confirmed(self.plan.hash):
            return
        first, second = roster_of(self.plan).operators.values()
        raise NotReady(
            "nobody here has confirmed who the operators are; nothing was sent.",
            found=f"plan {plan_words(self.plan)}; {first.name}: {first.words}; {second.name}: {second.words}",
            expected="the same words where both institutions show theirs: if one person runs both, they read your row",
            fix="Person.confirm(), or twofold release --person --confirm",
            parameter="confirm",
        )


def _one_row(ratings: Ratings) -> Ratings:
    if isinstance(ratings, Ratings) and not ratings.n_users:  # nothing recorded: a row of zeros, of the same length
        nothing = sparse.csr_array((1, ratings.matrix.shape[1]), dtype=ratings.matrix.dtype)
        return Ratings(nothing, Identifiers([_NAME]), ratings.catalog, ratings.feedback)
    if isinstance(ratings, Ratings) and ratings.n_users != 1:
        raise DataError(
            "a person's device holds one person; nothing was drawn.",
            expected="a table with the entries of its owner only",
            fix="Entity(...) for an institution with several people",
            parameter="ratings",
        )
    return ratings


def fold_person_in(row: sparse.csr_array, shared: ItemFactors, settings: FitSettings) -> tuple[Candidate, Scorer]:
    """Give the model of one person: the shared one, as far as one row can use it.

    Parameters
    ----------
    row : csr array (1, items)
        Private; may be empty.
    shared : ItemFactors
        From the operators.
    settings : FitSettings
        The plan's numbers.

    Notes
    -----
    For ratings: the shared patterns unchanged. For counts: item-item weights from the shared second moments, and public
    features if there are any. Kinds and the strength were set on development splits (docs/results/people.md).
    """
    return (candidate := _candidate(shared, settings)), fitted(candidate, row, shared, settings, gain=1.0)


def _candidate(shared: ItemFactors, settings: FitSettings) -> Candidate:
    if settings.feedback == "ratings":
        return Candidate(kind="factors" if shared.patterns is None else "patterns", strength=math.inf)
    if shared.patterns is None or shared.n_items > MAX_ITEMS:
        return Candidate(kind="factors", strength=math.inf)
    return Candidate(kind="item-item" if settings.features is None else "mixed", strength=STRENGTH)


def personal_model(ratings: Ratings, plan: Plan, factors: ItemFactors | bytes | str | PathLike[str] | None) -> Model:
    """Fold a person's row into the shared factors; nothing is fitted, nothing leaves.

    Parameters
    ----------
    ratings : Ratings
        Private: one row.
    plan : Plan
        For people.
    factors : ItemFactors, bytes or path
        What both operators signed.

    Raises
    ------
    PlanMismatch
        The factors belong to another plan or catalog.
    BadMessage
        One of the two signatures is missing or wrong.
    """
    if factors is None:
        raise DataError(
            "a person alone has nothing to learn from.",
            expected="the item factors that both operators signed",
            parameter="factors",
        )
    shared = read_factors(factors, plan)
    row = _one_row(ratings).as_feedback(plan.feedback)
    history = Bounds(bound=plan.bound, lower=plan.lower).apply(row)[0]
    candidate, scorer = fold_person_in(history.matrix, shared, settings_of(plan, threads=1))
    return Model(
        entity=_NAME,
        catalog=history.catalog,
        history=history,
        scorer=scorer,
        plan=plan,
        factors_hash=shared.hash,
        private=shared.private,
        strength=candidate.strength,
        note="one person: the shared factors, and their own row folded in",
        validation=(),
        lower=plan.lower,
        bound=plan.bound,
    )


# Keys, requests and vouchers.


def person_keys(path: str | PathLike[str]) -> str:
    """Make the key of one report, or read it if it is there; return the person's request for a voucher.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = person_keys(f"{folder}/me.keys")
    ...     first == person_keys(f"{folder}/me.keys")
    True
    """
    return person_request(new_keys(path, _NAME, Role.PERSON).sign)


def person_request(public: bytes) -> str:
    """Write a request for a voucher: a public key and nothing else, least of all a name."""
    return canonical_json({"schema": _REQUEST, "sign": public.hex()})


def read_request(path: str | PathLike[str]) -> bytes:
    """Read the public key in a request."""
    record = _record(path, _REQUEST, ("sign",))
    try:
        public = bytes.fromhex(record["sign"])
        check_public_key(public)
    except (ValueError, ProtocolError):
        public = b""
    if len(public) != KEY_BYTES:
        raise BadMessage("the request holds no key.", expected="what twofold keys person wrote", parameter="request")
    return public


def vouch(plan: Plan, keys: KeyStore, public: bytes) -> dict[str, str]:
    """Vouch for a person of one's own: one key, one plan.

    Parameters
    ----------
    plan : Plan
        For people; it names the institution.
    keys : KeyStore
        The institution's.
    public : bytes
        The person's key (`read_request`).

    Privacy
    -------
    The operators see which institution vouched for which key. The institution knows whose key it is. It must vouch
    **once** for every person: two reports of one person double what the noise has to hide.
    """
    if not plan.people:
        raise PlanMismatch("the plan is not one for people.", expected="secure.people = true", parameter="plan")
    name = keys.identity.name
    if roster_of(plan).entities.get(name) != keys.identity:
        raise PlanMismatch(
            "the keys are not those of an institution that the plan names.",
            found=f"keys of {name}",
            expected="one of " + ", ".join([*roster_of(plan).entities][:5]),
            parameter="keys",
        )
    signature = keys.signer.sign(Purpose.VOUCHER, voucher_text(plan, person_name(public)))
    return {"institution": name, "signature": signature.hex()}


def voucher_file(voucher: Mapping[str, str]) -> str:
    """Write a voucher as the text of a file."""
    return canonical_json({"schema": _VOUCHER, **voucher})


def read_voucher(path: str | PathLike[str]) -> dict[str, str]:
    """Read a voucher; whether it is good is checked against the plan."""
    record = _record(path, _VOUCHER, ("institution", "signature"))
    return {name: record[name] for name in ("institution", "signature")}


def _record(path: str | PathLike[str], schema: str, names: tuple[str, ...]) -> dict[str, str]:
    try:
        record = parse_json(read_limited(Path(path), LARGEST_PART).decode())
        whole = isinstance(record, dict) and set(record) == {"schema", *names} and record["schema"] == schema
        if whole and all(isinstance(record[name], str) for name in names):
            return {name: str(record[name]) for name in names}
    except (ProtocolError, ValueError):
        pass
    raise BadMessage("the file is not what it should be.", expected=f"a file of {schema}", parameter="file")
