r"""What one entity does in each round: plain functions with plain arguments, so that any executor can run them.

The folder of ledgers of a simulation: where each one lies, and what happens when one is missing.

A secure sum with every entity in this process: the same messages as over any transport, made one after another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity, NewLedger
from twofold.entity.model import Model
from twofold.errors import BadParameter, LedgerBroken, PlanMismatch, TransportError
from twofold.federation.factors import ItemFactors
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore, new_keys
from twofold.identity.roster import Roster
from twofold.privacy.ledger import Ledger
from twofold.secure_sum import Keys, PublicKeys
from twofold.server.secure import SecureServer

__all__ = [
    "Local",
    "Member",
    "Strength",
    "Summed",
    "check_new_ledgers",
    "first_part",
    "first_round",
    "keyed_plan",
    "last_part",
    "ledger_paths",
    "masked_part",
    "second_round",
    "secure_rounds",
    "settle_missing",
    "with_keys",
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
        Its ledger; made when it does not exist, without a word: the calling process has warned (`settle_missing`).
    may_make : bool
        Whether a missing ledger is made.
    seed : int, optional
        Of its noise; None draws from the operating system.
    threads : int
        Threads of the compiled kernels.
    keys : Path or bytes, optional
        Its secret keys, for a secure sum: a file, or what `Keys.to_bytes` gave.
    """

    name: str
    ratings: Ratings
    plan: Plan
    ledger: Path | None = None
    may_make: bool = True
    seed: int | None = None
    threads: int = 1
    keys: Path | bytes | None = field(default=None, repr=False)

    def entity(self) -> Entity:
        """Wire it up; refuses ratings that are not of the plan."""
        return Entity(self.name, self.ratings, self.plan, ledger=self.ledger, rng=self.seed, keys=self._secrets())

    @contextmanager
    def working(self) -> Iterator[None]:
        """Keep to the member's threads, and have its ledger ready."""
        with at_most_threads(self.threads), one_blas_thread():
            _open_ledger(self)
            yield

    def _secrets(self) -> Any:
        if not isinstance(self.keys, bytes):
            return self.keys
        from twofold.secure_sum import Keys  # loads the library of ciphers

        return Keys.from_bytes(self.keys)


def first_round(member: Member) -> bytes:
    """Give the bytes an entity sends; with a ledger the stored ones if there are any."""
    with member.working():
        return bytes(member.entity().release().data)


def second_round(member: Member, factors: bytes, local: Local, strength: Strength) -> Model:
    """Fit an entity's own model to the item factors that came back."""
    with at_most_threads(member.threads), one_blas_thread():
        return member.entity().personalize(factors, local=local, strength=strength, threads=member.threads)


def _open_ledger(member: Member) -> None:
    """Make the ledger of an entity that has none, with room for this plan's one release."""
    if member.ledger is None or member.ledger.exists():
        return
    if not member.may_make:  # it was there a moment ago, or this is a machine that does not see the folder
        raise LedgerBroken(
            "the ledger is not here, and none may be made; nothing was drawn.",
            fix="give a folder that every process of the executor can see",
        )
    plan, priced = member.plan, member.seed is None and member.plan.spec.private
    ceiling = plan.budget if priced else None
    Ledger.open_or_create(member.ledger, dataset=member.name, ceiling=ceiling, unit=plan.unit)


#: Frames between the warning and whoever called `simulate` or `fit`.
_CALLER = 4


def ledger_paths(folder: str | PathLike[str], names: Mapping[Any, str], *, make: bool = True) -> dict[Any, Path]:
    """Name every entity's ledger in a folder, which is made when missing.

    Parameters
    ----------
    folder : path
        Where the ledgers are.
    names : mapping
        Label of each entity to its name in the plan.
    make : bool
        Whether a missing folder is made.

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
            "the folder for the ledgers cannot be made.", found=type(error).__name__, expected="a folder to write to"
        ) from None
    return {label: home / f"{name}.ledger" for label, name in names.items()}


def settle_missing(paths: Iterable[Path | None], new_ledgers: bool | None) -> None:
    """Say in the calling process which ledgers are about to be made, or refuse; before anyone has drawn.

    Parameters
    ----------
    paths : iterable of paths or None
        Everybody's ledger, None for who has none.
    new_ledgers : bool, optional
        True says nothing, False refuses, None warns.

    Raises
    ------
    LedgerBroken
        A ledger is missing and none may be made.

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
            "ledgers are missing, and none may be made; nothing was drawn.",
            found=found,
            expected="the folder that holds these people's ledgers",
            fix="name that folder; new_ledgers=True only for people about whom nothing was ever released",
        )
    warnings.warn(
        f"{found}: new ones are made there, each with room for this one plan. If these people already have ledgers, "
        "stop: name their folder, or what they were promised is spent twice. new_ledgers=True makes them without this "
        "warning, new_ledgers=False refuses.",
        NewLedger,
        stacklevel=_CALLER,
    )


