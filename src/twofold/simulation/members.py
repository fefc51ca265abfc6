"""The entities of a simulation: their ledgers and keys, and their work as plain functions that any executor can run."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.data.ratings import Ratings
from twofold.entity.account import NewLedger
from twofold.entity.agent import Entity
from twofold.entity.model import Model
from twofold.entity.participate import Deed, act
from twofold.errors import BadParameter, LedgerBroken, PlanMismatch, TransportError
from twofold.federation.mailbox import StepId
from twofold.federation.plan import Plan
from twofold.privacy.ledger import Ledger

if TYPE_CHECKING:
    from twofold.federation.agreement import Agreements
    from twofold.identity.keystore import KeyStore

__all__ = [
    "Local",
    "Member",
    "Strength",
    "agreements_of",
    "check_new_ledgers",
    "keyed_plan",
    "known_plan",
    "ledger_paths",
    "needs_keys",
    "personalized",
    "settle_missing",
    "visit",
]

Local = Literal["auto", "factors", "item-item", "patterns", "features"]
Strength = float | Literal["auto", "own", "shared"]


@dataclass(frozen=True, kw_only=True)
class Member:
    """One entity of a simulation: everything its two rounds need, in a form that crosses process borders.

    Parameters
    ----------
    name : str
        As in the plan.
    ratings : Ratings
        Private; never in a result.
    plan : Plan
        The public parameters.
    ledger : Path, optional
        Its ledger; created silently if missing: the calling process has warned (`settle_missing`).
    may_make : bool
        Whether to create a missing ledger.
    seed : int, optional
        Seed of its noise; None draws from the operating system.
    threads : int
        Threads of the compiled kernels.
    keys : Path or bytes, optional
        Its secret keys, for a plan with a roster: a file, or what `Secrets.to_bytes` gave.
    agreements : Agreements, optional
        Those that came with the plan; see `agreements_of`.
    """

    name: str
    ratings: Ratings
    plan: Plan
    ledger: Path | None = None
    may_make: bool = True
    seed: int | None = None
    threads: int = 1
    keys: Path | bytes | None = field(default=None, repr=False)
    agreements: Agreements | None = field(default=None, repr=False)

    def entity(self) -> Entity:
        """Make the entity; refuse ratings that do not belong to the plan."""
        return Entity(
            self.name,
            self.ratings,
            self.plan,
            ledger=self.ledger,
            rng=self.seed,
            keys=self._secrets(),
            agreements=self.agreements,
        )

    def _secrets(self) -> Any:
        if not isinstance(self.keys, bytes):
            return self.keys
        from twofold.identity.keys import Secrets  # loads the library of ciphers

        return Secrets.from_bytes(self.keys)


def visit(member: Member, published: Mapping[StepId, bytes | None], submitted: Set[StepId]) -> Deed:
    """Give what is due at an entity; see `act`. With a ledger, a stored message is reused."""
    with at_most_threads(member.threads), one_blas_thread():
        _open_ledger(member)
        return act(member.entity(), published, submitted)


def personalized(member: Member, factors: bytes, local: Local, strength: Strength) -> Model:
    """Fit an entity's own model to the returned item factors."""
    with at_most_threads(member.threads), one_blas_thread():
        return member.entity().personalize(factors, local=local, strength=strength, threads=member.threads)


def _open_ledger(member: Member) -> None:
    """Create the ledger of an entity that has none, with room for this plan's one release."""
    if member.ledger is None or member.ledger.exists():
        return
    if not member.may_make:  # it was there a moment ago, or this is a machine that does not see the folder
        raise LedgerBroken(
            "the ledger is missing, and none may be created; nothing was drawn.",
            fix="give a folder that every process of the executor can access",
            parameter="ledger",
        )
    plan, priced = member.plan, member.seed is None and member.plan.spec.private
    ceiling = plan.budget if priced else None
    Ledger.open_or_create(member.ledger, dataset=member.name, ceiling=ceiling, unit=plan.unit)


#: Frames between the warning and the caller of `simulate` or `fit`.
_CALLER = 4


def ledger_paths(folder: str | PathLike[str], names: Mapping[Any, str], *, make: bool = True) -> dict[Any, Path]:
    """Name every entity's ledger in a folder, which is created if missing.

    Parameters
    ----------
    folder : path
        Where the ledgers are.
    names : mapping
        Label of each entity to its name in the plan.
    make : bool
        Whether to create a missing folder.

    Examples
    --------
    >>> [str(path) for path in ledger_paths("ledgers", {7: "seven"}, make=False).values()]
    ['ledgers/seven.ledger']
    """
    home = Path(folder)
    try:
        if make:
            home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TransportError(
            "the folder for the ledgers cannot be created.",
            found=type(error).__name__,
            expected="a writable folder",
            parameter="ledgers",
        ) from None
    return {label: home / f"{name}.ledger" for label, name in names.items()}


def settle_missing(paths: Iterable[Path | None], new_ledgers: bool | None) -> None:
    """Warn in the calling process about ledgers to be created, or refuse, before anyone has drawn.

    Parameters
    ----------
    paths : iterable of paths or None
        The ledger of each entity, None for those without one.
    new_ledgers : bool, optional
        True says nothing, False refuses, None warns.

    Raises
    ------
    LedgerBroken
        A ledger is missing and none may be created.

    Warns
    -----
    NewLedger
        Once, with the folder and the number of ledgers.

    Examples
    --------
    >>> settle_missing([None, Path("no folder") / "north.ledger"], True)
    """
    every = [path for path in paths if path is not None]
    missing = [path for path in every if not path.exists()]
    if not missing or new_ledgers is True:
        return
    found = f"{len(missing)} of {len(every)} ledgers are not in {missing[0].parent}"
    if new_ledgers is False:
        raise LedgerBroken(
            "ledgers are missing, and none may be created; nothing was drawn.",
            found=found,
            expected="the folder that holds these people's ledgers",
            fix="name that folder; new_ledgers=True only for people with no earlier release",
            parameter="new_ledgers",
        )
    warnings.warn(
        f"{found}: new ones are made there, each with room for this one plan. If these people already have ledgers, "
        "stop: name their folder, or what they were promised is spent twice. new_ledgers=True makes them without this "
        "warning, new_ledgers=False refuses.",
        NewLedger,
        stacklevel=_CALLER,
    )


