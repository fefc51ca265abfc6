"""Walks: how many files one call crosses, and how often the plan, its parameters and its layout are made on the way.

*Files*: files of src/twofold in which a Python function ran. *Calls between files*: distinct pairs of files, caller ->
callee; the caller is the nearest frame of src/twofold, so a call through a dataclass, a context manager or a library
counts as the call it is. How often a pair is used depends on the data and is not counted. Module bodies do not count:
every walk runs once unmeasured, for imports and compiled kernels, and is then measured twice on fresh objects: with the
package's `functools` caches empty, as in the first call of a process, and again with the caches full. Threads are
followed; nothing runs in another process.

*Hashed* counts runs of the code behind `Plan.hash`, *written* runs of `Plan.canonical`; *most per plan* is the largest
number of hashes of one Plan object. A layout, parameters or a spec is *made* each time its `__init__` runs.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import inspect
import io
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import twofold as tw
from benchmarks.table import Table, versions

# Names that change come first; from SOURCE on only the public API is used.
#: Attributes of Plan: the hash, and the canonical text it is made of.
HASH, CANONICAL = "hash", "canonical"
#: Column of the table to the classes it counts, old names and new.
MADE = {"layouts": {"BilinearLayout"}, "parameters": {"Public", "ReleaseParameters"}}
MADE |= {"specs": {"Expected", "Leaving", "PublicNumbers", "ReleaseSpec"}}
#: Verbs of the command line: an entity's whole part, and the server's by its new or old name.
JOIN, COORDINATE = ("join",), ("coordinate", "collect")
#: Options that name the shared folder; the first that a verb offers are given.
FOLDER = ({"--folder"}, {"--inbox", "--outbox"})
#: Exit code of a verb that waits for others.
NOT_YET = 3


def release(entity: Any) -> Any:
    """Give the entity's one message."""
    return (entity.release if hasattr(entity, "release") else entity.prototypes)()


def simulator() -> Any:
    """Give the public function `simulate`; older versions have it in a package of the same name."""
    found = getattr(tw, "simulate", None)
    return found if callable(found) else importlib.import_module("twofold.simulate").simulate


def keyed(plan: Any, folder: Path) -> Any:
    """Give the same plan with everybody's keys in it, made here; all agree to it, and the agreements are beside it."""
    role = importlib.import_module("twofold.identity.keys").Role
    opened = importlib.import_module("twofold.identity.keystore").KeyStore
    roles = dict.fromkeys(NAMES, role.ENTITY) | {OPERATOR: role.OPERATOR}
    made = plan.with_(roster=tw.Roster(tw.new_keys(folder / f"{name}.keys", name, one) for name, one in roles.items()))
    stores = {name: opened(folder / f"{name}.keys") for name in roles}
    for store in stores.values():
        store.confirm(made.hash)
    signed = [tw.Agreements(made.hash, {name: store.agree(made.hash)}) for name, store in stores.items()]
    tw.Agreements.joined(signed).write(folder / "plan.agreed")
    return made


SOURCE = f"{Path(tw.__file__).parent}/"
COLUMNS = ("walk", "files", "calls between files", "hashed", "plans", "most per plan", "written", *MADE)


@dataclass(frozen=True, kw_only=True)
class Walk:
    """What one call crossed and made; `hashed` has one number per Plan object."""

    files: frozenset[str]
    calls: frozenset[tuple[str, str]]
    hashed: tuple[int, ...]
    written: int
    made: dict[str, int]

    @property
    def row(self) -> tuple[int, ...]:
        """The numbers under COLUMNS."""
        plans, most = len(self.hashed), max(self.hashed, default=0)
        return len(self.files), len(self.calls), sum(self.hashed), plans, most, self.written, *self.made.values()


