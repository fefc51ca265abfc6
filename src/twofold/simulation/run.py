"""Simulate every entity and the server, over a mailbox in this process."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twofold.checks import check_entity_name
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.entity.model import Model, Recommendation
from twofold.entity.participate import Deed, Send
from twofold.errors import BadIdentifier, BadMessage, BadParameter, BadPlan, DataError, NotForRealUse, TooFewMessages
from twofold.federation.factors import ItemFactors, decode_factors
from twofold.federation.mailbox import InProcess, StepId, steps_of
from twofold.federation.plan import Plan
from twofold.progress import tell
from twofold.server.coordinate import CoordinationStatus, coordinate, server_for
from twofold.server.state import MemoryState
from twofold.simulation.members import (
    Local,
    Member,
    Strength,
    agreements_of,
    check_new_ledgers,
    keyed_plan,
    ledger_paths,
    needs_keys,
    personalized,
    settle_missing,
    visit,
)
from twofold.simulation.workers import WorkerPool, run_each

if TYPE_CHECKING:
    from twofold.identity.keystore import KeyStore

__all__ = [
    "Simulated",
    "SimulationOptions",
    "plan_name",
    "plan_names",
    "refuse_what_is_not_real",
    "run_members",
    "simulate",
]

#: Looks after which two operators in one process have published: each waits for the other four times.
_EXCHANGES: Final = 8


def simulate(
    federation: Federation | Mapping[Any, Ratings],
    plan: Plan,
    *,
    executor: Executor | None = None,
    ledgers: str | PathLike[str] | None = None,
    new_ledgers: bool | None = None,
    rng: int | None = None,
    local: Local = "auto",
    strength: Strength = "auto",
    threads: int | None = None,
) -> Simulated:
    """Run both rounds of a federation in this process, or on an executor.

    Parameters
    ----------
    federation : Federation or mapping
        Label of each entity to its ratings. Labels may have any type; see `plan_name` for the names in messages. In a
        plan for people every user is an entity of their own, labelled (entity, user), under a key that serves once.
    plan : Plan
        Every public parameter. Without `ledgers` it must say ``simulation=True``.
    executor : concurrent.futures.Executor, optional
        Where the entities' work runs: a process pool, ``dask.distributed.Client(...).get_executor()``, or any other.
        By default threads of this process. The server's work is always done here.
    ledgers : path, optional
        Folder with one ledger per entity, each with room for this plan's one release. A second run returns the
        stored messages and spends nothing. An executor on another machine must see this folder.
    new_ledgers : bool, optional
        What to do if a ledger is missing, as in a wrong folder: by default create it and warn once, with the folder
        and the number; True creates it without a warning; False refuses before anyone draws.
    rng : int, optional
        Seed of the noise, for simulations only. Each entity's noise depends on this seed and its own name.
    local, strength
        As for `Entity.personalize`.
    threads : int, optional
        Threads in total, all processors by default; with an `executor`, threads of each task, 1 by default. Results
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
        Missing ledgers were created: these people's budget is doubled if they have others elsewhere.

    Privacy
    -------
    The caller holds everyone's data. With `ledgers`, the messages have real noise and are accounted for as in a real
    federation; everything made from a plan with ``simulation=True`` is marked not private.

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
    if plan.people:
        return _run_people(everyone, plan, rng=rng, accounted=ledgers is not None)
    names = plan_names(everyone)
    paths: Mapping[Any, Path | None] = dict.fromkeys(names)
    if ledgers is not None:
        paths = ledger_paths(ledgers, names, make=new_ledgers is not False)
    how = SimulationOptions(
        executor=executor, rng=rng, local=local, strength=strength, threads=threads,
        new_ledgers=new_ledgers,
    )  # fmt: skip
    return run_members(everyone, plan, names, paths, how)