def check_new_ledgers(new_ledgers: object) -> None:
    """Refuse anything that is neither a yes, a no nor None.

    Examples
    --------
    >>> check_new_ledgers(None)
    """
    if not (new_ledgers is None or isinstance(new_ledgers, bool)):
        raise BadParameter(
            "new_ledgers is unknown.", found=f"a {type(new_ledgers).__name__}", expected="True, False or None"
        )


Each = Callable[[str, Callable[..., bytes], Mapping[str, tuple[Any, ...]]], dict[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class Summed:
    """What a secure sum gave, and how many bytes each entity sent and got for it."""

    factors: ItemFactors
    sent: Mapping[str, int]
    received: int


def keyed_plan(plan: Plan, ledgers: Mapping[str, Path | None]) -> tuple[Plan, dict[str, Path | bytes]]:
    """Enrol every entity: keys in files beside the ledgers, or in memory where there are none.

    Keys serve one plan, so their files carry the beginning of its hash: another plan in the same folder has others.

    Parameters
    ----------
    plan : Plan
        With a secure sum. One that has a list of keys already is kept; its secret keys must lie beside the ledgers, as
        NAME.keys.
    ledgers : mapping
        Name of each entity to its ledger, or None.

    Returns
    -------
    plan, keys
        The plan with everybody's public keys, and where each entity's secret ones are.
    """
    assert plan.secure is not None
    public: dict[str, PublicKeys] = {}
    secret: dict[str, Path | bytes] = {}
    for name, ledger in ledgers.items():
        if ledger is None:
            made = Keys.new()
            public[name], secret[name] = made.public, made.to_bytes()
        elif plan.secure.roster:
            place = ledger.with_suffix(".keys")
            public[name], secret[name] = KeyStore(place).keys.public, place
        else:
            place = ledger.with_suffix(f".{plan.hash[:16]}.keys")
            ledger.parent.mkdir(parents=True, exist_ok=True)
            public[name], secret[name] = new_keys(place, name)[name], place
    roster = Roster(public)
    if plan.secure.roster and plan.secure.roster != roster.hash:
        raise PlanMismatch(
            "the plan's list of keys is not that of these entities.",
            expected="secret keys beside the ledgers, or a plan without a list of keys",
            fix="secure=SecureSum(survivors=...) without roster: keys are then made here",
        )
    secure = plan.secure.with_(roster=roster)
    return plan.with_(entities=tuple(roster), n_entities=len(roster), secure=secure), secret


def secure_rounds(
    members: Mapping[str, Member],
    plan: Plan,
    each: Each,
    serving: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Summed:
    """Run the three steps of a secure sum.

    Parameters
    ----------
    members : mapping
        Everybody, with keys.
    plan : Plan
        With everybody's public keys.
    each : callable
        Runs a task for everybody, with progress: name of the step, task, arguments by entity.
    serving : callable
        Gives a context in which the server takes the masks off and factorizes, to measure it.
    """
    server = SecureServer(plan)
    shares = each("keys", first_part, {name: (member,) for name, member in members.items()})
    roll = server.roll(shares.values())
    masked = each("round 1", masked_part, {name: (member, roll) for name, member in members.items()})
    survivors = server.survivors(masked.values(), roll)
    answers = each("answers", last_part, {name: (member, survivors, roll) for name, member in members.items()})
    with serving():
        factors = server.factorize(masked.values(), answers.values(), roll=roll, survivors=survivors)
    sent = {name: len(shares[name]) + len(masked[name]) + len(answers[name]) for name in members}
    return Summed(factors=factors, sent=sent, received=len(roll) + len(survivors))


def first_part(member: Member) -> bytes:
    """Give an entity's key shares."""
    return member.entity().share()


def masked_part(member: Member, roll: bytes) -> bytes:
    """Give an entity's masked message; with a ledger the stored one if there is any."""
    with member.working():
        return bytes(member.entity().release(roll).data)


def last_part(member: Member, survivors: bytes, roll: bytes) -> bytes:
    """Give an entity's answer."""
    return member.entity().answer(survivors, roll)


def with_keys(members: Mapping[str, Member], plan: Plan, keys: Mapping[str, Path | bytes]) -> dict[str, Member]:
    """Give every member the plan with all keys, and its own."""
    return {name: replace(member, plan=plan, keys=keys[name]) for name, member in members.items()}
