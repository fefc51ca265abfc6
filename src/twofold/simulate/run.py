"""simulate: every entity's round 1, the server, every entity's round 2, here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.errors import BadParameter, BadPlan, NotForRealUse, TooFewMessages
from twofold.protocol.messages import encode_factors
from twofold.protocol.plan import Plan
from twofold.server.factorize import Server
from twofold.simulate.ledgers import check_new_ledgers, ledger_paths, settle_missing
from twofold.simulate.names import plan_names
from twofold.simulate.pool import Crew, run_each
from twofold.simulate.result import Simulated
from twofold.simulate.tasks import Local, Member, Strength, first_round, second_round

if TYPE_CHECKING:
    from twofold.simulate.secure import Summed

__all__ = ["Manner", "Progress", "refuse_what_is_not_real", "run_members", "simulate"]

Progress = Callable[[str, int, int], object]


def simulate(
    federation: Federation | Mapping[Any, Ratings],
    plan: Plan,
    *,
    executor: Executor | None = None,
    ledgers: str | PathLike[str] | None = None,
    new_ledgers: bool | None = None,
    rng: int | None = None,
    progress: Progress | None = None,
    local: Local = "auto",
    strength: Strength = "auto",
    threads: int | None = None,
) -> Simulated:
    """Run both rounds of a federation in this process, or on an executor.

    Parameters
    ----------
    federation : Federation or mapping
        Label of each entity to its ratings. Labels of any kind; see `plan_name` for the names in the messages.
    plan : Plan
        Every public parameter. Without `ledgers` it must say ``simulation=True``.
    executor : concurrent.futures.Executor, optional
        Where the entities' work runs: a process pool, ``dask.distributed.Client(...).get_executor()``, or any other.
        By default threads of this process. The server's work is always done here.
    ledgers : path, optional
        Folder with one ledger per entity, each with room for this plan's one release. Running again hands out the
        stored messages and spends nothing. An executor on another machine must see this folder.
    new_ledgers : bool, optional
        What to do where a ledger is missing, which is how a wrong folder looks: by default make it and warn, once, with
        the folder and the number; True makes it without a warning; False refuses before anyone draws.
    rng : int, optional
        Seed of the noise, for simulations only. Each entity's noise depends on this seed and its own name.
    progress : callable, optional
        Told ``(phase, done, total)``, from the calling thread; phases are "round 1", "server" and "round 2", and
        with a secure sum "keys" before them and "answers" before the server.
    local, strength
        As for `Entity.personalize`.
    threads : int, optional
        Threads altogether, all processors by default; with an `executor` threads of each task, 1 by default. Results
        do not depend on it.

    Returns
    -------
    Simulated
        The item factors, a local model per entity, bytes and seconds.

    Raises
    ------
    NotForRealUse
        A plan that is not a simulation, without ledgers or with a seed. Nothing was drawn.
    LedgerBroken
        A ledger is missing and ``new_ledgers=False``. Nothing was drawn.
    TwofoldError
        An entity failed. The others of that round finish first, so that with `ledgers` nothing paid for is lost; then
        the first failure is raised with the entity's name in front.

    Warns
    -----
    NewLedger
        Ledgers were missing and are made: these people's budget is double if they have others elsewhere.

    Privacy
    -------
    Whoever can call this holds everybody's data. With `ledgers` the messages have real noise and are accounted for as
    in a real federation; everything made from a plan with ``simulation=True`` is marked not private.

    Paper
    -----
    Algorithm 2.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> federation = hospitals.load(0.001)
    >>> plan = Plan(
    ...     catalog=federation.catalog, feedback="counts", bound=5, max_items=60, rank=1, simulation=True
    ... )
    >>> done = simulate(federation, plan, rng=0, strength="shared", local="factors")
    >>> done.private, list(done.models), len(done.recommend("hospital-001", "001-00001", 3))
    (False, ['hospital-001'], 3)
    """
    refuse_what_is_not_real(plan, rng, accounted=ledgers is not None)
    check_new_ledgers(new_ledgers)
    everyone = federation if isinstance(federation, Federation) else Federation(federation)
    names = plan_names(everyone)
    paths: Mapping[Any, Path | None] = dict.fromkeys(names)
    if ledgers is not None:
        paths = ledger_paths(ledgers, names, make=new_ledgers is not False)
    how = Manner(
        executor=executor, rng=rng, progress=progress, local=local, strength=strength, threads=threads,
        new_ledgers=new_ledgers,
    )  # fmt: skip
    return run_members(everyone, plan, names, paths, how)


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How a simulation runs; the parameters of `simulate` that say nothing about who takes part."""

    executor: Executor | None = None
    rng: int | None = None
    progress: Progress | None = None
    local: Local = "auto"
    strength: Strength = "auto"
    threads: int | None = None
    new_ledgers: bool | None = None