def _run_people(federation: Federation, plan: Plan, *, rng: int | None, accounted: bool) -> Simulated:
    """Run both rounds with every user as an entity of their own."""
    from twofold.simulation.people import (  # loads the library of ciphers
        PeopleModels,
        check_people,
        people_exchange,
        people_plan,
    )

    people = sum(ratings.n_users for ratings in federation.values())
    check_people(plan, people, accounted=accounted)
    keyed, stores = people_plan(plan)
    seconds: dict[str, float] = {}
    with _phase("round 1", seconds, people) as done:
        published, sent = people_exchange(
            federation, keyed, stores, lambda name: None if rng is None else _seed(rng, name), done
        )
    factors = decode_factors(published, keyed)
    return Simulated(
        plan=keyed,
        factors=factors,
        published=published,
        models=PeopleModels(federation, keyed, factors),
        names=dict.fromkeys(sent, "person"),
        sent=sent,
        received=len(published),
        seconds=seconds,
    )


@dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """How a simulation runs; the parameters of `simulate` that say nothing about who takes part."""

    executor: Executor | None = None
    rng: int | None = None
    local: Local = "auto"
    strength: Strength = "auto"
    threads: int | None = None
    new_ledgers: bool | None = None


def run_members(
    federation: Federation,
    plan: Plan,
    names: Mapping[Any, str],
    ledgers: Mapping[Any, Path | None],
    how: SimulationOptions,
) -> Simulated:
    """Run both rounds once names and ledgers are known; see `simulate`. Called by the public functions."""
    seconds: dict[str, float] = {}
    with WorkerPool.of(how.executor, how.threads, len(federation)) as pool:
        members = _members(federation, plan, names, ledgers, how, pool.inner)
        settle_missing(ledgers.values(), how.new_ledgers)

        def each(phase: str, task: Callable[..., Any], jobs: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
            with _phase(phase, seconds, len(jobs)) as done:
                return run_each(task, jobs, executor=pool.executor, done=done)

        operators: list[KeyStore] = []
        if needs_keys(plan):
            plan, keys, operators = keyed_plan(plan, {names[label]: ledgers[label] for label in names})
            agreed = agreements_of(plan, keys)
            members = {
                name: replace(one, plan=plan, keys=keys[name], agreements=agreed) for name, one in members.items()
            }
        look = _coordinator(plan, operators, how, next((path for path in ledgers.values() if path is not None), None))
        published, sent = _exchange(plan, members, look, each, lambda: _phase("server", seconds, 1))
        *_, factors = published.values()
        jobs = {name: (member, factors, how.local, how.strength) for name, member in members.items()}
        models = each("round 2", personalized, jobs)
    return Simulated(
        plan=plan,
        factors=decode_factors(factors, plan),
        published=factors,
        models={label: models[names[label]] for label in federation},
        names=names,
        sent={label: sent[names[label]] for label in federation},
        received=sum(map(len, published.values())),
        seconds=seconds,
    )


#: How the work of the entities in each step is called.
_PHASES: Final = {
    StepId.AGREE: "agreement",
    StepId.ROUNDS: "round 1",
    StepId.KEYS: "keys",
    StepId.MASKED: "round 1",
    StepId.ANSWERS: "answers",
    StepId.REPORTS: "round 1",
}


def _coordinator(
    plan: Plan, operators: Sequence[KeyStore], how: SimulationOptions, ledger: Path | None
) -> Callable[[InProcess], CoordinationStatus]:
    """Give what runs between the steps of the entities: a server, or two operators until they have published."""
    threads = how.threads if how.executor is None else None
    if plan.operators is None:
        server = server_for(plan, threads=threads, signer=operators[0].signer if operators else None)
        state = MemoryState()
        return lambda box: coordinate(server, box, state=state, close=True)
    from twofold.server.operate import operate  # these load the library of ciphers
    from twofold.server.operator import Operator

    both = [
        Operator(
            plan,
            store,
            state=None if ledger is None else ledger.with_name(f"{store.identity.name}.{plan.hash[:16]}.operator"),
            rng=None if how.rng is None else _seed(how.rng, store.identity.name),
        )
        for store in operators
    ]

    def look(box: InProcess) -> CoordinationStatus:
        for _ in range(_EXCHANGES):
            seen = [operate(one, box, close=True) for one in both]
            if all(one.published for one in seen):
                break
        return seen[0]

    return look


def _exchange(
    plan: Plan,
    members: Mapping[str, Member],
    look: Callable[[InProcess], CoordinationStatus],
    each: Callable[[str, Callable[..., Any], Mapping[str, tuple[Any, ...]]], dict[str, Deed]],
    serving: Callable[[], AbstractContextManager[Callable[[int], object]]],
) -> tuple[dict[StepId, bytes], dict[str, int]]:
    """In each step let all entities act, then the server; return what it published and the bytes each sent.

    All messages are in the mailbox before the server looks: the plan may expect another number of entities.
    """
    steps, box = steps_of(plan), InProcess()
    published: dict[StepId, bytes | None] = {step.id: None for step in steps}
    submitted, sent = frozenset[StepId](), dict.fromkeys(members, 0)
    for step in steps:
        jobs = {name: (member, published, submitted) for name, member in members.items()}
        for name, deed in each(_PHASES[step.id], visit, jobs).items():
            assert isinstance(deed, Send), "all are waited for, so none is late"
            box.submit(deed.step, deed.data, entity=name)
            sent[name] += len(deed.data)
        with serving() if step is steps[-1] else nullcontext(_silent) as done:
            seen = look(box)
            done(1)
        if seen.refused:
            raise BadMessage("the server did not accept a message.", found=seen.refused[0].reason)
        published[step.id], submitted = box.published(step), submitted | {step.id}
    return {step: data for step, data in published.items() if data is not None}, sent


def _members(
    federation: Federation,
    plan: Plan,
    names: Mapping[Any, str],
    ledgers: Mapping[Any, Path | None],
    how: SimulationOptions,
    threads: int,
) -> dict[str, Member]:
    """All entities, checked before anyone draws; the largest first, so that none of them starts last."""
    if len(federation) < plan.quorum:
        raise TooFewMessages(
            "there are fewer entities than the plan's quorum; nothing was drawn.",
            found=f"{len(federation)} entities",
            expected=f"at least {plan.quorum}",
            parameter="quorum",
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


def _silent(*_: object) -> None:
    """Report nothing."""


@contextmanager
def _phase(name: str, seconds: dict[str, float], total: int) -> Iterator[Callable[[int], object]]:
    tell(name, 0, total)
    start = time.perf_counter()
    yield lambda done: tell(name, done, total)
    seconds[name] = time.perf_counter() - start


def refuse_what_is_not_real(plan: Plan, rng: object, *, accounted: bool) -> None:
    """Refuse a seed, or a release without a ledger, in a plan that is not a simulation."""
    if not isinstance(plan, Plan):
        raise BadPlan("not a plan.", found=f"a {type(plan).__name__}", fix='Plan.read("plan.toml")', parameter="plan")
    if rng is not None and (isinstance(rng, bool) or not isinstance(rng, int) or rng < 0):
        raise BadParameter(
            "{parameter} is not a seed.",
            found=f"a {type(rng).__name__}",
            expected="a whole number of at least 0",
            parameter="rng",
        )
    if plan.simulation:
        return
    if rng is not None:
        raise NotForRealUse(
            "repeatable noise protects nobody, and this plan is not a simulation; nothing was drawn.",
            fix="leave rng out, or Plan(..., simulation=True), which marks everything 'not private'",
            parameter="rng",
        )
    if not accounted:
        raise NotForRealUse(
            "this plan is not a simulation, and there are no ledgers to count what it spends; nothing was drawn.",
            fix='simulate(..., ledgers="ledgers"), or Plan(..., simulation=True), which marks everything "not private"',
            parameter="ledgers",
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Simulated:
    """Both rounds of a federation, with what they cost in bytes and seconds.

    Attributes
    ----------
    plan : Plan
        The public parameters.
    factors : ItemFactors
        What the server sent back.
    published : bytes
        The same as it left the server, signed if the plan has a roster.
    models : mapping
        Label of each entity, as in the federation, to its local model.
    names : mapping
        Label to the name that stood in the messages.
    sent : mapping
        Label to the bytes it sent in round 1; in a secure sum with its key messages.
    received : int
        Bytes every entity got back in round 2; in a secure sum with the lists before it.
    seconds : mapping
        Wall seconds of "round 1", "server" and "round 2"; in a secure sum also of "keys" and "answers".
    """

    plan: Plan
    factors: ItemFactors
    published: bytes
    models: Mapping[Any, Model]
    names: Mapping[Any, str]
    sent: Mapping[Any, int]
    received: int
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        promise = "" if self.private else ", not private"
        sent, total = sum(self.sent.values()), sum(self.seconds.values())
        return f"Simulated({len(self.models):,} entities, {sent:,} bytes sent, {total:.1f} s{promise})"

    @property
    def private(self) -> bool:
        """False for a simulation, for seeded noise and for a mechanism without a proof."""
        return self.factors.private

    @property
    def strengths(self) -> Mapping[Any, float]:
        """Pull of the shared factors on each entity's model, 0 for none; chosen inside the entity."""
        return {label: model.strength for label, model in self.models.items()}

    def model(self, entity: Any) -> Model:
        """Give the local model of one entity."""
        if entity not in self.models:
            raise DataError(
                "the entity does not exist.",
                found=f"{entity!r:.60}",
                expected=f"one of {len(self.models):,} labels",
                parameter="entity",
            )
        return self.models[entity]

    def recommend(self, entity: Any, user: Any, n: int = 10, **options: Any) -> list[Recommendation]:
        """Recommend to one user of one entity; `options` as for `Model.recommend`."""
        found: list[Recommendation] = self.model(entity).recommend(user, n, **options)
        return found


#: Letters of a label that stay readable in front of its digest.
_READABLE = 40


def plan_name(label: Hashable) -> str:
    """Name an entity by its label; the same label has the same name in every run, whatever the other labels are.

    Parameters
    ----------
    label : hashable
        How a table or a Federation calls the entity.

    Returns
    -------
    str
        The label's own text where a plan can hold it, else a readable part of it and a digest.

    Examples
    --------
    >>> plan_name("st-anna"), plan_name(73)
    ('st-anna', '73')
    >>> plan_name("St. Anna / Köln")
    'St.-Anna-K-ln-5d70727d'
    """
    text = str(label)
    if isinstance(label, str) or (isinstance(label, int) and not isinstance(label, bool)):
        try:
            return check_entity_name(text)
        except BadPlan:
            pass
    readable = re.sub("[^A-Za-z0-9_.]+", "-", text).strip("-._")[:_READABLE] or "entity"
    digest = hashlib.sha256(f"twofold entity 1 {type(label).__name__} {text}".encode("utf-8", "surrogatepass"))
    return check_entity_name(f"{readable}-{digest.hexdigest()[:8]}")


def plan_names(labels: Iterable[Any]) -> dict[Any, str]:
    """Name every entity; two labels that would share a name, or a file on some disks, are refused.

    Examples
    --------
    >>> plan_names(["north", "south", 3])
    {'north': 'north', 'south': 'south', 3: '3'}
    >>> plan_names(["North", "north"])
    Traceback (most recent call last):
    twofold.errors.BadIdentifier: two entities have names that a file system may confuse...
    """
    names = {label: plan_name(label) for label in labels}
    if len({name.casefold() for name in names.values()}) < len(names):
        raise BadIdentifier(
            "two entities have names that a file system may confuse.",
            expected="names that differ in more than capital letters and type",
            fix="rename one in the entity column: its ledger is a file of that name",
            parameter="entity",
        )
    return names