def check_new_ledgers(new_ledgers: object) -> None:
    """Refuse anything but True, False and None.

    Examples
    --------
    >>> check_new_ledgers(None)
    """
    if not (new_ledgers is None or isinstance(new_ledgers, bool)):
        raise BadParameter(
            "{parameter} is unknown.",
            found=f"a {type(new_ledgers).__name__}",
            expected="True, False or None",
            parameter="new_ledgers",
        )


def needs_keys(plan: Plan) -> bool:
    """Whether the members of a plan sign what they send.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> needs_keys(Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), simulation=True))
    False
    """
    return plan.secure is not None or plan.roster is not None or not plan.simulation


def keyed_plan(plan: Plan, ledgers: Mapping[str, Path | None]) -> tuple[Plan, dict[str, Path | bytes], list[KeyStore]]:
    """Enrol every entity and every operator: keys in files beside the ledgers, or in memory without ledgers.

    The keys of a secure sum serve one plan, so their files carry the beginning of its hash: another plan in the same
    folder has others. Everybody agrees to the plan and confirms it: one caller holds everything.

    Parameters
    ----------
    plan : Plan
        One that has a roster already is kept; its secret keys must be beside the ledgers, as NAME.keys.
    ledgers : mapping
        Name of each entity to its ledger, or None.

    Returns
    -------
    plan, keys, operators
        The plan with its roster, the place of each entity's secret keys, and the keys of the operators.
    """
    from twofold.identity.keys import Role, Secrets  # these load the library of ciphers
    from twofold.identity.keystore import KeyStore, new_keys
    from twofold.identity.roster import Roster

    stores: dict[str, KeyStore] = {}
    secret: dict[str, Path | bytes] = {}
    operators = _operator_names(plan, ledgers)
    folder = next((path.parent for path in ledgers.values() if path is not None), None)
    beside = {name: None if folder is None else folder / f"{name}.ledger" for name in operators}
    for name, ledger in {**ledgers, **beside}.items():
        role = Role.OPERATOR if name in operators else Role.ENTITY
        if ledger is None:
            made = Secrets.new(name, role)
            stores[name], secret[name] = KeyStore(made), made.to_bytes()
            continue
        place = _keys_of(ledger, plan)
        if plan.roster is None:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            first = ledger.with_suffix(".keys")  # one signing key for all plans: it also signs the ledger
            new_keys(first, name, role)
            new_keys(place, name, role, renew=first)
        stores[name], secret[name] = KeyStore(place), place
    roster = Roster(store.identity for store in stores.values())
    if plan.roster is not None and plan.roster.hash != roster.hash:
        raise PlanMismatch(
            "the plan's roster does not match these entities.",
            expected="secret keys beside the ledgers, or a plan without a roster",
            fix="leave roster out of the plan: keys are then made here",
            parameter="roster",
        )
    keyed = plan.with_(
        entities=tuple(roster.entities), n_entities=len(roster.entities), roster=roster, writer=plan.writer
    )
    if not keyed.simulation:
        for store in stores.values():
            store.agree(keyed.hash)
            store.confirm(keyed.hash)
    return keyed, secret, [stores[name] for name in keyed.members.operators] if keyed.members else []


def agreements_of(plan: Plan, keys: Mapping[str, Path | bytes]) -> Agreements | None:
    """Gather the agreements that travel with a real plan of two operators, whose entities come once; else None.

    Parameters
    ----------
    plan, keys
        As `keyed_plan` gave them; in a real plan, every key is in a file with its agreement beside it.
    """
    if plan.operators is None or plan.simulation:
        return None
    from twofold.federation.agreement import Agreements, must_agree  # these load the library of ciphers
    from twofold.identity.keystore import KeyStore

    files = {name: keys[name] for name in must_agree(plan)}
    signed = {name: KeyStore(place).agreement(plan.hash) for name, place in files.items() if isinstance(place, Path)}
    return Agreements(plan.hash, {name: one for name, one in signed.items() if one is not None})


def known_plan(plan: Plan, ledgers: Mapping[str, Path]) -> Plan:
    """Give the plan as an earlier run with these ledgers enrolled it, whose hash their releases are under.

    The plan itself if there was no such run, or if it is a simulation without keys. Makes no keys.
    """
    if plan.simulation and plan.secure is None and plan.roster is None:
        return plan
    named = _operator_names(plan, ledgers)
    operators = {path.with_name(f"{name}.ledger") for path in ledgers.values() for name in named}
    enrolled = all(_keys_of(book, plan).exists() for book in (*ledgers.values(), *operators))
    return keyed_plan(plan, ledgers)[0] if enrolled else plan


def _keys_of(ledger: Path, plan: Plan) -> Path:
    return ledger.with_suffix(".keys" if plan.roster is not None else f".{plan.hash[:16]}.keys")


def _operator_names(plan: Plan, names: Iterable[str]) -> list[str]:
    """The operators' names: the roster's, or ones that no entity has."""
    if plan.members is not None:
        return [*plan.members.operators]
    taken = {one.casefold() for one in names}
    found = []
    for name in ("coordinator",) if plan.operators is None else ("operator-a", "operator-b"):
        while name in taken:
            name += "-1"
        found.append(name)
    return found