def run_members(
    federation: Federation, plan: Plan, names: Mapping[Any, str], ledgers: Mapping[Any, Path | None], how: Manner
) -> Simulated:
    """Run both rounds when names and ledgers are settled; see `simulate`. Called by what the user calls."""
    tell = how.progress or _silent
    seconds: dict[str, float] = {}
    with Crew.of(how.executor, how.threads, len(federation)) as crew:
        members = _members(federation, plan, names, ledgers, how, crew.inner)
        settle_missing(ledgers.values(), how.new_ledgers)

        def each(step: str, task: Callable[..., Any], jobs: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
            with _phase(step, seconds, tell, len(jobs)) as done:
                return run_each(task, jobs, executor=crew.executor, done=done)

        if plan.secure is None:
            sent = each("round 1", first_round, {name: (member,) for name, member in members.items()})
            with _phase("server", seconds, tell, 1) as done:
                own_threads = how.threads if how.executor is None else None
                factors = Server(plan, threads=own_threads).factorize([sent[names[label]] for label in federation])
                done(1)
            sizes, keys_received = {name: len(data) for name, data in sent.items()}, 0
        else:

            @contextmanager
            def serving() -> Iterator[None]:
                with _phase("server", seconds, tell, 1) as done:
                    yield
                    done(1)

            plan, members, summed = _summed(plan, members, {names[one]: ledgers[one] for one in names}, each, serving)
            factors, sizes, keys_received = summed.factors, dict(summed.sent), summed.received
        back = encode_factors(factors, plan)
        jobs = {name: (member, back, how.local, how.strength) for name, member in members.items()}
        models = each("round 2", second_round, jobs)
    return Simulated(
        plan=plan,
        factors=factors,
        models={label: models[names[label]] for label in federation},
        names=names,
        sent={label: sizes[names[label]] for label in federation},
        received=len(back) + keys_received,
        seconds=seconds,
    )


def _summed(
    plan: Plan, members: dict[str, Member], ledgers: Mapping[str, Path | None], each: Any, serving: Any
) -> tuple[Plan, dict[str, Member], Summed]:
    """Everybody's keys, then the three steps of a secure sum."""
    from twofold.simulate.secure import keyed_plan, secure_rounds, with_keys  # loads the library of ciphers

    keyed, keys = keyed_plan(plan, ledgers)
    members = with_keys(members, keyed, keys)
    return keyed, members, secure_rounds(members, keyed, each, serving)


def _members(
    federation: Federation,
    plan: Plan,
    names: Mapping[Any, str],
    ledgers: Mapping[Any, Path | None],
    how: Manner,
    threads: int,
) -> dict[str, Member]:
    """Everyone, checked before anyone draws; the largest first, so that nobody waits for a late giant."""
    if len(federation) < plan.quorum:
        raise TooFewMessages(
            "there are fewer entities than the plan's quorum; nothing was drawn.",
            found=f"{len(federation)} entities",
            expected=f"at least {plan.quorum}",
        )
    largest_first = sorted(federation, key=lambda label: -federation[label].n_entries)
    members = {
        names[label]: Member(
            name=names[label],
            ratings=federation[label],
            plan=plan,
            ledger=ledgers[label],
            may_make=how.new_ledgers is not False,
            seed=None if how.rng is None else _seed(how.rng, names[label]),
            threads=threads,
        )
        for label in largest_first
    }
    for member in members.values():
        member.entity()
    return members


def _seed(rng: int, name: str) -> int:
    """An entity's own seed: independent of the others, of their order and of where it runs."""
    return int.from_bytes(hashlib.sha256(f"twofold simulate 1 {rng} {name}".encode()).digest()[:8], "big")


def _silent(phase: str, done: int, total: int) -> None:
    """Tell nobody."""


@contextmanager
def _phase(name: str, seconds: dict[str, float], tell: Progress, total: int) -> Iterator[Callable[[int], object]]:
    tell(name, 0, total)
    start = time.perf_counter()
    yield lambda done: tell(name, done, total)
    seconds[name] = time.perf_counter() - start


def refuse_what_is_not_real(plan: Plan, rng: object, *, accounted: bool) -> None:
    """Refuse a seed, and a release nobody counts, in a plan that is not a simulation."""
    if not isinstance(plan, Plan):
        raise BadPlan("not a plan.", found=f"a {type(plan).__name__}", fix='Plan.read("plan.toml")')
    if rng is not None and (isinstance(rng, bool) or not isinstance(rng, int) or rng < 0):
        raise BadParameter("rng is no seed.", found=f"a {type(rng).__name__}", expected="a whole number from 0")
    if plan.simulation:
        return
    if rng is not None:
        raise NotForRealUse(
            "repeatable noise protects nobody, and this plan is not a simulation; nothing was drawn.",
            fix="leave rng out, or Plan(..., simulation=True), which marks everything 'not private'",
        )
    if not accounted:
        raise NotForRealUse(
            "this plan is not a simulation, and there are no ledgers to count what it spends; nothing was drawn.",
            fix='simulate(..., ledgers="ledgers"), or Plan(..., simulation=True), which marks everything "not private"',
        )