class _Follower:
    """A profile function; it only adds and appends, which threads may do at the same time."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: set[tuple[str, str]] = set()
        self.hashed: list[object] = []  # the plans themselves, so that no number of an object is used twice
        self.written: list[None] = []
        self.made: list[str] = []
        self._hash, self._canonical = _code(HASH), _code(CANONICAL)
        self._columns = {name: column for column, names in MADE.items() for name in names}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code.co_name == "__init__":
            made = type(frame.f_locals.get("self"))
            if made.__name__ in self._columns and made.__module__.startswith("twofold."):
                self.made.append(self._columns[made.__name__])
        if not code.co_filename.startswith(SOURCE) or code.co_name == "<module>":
            return
        self.files.add(code.co_filename)
        if code is self._hash:
            self.hashed.append(frame.f_locals["self"])
        elif code is self._canonical:
            self.written.append(None)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.calls.add((caller.f_code.co_filename, code.co_filename))

    def walk(self) -> Walk:
        made = Counter(self.made)
        return Walk(
            files=frozenset(name.removeprefix(SOURCE) for name in self.files),
            calls=frozenset((one.removeprefix(SOURCE), other.removeprefix(SOURCE)) for one, other in self.calls),
            hashed=tuple(Counter(map(id, self.hashed)).values()),
            written=len(self.written),
            made={column: made[column] for column in MADE},
        )


def _code(name: str) -> CodeType:
    """The code behind an attribute of Plan: a method, a property, a cached one, or pydantic's wrapper of those."""
    found: Any = inspect.getattr_static(tw.Plan, name)
    for inner in ("wrapped", "fget", "func", "__code__"):
        found = getattr(found, inner, found)
    if not isinstance(found, CodeType):
        raise TypeError(f"Plan.{name} is no longer computed by a function: correct HASH and CANONICAL")
    return found


def _unknown() -> list[str]:
    """Columns of MADE none of whose classes exists any more, so that a zero under them means nothing."""
    names = {name for home, module in sys.modules.items() if home.startswith("twofold.") for name in vars(module)}
    return [column for column, classes in MADE.items() if not classes & names]


def follow(prepare: Callable[[], Any], job: Callable[[Any], object], *, cold: bool) -> Walk:
    """Measure `job` on what `prepare` makes; cold: as the first call of a process whose imports are done."""
    given, follower = prepare(), _Follower()
    if cold:  # caches kept in objects are empty already: the objects are new
        empty_caches()
    threading.setprofile(follower)
    sys.setprofile(follower)
    try:
        job(given)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return follower.walk()


def empty_caches() -> None:
    """Empty every `functools` cache of the package."""
    for one in gc.get_objects():
        if type(one) is functools._lru_cache_wrapper and getattr(one, "__module__", "").startswith("twofold."):
            one.cache_clear()


NAMES, OPERATOR = ("site-0", "site-1", "site-2"), "coordinator"
ITEMS = tuple(f"item-{number:02d}" for number in range(12))
PEOPLE = 40


class _Small:
    """Three entities with two kinds of people each, and a new folder for everything that is written."""

    def __init__(self, home: Path) -> None:
        self.home, self.catalog = home, tw.Catalog(ITEMS)
        (home / "items.csv").write_text("\n".join(("item", *ITEMS)) + "\n")
        for seed, name in enumerate(NAMES):
            (home / f"{name}.csv").write_text(_table(seed))

    def ratings(self, name: str) -> Any:
        columns: dict[str, Any] = {"user": "user", "item": "item", "value": "value"}
        return tw.read_ratings(self.home / f"{name}.csv", self.catalog, feedback="counts", **columns)

    def plan(self, **changes: Any) -> Any:
        fields: dict[str, Any] = {"catalog": self.catalog, "feedback": "counts", "bound": 5, "max_items": 4, "rank": 3}
        fields |= {"mechanism": "gram", "epsilon": 30, "n_users": PEOPLE, "n_entities": len(NAMES)}
        return tw.Plan(**(fields | changes))

    def folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.home))

    def entity(self, plan: Any, name: str = NAMES[0], **options: Any) -> Any:
        return tw.Entity(name, self.ratings(name), plan, **options)

    def ready(self, mechanism: str) -> Any:
        """An entity that has released nothing yet, with a path for its ledger."""
        place = self.folder()
        own = {"ledger": place / "ledger", "keys": place / f"{NAMES[0]}.keys", "agreements": place / "plan.agreed"}
        return self.entity(keyed(self.plan(mechanism=mechanism), place), **own)

    def messages(self, mechanism: str = "gram") -> tuple[Any, list[Any]]:
        """A server with a Plan object of its own, and what everybody sent to it."""
        plan, own = (self.plan(simulation=True, mechanism=mechanism) for _ in range(2))
        return tw.Server(own), [release(self.entity(plan, name, rng=seed)) for seed, name in enumerate(NAMES)]

    def answered(self) -> tuple[Any, Any]:
        """An entity, and the item factors that came back."""
        server, sent = self.messages()
        return self.entity(self.plan(simulation=True)), server.factorize(sent)

    def summed(self, *, published: bool = False) -> _Summed:
        """A federation by folder under a secure sum, before the server's last step, or after it."""
        done = _Summed(self, self.folder())
        for last in (False, False, True):
            for name in NAMES:
                done.join(name)
            if not last or published:
                done.coordinate(last=last)
        return done


class _Summed:
    """A secure sum by the command line, each verb as often as one likes."""

    def __init__(self, small: _Small, folder: Path) -> None:
        self._data, self._folder, self._box = small.home, folder, folder / "box"
        self._box.mkdir()
        keyed(small.plan(secure=tw.SecureSum(survivors=len(NAMES))), folder).write(folder / "plan.toml")

    def join(self, name: str = NAMES[0], *, last: bool = False) -> None:
        files = {f"--{ending}": self._folder / f"{name}.{ending}" for ending in ("ledger", "keys", "output")}
        files |= {"--data": self._data / f"{name}.csv", "--catalog": self._data / "items.csv"}
        self._run(JOIN, files, () if files["--ledger"].exists() else ("--new-ledger",), last=last)

    def coordinate(self, *, last: bool = False) -> None:
        own = {"--state": self._folder / "state", "--keys": self._folder / f"{OPERATOR}.keys"}
        self._run(COORDINATE, own, (), last=last)

    def _run(self, verbs: tuple[str, ...], options: dict[str, Path], flags: tuple[str, ...], *, last: bool) -> None:
        app = importlib.import_module("twofold.cli").app
        commands: Any = importlib.import_module("typer.main").get_command(app)
        verb = next(one for one in verbs if one in commands.commands)
        offered = {option for one in commands.commands[verb].params for option in one.opts}
        boxes = dict.fromkeys(next(one for one in FOLDER if one <= offered), self._box)
        given = {"--plan": self._folder / "plan.toml", **options, **boxes}
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(said):
            code = app([verb, *(str(part) for pair in given.items() for part in pair), *flags], standalone_mode=False)
        if (code or 0) != (0 if last else NOT_YET):
            raise RuntimeError(f"{verb} ended with {code}:\n{said.getvalue()}")


def _table(seed: int) -> str:
    rng, lines = np.random.default_rng(seed), ["user,item,value"]
    for person in range(PEOPLE):
        own = 6 * (person % 2) + rng.choice(6, 4, replace=False)
        lines += [f"p{person},{ITEMS[item]},{rng.integers(1, 6)}" for item in own]
    return "\n".join(lines) + "\n"


def _walks(small: _Small) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], object]]]:
    """Name of each walk, what it starts from, and the call."""
    federation = {name: small.ratings(name) for name in NAMES}
    secure = tw.SecureSum(survivors=len(NAMES))  # simulate makes the keys
    simulate = simulator()

    def personalize(given: tuple[Any, Any]) -> Any:
        return given[0].personalize(given[1])

    def simulated(plan: Any) -> object:
        return simulate(federation, plan, ledgers=small.folder(), new_ledgers=True, threads=2)

    for mechanism in ("gram", "balcan"):
        yield f"release, {mechanism}", functools.partial(small.ready, mechanism), release
    yield "coordinate, last step", small.summed, lambda summed: summed.coordinate(last=True)
    yield "join, last step", functools.partial(small.summed, published=True), lambda summed: summed.join(last=True)
    yield "coordinate, then join", small.summed, lambda summed: (summed.coordinate(last=True), summed.join(last=True))
    for mechanism in ("gram", "balcan"):
        yield f"factorize, {mechanism}", functools.partial(small.messages, mechanism), lambda x: x[0].factorize(x[1])
    yield "personalize", small.answered, personalize
    yield "recommend", lambda: personalize(small.answered()), lambda model: model.recommend({ITEMS[1]: 3}, n=3)
    yield "simulate", small.plan, simulated
    yield "simulate, secure sum", functools.partial(small.plan, secure=secure), simulated


def run(*, quick: bool) -> list[Table]:
    """Follow every walk: the first call of a process, and again with full caches (quick: the first only)."""
    titles = {True: "Walks, first call of a process", False: "Walks, again with full caches"}
    rows: dict[bool, list[tuple[object, ...]]] = {cold: [] for cold in titles if cold or not quick}
    with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # new ledgers, which are meant here
        for name, prepare, job in _walks(_Small(Path(home))):
            job(prepare())
            for cold, found in rows.items():
                found.append((name, *follow(prepare, job, cold=cold).row))
    note = f"{len(NAMES)} entities of {PEOPLE} people, {len(ITEMS)} items. {versions('twofold')}."
    note += "".join(f" No class for {column}: correct MADE." for column in _unknown())
    return [Table(title=titles[cold], columns=COLUMNS, rows=found, note=note) for cold, found in rows.items()]
