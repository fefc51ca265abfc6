"""Golden master: record every number of small federations, and compare another version of the code with them.

    python -m studies same record before.json      # with the old code
    python -m studies same compare before.json     # with the new code: exit code 1 if any number differs

Everything is compared to the last bit, so use one machine and the same libraries. All noise is repeatable: seeds in
simulations and, for real releases, a fixed answer of ``os.urandom``, from which the ledger takes its key. What depends
on names is in the section "Names", the rest uses the public API. Not compared: prose, times, masked bytes, keys.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache, cached_property, partial
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import polars as pl

import twofold as tw

Record = dict[str, Any]
Figures = dict[str, Callable[[], Any]]

#: Differences that are meant: "row: column.path" with wildcards, and the reason. Shown as "expected", never hidden.
EXPECTED: Final[dict[str, str]] = {
    "core *: spec.sulq explain.*": "plan explain uses the mechanism's own noise, and shows ε = 0.3 as well",
}
ITEMS: Final = [f"item-{number:02}" for number in range(30)]
PRIVATE: Final = ("balcan", "sulq", "buckets", "popularity", "gram", "sketch", "features", "auto")
DELTAS: Final = (Fraction(0), Fraction(1, 1_000_000))
#: Other public numbers, and the mechanisms that go another way because of them.
VARIANTS: Final[dict[str, tuple[Record, tuple[str, ...]]]] = {
    "": ({}, (*PRIVATE, "exact", "kmeans", "random")),
    "secure": ({}, ("gram", "sketch", "features", "auto", "popularity")),  # the last is refused
    "eps 1": ({"epsilon": 1}, PRIVATE),  # fallbacks, and cards whose best guess is not all but certain
    "secure eps 1": ({"epsilon": 1}, ("gram",)),
    "eps 8": ({"epsilon": 8}, ("balcan",)),
    "caps": ({"l1_cap": 12.0, "l2_cap": 5.0, "seed": 7, "regularization": 0.2}, ("sulq", "gram", "features")),
    "table": ({"features": True}, ("gram", "sulq")),
    "no table": ({"features": False}, ("auto",)),
    "12 items": ({"catalog": tw.Catalog(ITEMS[:12]), "features": False}, ("auto",)),  # too few for pairs: clusters
}
USERS: Final = {"north": 40, "south": 60, "east": 25, "west": 8}
#: Public features: the three groups that people like, and two columns of chance.
TABLE: Final = np.hstack([np.arange(30)[:, None] % 3 == np.arange(3), np.random.default_rng(9).random((30, 2)) < 0.4])
#: Fields of a message that are prose, a version, random, or recorded elsewhere.
_SILENT: Final = ("schema", "software", "checksum", "signature", "note", "plan", "plan_hash", "present")


# --- Names: all that depends on what things are called ---------------------------------------------------------------


def load(path: str) -> Any:
    """Give an object by the place where it is found, "module:name"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


class Names:
    """Names that both layouts share."""

    measure = "twofold.evaluation.measure:measure"
    ledger = "twofold.privacy.ledger:Ledger"
    card = "twofold.privacy.card:card_from_ledger"
    commands = (("plan", "show"), ("plan", "explain"))

    def fix_version(self, version: str = "0") -> None:
        """Let messages and ledgers name one version, whatever the code's is; called before anything is loaded."""
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "twofold" and hasattr(module, "__version__"):
                vars(module)["__version__"] = version

    def secure_rounds(
        self, plan: tw.Plan, entities: Sequence[tw.Entity], draw: Callable[..., Any], **operator: Any
    ) -> Any:
        """Run a secure sum; give the masked messages, the unmasked total and the item factors."""
        server = tw.SecureServer(plan, **operator)
        list_of = getattr(server, "participants", None) or server.roll  # type: ignore[attr-defined]
        roll = list_of([one.share() for one in entities])
        sent = [draw(one, roll) for one in entities]
        data = [one.data for one in sent]
        word = "participants" if hasattr(server, "participants") else "roll"
        lists: Any = {word: roll, "survivors": server.survivors(data, roll)}
        answers = [one.answer(lists["survivors"], roll) for one in entities]
        return sent, server.total(data, answers, **lists).numbers, server.factorize(data, answers, **lists)


class Old(Names):
    """Names at commit af8aab4."""

    release = "prototypes"  # gives the message, which has `entity`, `content` and, its bytes, `data`
    simulate = "twofold.simulate:simulate"
    encode_factors = "twofold.protocol.messages:encode_factors"
    event = staticmethod(lambda plan, seeded: plan.release_mechanism.price(plan.parameters, seeded=seeded))

    def spec(self, plan: Any, content: Any) -> Figures:
        """Everything that public numbers decide about a release, one function per figure; `content` is a message's."""
        left = load("twofold.protocol.leaving:leaving")(plan).as_dict()
        wanted = load("twofold.protocol.expected:expected")(plan)
        same = ("mechanism", "private", "arrays", "bytes", "most_bytes", "units", "noise", "alone", "honest")
        for name in ("units", "noise") if plan.feedback == "counts" else ():
            left[name].pop("observed")  # counts have no such part
        twice = partial(plan.release_mechanism.combine, [content, content], plan.parameters)
        return {name: partial(left.get, name) for name in same} | {
            "most_rows": lambda: wanted.most_rows,
            "most_bytes_back": lambda: load("twofold.protocol.messages:factors_limit")(plan),
            "stacks": lambda: not wanted.length and twice().n_rows > content.n_prototypes,
            "deviation": lambda: wanted.deviation if wanted.length else None,
            "modulus_bits": lambda: load("twofold.protocol.terms:modulus_bits")(plan) if plan.secure else None,
        }


class New(Names):
    """Names of the second edition, as of b2b1cc9: adjust here and nowhere else. Figures must be those of `Old`."""

    release = "release"
    simulate = "twofold.simulation:simulate"
    encode_factors = "twofold.federation.factors:encode_factors"
    event = staticmethod(lambda plan, seeded: plan.spec.event_for(seeded=seeded))

    def spec(self, plan: Any, content: Any) -> Figures:  # noqa: ARG002
        """All that public numbers decide about a release, a function per figure, named and scaled as in `Old`."""
        spec, secure = plan.spec, plan.secure is not None
        parts = ("values", "counts") if plan.feedback == "counts" else ("values", "observed", "counts")
        shapes = None if spec.numbers is None else {one.name: one.shape for one in spec.arrays}
        alone = spec.sum.alone_epsilon if secure else None
        return {
            "mechanism": lambda: spec.mechanism,
            "private": lambda: spec.private,
            "arrays": lambda: shapes,  # without masks
            "bytes": lambda: load("twofold.federation.messages:array_bytes")(plan) if shapes else None,
            "most_bytes": lambda: load("twofold.federation.messages:message_limit")(plan),
            "units": lambda: {name: getattr(spec.units, name) for name in parts},
            "noise": lambda: {name: getattr(spec.noise, name) for name in ("law", *parts)},
            "alone": lambda: "infinite" if alone == math.inf else alone,
            "honest": lambda: plan.parameters.honest,
            "most_rows": lambda: spec.most_rows,
            "most_bytes_back": lambda: load("twofold.federation.factors:factors_limit")(plan),
            "stacks": lambda: spec.stacks,
            "deviation": lambda: spec.sum.deviation if spec.sum else None,  # in steps of the grid
            "modulus_bits": lambda: load("twofold.federation.messages:modulus_bits")(plan) if secure else None,
        }


SIDE: Final[Any] = New() if hasattr(tw.Entity, "release") else Old()


@cache
def entries(name: str, feedback: str, n_items: int) -> pl.DataFrame:
    """One entity's entries, some of them out of bounds, some people with more items than the plan allows."""
    users, rng = USERS[name], np.random.default_rng([USERS[name], n_items, feedback == "ratings"])
    likes = np.arange(n_items) % 3 == rng.integers(3, size=users)[:, None]
    counts = rng.poisson(np.where(likes, 2.2, 0.2) * rng.gamma(2.0, 0.5, (users, 1)))
    rated = np.round(2 * (np.where(likes, 4.2, 2.0) + rng.normal(0, 0.8, (users, n_items))).clip(0.5, 6)) / 2
    values = counts.astype(float) if feedback == "counts" else rated
    rows, columns = np.nonzero(counts if feedback == "counts" else rng.random((users, n_items)) < 0.3)
    ids = {"user": [f"{name}-{row:02}" for row in rows], "item": [ITEMS[column] for column in columns]}
    return pl.DataFrame({"entity": [name] * rows.size, **ids, "value": values[rows, columns]})


@cache
def split(feedback: Any, n_items: int) -> Any:
    """Train and test of all entities."""
    how: Any = {"user": "user", "item": "item", "value": "value", "feedback": feedback}
    catalog = tw.Catalog(ITEMS[:n_items])
    ratings = {name: tw.read_ratings(entries(name, feedback, n_items), catalog, **how) for name in USERS}
    return tw.holdout(tw.Federation(ratings), users=0.5, entries=3, rng=0)


def make_plan(mechanism: str, feedback: str, delta: Fraction = DELTAS[1], variant: str = "") -> tw.Plan:
    """The public numbers of a row; a secure sum still without keys."""
    given: Record = {"feedback": feedback, "mechanism": mechanism, "delta": delta, "epsilon": 40, "simulation": True}
    given |= {"bound": 5, "lower": 0 if feedback == "counts" else 1, "max_items": 8, "n_prototypes": 4, "rank": 4}
    given |= {"n_users": 40, "n_entities": len(USERS), "name": "golden", "seed": 3, "catalog": tw.Catalog(ITEMS)}
    given |= {"features": mechanism in ("features", "auto"), **VARIANTS[variant][0]}
    table = tw.Features(matrix=TABLE.astype(np.int64), names=tuple("abcde"))
    given |= {"features": table if given["features"] else None}
    return tw.Plan(**given, secure=tw.SecureSum(survivors=4) if "secure" in variant else None)


class Run:
    """The federation of one row, each part made when it is first asked for."""

    def __init__(self, folder: Path, *case: Any) -> None:
        self.folder, self.feedback, self.step, self.secure = folder, case[1], 3 if case[3] else 1, "secure" in case[3]
        self.operators: dict[str, Record] = {}  # hash of the plan to the key of its server
        self.open_plan = make_plan(*case)  # a secure sum has no keys yet
        self.split = split(self.feedback, self.open_plan.n_items)
        self.plan, self.entities = self._wired(self.open_plan, "seeded", seeded=True)

    @cached_property
    def drawn(self) -> Any:
        """Messages, unmasked total (None without a secure sum) and item factors of the simulation."""
        return self._drawn(self.plan, self.entities)

    @cached_property
    def models(self) -> dict[str, tw.Model]:
        """Everybody's local model; for variants of two entities, to save time."""
        return {one.name: one.personalize(self.drawn[2], threads=1) for one in self.entities[:: self.step]}

    def _wired(self, plan: Any, where: str, *, seeded: bool) -> tuple[tw.Plan, list[tw.Entity]]:
        """Make the entities, with ledgers and agreements if they are real; with new keys, good for one plan."""
        home = self.folder / where
        home.mkdir(parents=True, exist_ok=True)
        own: Record = {name: {"rng": users if seeded else None} for name, users in USERS.items()}
        books = {name: home / f"{name}.ledger" if where == "real" else None for name in USERS}
        if self.secure or not plan.simulation:
            plan, agreements = self._enrolled(plan, home)
            more = {} if plan.simulation else {"agreements": agreements}
            own = {name: given | more | {"keys": home / f"{name}.keys"} for name, given in own.items()}
        return plan, [tw.Entity(name, self.split.train[name], plan, ledger=books[name], **own[name]) for name in own]

    def _enrolled(self, plan: Any, home: Path) -> tuple[tw.Plan, tw.Agreements]:
        """Everybody's keys and agreements."""
        role, opened_keys = load("twofold.identity.keys:Role"), load("twofold.identity.keystore:KeyStore")
        roles = dict.fromkeys(USERS, role.ENTITY) | {"coordinator": role.OPERATOR}
        roster = tw.Roster(tw.new_keys(home / f"{name}.keys", name, one) for name, one in roles.items())
        keyed = plan.with_(entities=tuple(USERS), roster=roster)
        stores = {name: opened_keys(home / f"{name}.keys") for name in roles}
        for store in stores.values():
            store.confirm(keyed.hash)
        self.operators[keyed.hash] = {"signer": stores["coordinator"].signer}
        signed = (tw.Agreements.signed(keyed, store.signer, name) for name, store in stores.items())
        return keyed, tw.Agreements.joined(signed)

    def _drawn(self, plan: tw.Plan, entities: Sequence[tw.Entity]) -> Any:
        def draw(entity: tw.Entity, *roll: bytes) -> Any:
            with mock.patch("os.urandom", lambda size: hashlib.shake_256(entity.name.encode()).digest(size)):
                return getattr(entity, SIDE.release)(*roll)

        if self.secure:
            return SIDE.secure_rounds(plan, entities, draw, **self.operators[plan.hash])
        sent = [draw(one) for one in entities]
        return sent, None, tw.Server(plan, threads=1).factorize([one.data for one in sent])

    @cached_property
    def account(self) -> tuple[Record, Record]:
        """Releases through ledgers whose keys are fixed, what was spent, and the card; seeds where noise is refused."""
        asked = attempt(lambda: self.open_plan.with_(simulation=False).hash)
        refused = "refused" in asked
        plan, entities = self._wired(self.open_plan.with_(simulation=refused), "real", seeded=refused)
        sent, total, factors = self._drawn(plan, entities if self.secure else entities[:1])
        book = load(SIDE.ledger)(self.folder / "real" / f"{entities[0].name}.ledger")
        found = {"plan": asked, "message": opened(sent[0].data, masked=self.secure), "total": array(total)}
        found |= {"factors": factor_arrays(factors), "state": numbers(book.state().as_dict())}
        return found, numbers(load(SIDE.card)(book).as_dict())

    def columns(self) -> Figures:
        """A function for every column, in the order of the flow."""
        found: Figures = {
            "plan": lambda: {"hash": self.open_plan.hash, "record": json.loads(self.open_plan.canonical())},
            "event": lambda: [SIDE.event(self.plan, seeded).as_dict() for seeded in (False, True)],
            "spec": lambda: {at: attempt(one) for at, one in SIDE.spec(self.plan, self.drawn[0][0].content).items()},
            "bytes": partial(self.messages, ("size", "sha256")),
            "arrays": partial(self.messages, ("record", "arrays")),
        }
        found |= {"factors": self.factors, "models": self.fitted, "lists": self.lists, "metrics": self.metrics}
        return found | {"simulate": self.simulated, "ledger": lambda: self.account[0], "card": lambda: self.account[1]}

    def messages(self, parts: Sequence[str]) -> Record:
        """Everybody's message: to the last byte, or the numbers in it; of a secure sum the unmasked total."""
        found = {one.entity: opened(one.data, masked=self.secure) for one in self.drawn[0]}
        return {name: {at: one[at] for at in parts} for name, one in found.items()} | {"total": array(self.drawn[1])}

    def factors(self) -> Record:
        """What the server makes of the messages, at once and in passes, and what it sends back."""
        sent, _, factors = self.drawn
        back = opened(load(SIDE.encode_factors)(factors, self.plan, **self.operators.get(self.plan.hash, {})))
        found = {"at once": factor_arrays(factors), "sent back": back["arrays"]}
        for name, some in () if self.secure else (("in passes", sent), ("one in passes", sent[:1])):
            server = tw.Server(self.plan, memory_limit=2_000, threads=1)
            found[name] = factor_arrays(server.factorize([one.data for one in some]))
        return found

    def fitted(self) -> Record:
        """Local models as validation chose them, with its figures, and one of every kind by order."""
        kinds = ("factors", "item-item", "patterns", "features")
        fit = partial(self.entities[0].personalize, self.drawn[2], threads=1)
        every = [partial(fit, local=kind, strength=strength) for kind in kinds for strength in ("own", 20.0, "shared")]
        found = {"{local} {strength}".format(**one.keywords): attempt(lambda one: scorer(one()), one) for one in every}
        return found | {name: scorer(model) for name, model in self.models.items()}

    def lists(self) -> Record:
        """Top 10 with scores for a user, a basket and a stranger; reasons, likeness, and everybody's lists."""
        found: Record = {}
        for name, model in self.models.items():
            user = entries(name, self.feedback, self.open_plan.n_items)["user"].unique(maintain_order=True)[3]
            asked = {"user": user, "basket": {"item-01": 4, "item-05": 2}, "stranger": {}}
            found[name] = {who: [[*pair] for pair in model.recommend(one, 10)] for who, one in asked.items()}
            told, everybody = model.explain(user, "item-02"), model.recommend_all(n=5, threads=1)
            found[f"{name} explained"] = [told.score, told.rest, *([*one] for one in told.reasons)]
            found[f"{name} similar"] = [[*pair] for pair in model.similar_items("item-04", 5)]
            found[f"{name} everybody"] = sha(repr(everybody.rows()).encode())
        return found

    def metrics(self) -> Record:
        """Every metric of every entity on what was held out."""
        found: Record = {}
        measure = partial(load(SIDE.measure), lower=self.plan.lower, bound=5.0, feedback=self.feedback, n=10)
        for name, model in self.models.items():
            result = measure(model.scorer.scores, model.history.matrix, self.split.test[name].matrix)
            found[name] = {metric: result.overall(metric) for metric in result.metrics}
        return found

    def simulated(self) -> Record:
        """Both rounds by one call: its own seeds, bytes both ways."""
        train, how = self.split.train, {"rng": 5, "threads": 1, "local": "factors", "strength": "shared"}
        done = load(SIDE.simulate)(train, self.open_plan, **how)
        found: Record = {"factors": factor_arrays(done.factors), "sent": dict(done.sent), "received": done.received}
        return found | {"models": {name: scorer(model) for name, model in done.models.items()}}


def core(feedback: Any, folder: Path) -> Figures:
    """The numeric core, the estimator, and what commands print; in the columns where such numbers are."""
    rows = split(feedback, 30).train.pooled().matrix
    frame = pl.concat([entries(name, feedback, 30) for name in USERS])

    def arrays() -> Record:
        U, V = tw.masked_nmf(rows, 3, feedback=feedback, rng=0, threads=1)
        best, means = tw.top_items(U, V, 5, exclude=rows, threads=1), tw.kmeans(rows, 4, rng=0, threads=1)
        folded = tw.fold_in(rows, V, feedback=feedback, threads=1)
        fitted = tw.FederatedRecommender(make_plan("gram", feedback), rng=1, threads=1).fit(frame[::2])
        several: Record = {"U": U, "V": V, "folded": folded, "centers": means.centers, "top": best.items}
        several |= {"best": best.scores, "predicted": fitted.predict(frame), "score": fitted.score(frame[1::2])}
        return {name: array(one) for name, one in several.items()}

    def printed() -> Record:
        found: Record = {}
        for mechanism, words in [(one, words) for one in ("gram", "sulq") for words in SIDE.commands]:
            path = folder / f"{feedback} {mechanism}.toml"
            make_plan(mechanism, feedback).write(path)
            command = [sys.executable, "-m", "twofold", *words, str(path), "--json"]
            found[f"{mechanism} {words[-1]}"] = numbers(json.loads(subprocess.check_output(command)))
        return found

    return {"factors": arrays, "spec": printed}


def sha(data: bytes) -> str:
    """SHA-256 as text."""
    return hashlib.sha256(data).hexdigest()


def array(values: Any) -> Record:
    """Hash of every bit of an array, and a few of its numbers for people to look at."""
    given = np.ascontiguousarray([] if values is None else values)
    some = given.ravel()[:: max(1, given.size // 3)][:4].tolist()
    return {"dtype": given.dtype.str, "shape": list(given.shape), "sha256": sha(given.tobytes()), "some": some}


def factor_arrays(factors: Any) -> Record:
    """All numbers of item factors; their own hash has the plan's in it, which random keys change."""
    names = ("factors", "moments", "means", "support", "patterns", "strengths", "squares")
    figures = {name: getattr(factors, name) for name in ("users", "entities", "private")}
    return figures | {name: array(getattr(factors, name)) for name in names}


def scorer(model: Any) -> Record:
    """A local model: kind, strength, private or not, the figures by which it was chosen, settings, arrays."""
    table = [{at: row[at] for at in row if at != "remark"} for row in model.validation]
    found = {"kind": model.scorer.kind, "strength": model.strength, "private": model.private, "validation": table}
    arrays = {name: array(one) for name, one in model.scorer.arrays().items()}
    return found | {"settings": numbers(model.scorer.settings()), "arrays": arrays}


def opened(data: bytes, *, masked: bool = False) -> Record:
    """What a message holds, read from its bytes (safetensors) without any code of ours; under masks only its form."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    read = json.loads(header.pop("__metadata__")["twofold"])
    for one in header.values():
        first, last = one.pop("data_offsets")
        one["sha256"] = "masked" if masked else sha(data[start + first : start + last])
    found = {"size": len(data), "sha256": "masked" if masked else sha(data), "arrays": header}
    return found | {"record": {name: value for name, value in read.items() if name not in _SILENT}}


def leaves(value: Any, path: str = "") -> Record:
    """Every single value of a record by its path, as JSON holds it, without a loss."""
    if isinstance(value, Mapping | list | tuple) and len(value):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        return {at: leaf for key, one in inner for at, leaf in leaves(one, f"{path}.{key}".lstrip(".")).items()}
    value = value.item() if isinstance(value, np.generic) else value
    exact = value is None or isinstance(value, int | str) or (isinstance(value, float) and math.isfinite(value))
    return {path: value if exact else str(value)}


def numbers(given: Any) -> Record:
    """Numbers, truth values and infinities of a record by path; prose, hashes and times are left out."""
    return {at: one for at, one in leaves(given).items() if not isinstance(one, str) or one == "infinite"}


def attempt(work: Callable[..., Any], *given: Any) -> Record:
    """Give all values; what twofold refuses by its type, anything else as a failure, which never counts as the same."""
    try:
        return leaves(work(*given))
    except tw.TwofoldError as error:
        return {"refused": type(error).__name__}
    except Exception as error:
        return {"FAILED": f"{type(error).__name__}: {error}"}


def record() -> Record:
    """Run everything."""
    SIDE.fix_version()
    warnings.simplefilter("ignore")
    every = [(one, what) for what, (_, several) in VARIANTS.items() for one in several]
    cases = [(one, back, delta, what) for one, what in every for back in ("counts", "ratings") for delta in DELTAS]
    rows: Record = {}
    with tempfile.TemporaryDirectory(prefix="same-") as parent:
        for number, (one, back, delta, what) in enumerate(cases):
            label = f"{one} {back} delta {float(delta):g} {what}".strip()
            case = (Path(parent, str(number)), one, back, delta, what)
            made = attempt(Run, *case)
            columns = Run(*case).columns() if "" in made else {}
            rows[label] = {at: attempt(one) for at, one in columns.items()} or {"plan": made}
        for back in ("counts", "ratings"):
            rows[f"core {back}"] = {at: attempt(one) for at, one in core(back, Path(parent)).items()}
    versions = [f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "numba", "polars")]
    versions += [f"python {platform.python_version()}, {platform.machine()}"]
    return {"code": tw.__file__, "made_with": ", ".join(versions), "rows": rows}


def plant(rows: Record, column: str) -> str:
    """Change the last bit of a column's first number or, where none has a point, something else; say where."""
    every = [(label, at, value) for label, row in rows.items() for at, value in row.get(column, {}).items()]
    label, at, value = next(one for kind in (float, int, str) for one in every if type(one[2]) is kind)
    rows[label][column][at] = math.nextafter(value, math.inf) if isinstance(value, float) else f"{value}!"
    return f"{label}: {column}.{at}"


def compare(before: Record, after: Record) -> int:
    """Print the table, then a sample of what differs; give the number of rows that differ without a declared reason."""
    columns = [*dict.fromkeys(at for side in (before, after) for row in side.values() for at in row)]
    shown, details, reasons = [["", *columns]], [""], set[str]()
    for label in dict.fromkeys([*before, *after]):
        shown.append([label])
        for column in columns:
            old, new = (side.get(label, {}).get(column, {}) for side in (before, after))
            word, lines = verdict(f"{label}: {column}", old, new, reasons)
            shown[-1].append(word)
            details += [*lines[:: len(lines) // 8 + 1], *([f"    {len(lines)} in all"] if len(lines) > 7 else [])]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        print("  ".join(map(str.ljust, row, widths)).rstrip())
    print(*details, *(f"expected: {one}" for one in sorted(reasons)), sep="\n")
    return sum("DIFFERENT" in row or "FAILED" in row for row in shown)


def verdict(where: str, old: Record, new: Record, reasons: set[str]) -> tuple[str, list[str]]:
    """Say same, refused, expected, DIFFERENT or FAILED, and what differs."""
    absent, lines, changed = "nothing", [], False
    for at in dict.fromkeys([*old, *new]):
        one, two = old.get(at, absent), new.get(at, absent)
        if one == two and not at.endswith("FAILED"):
            continue
        changed = True
        meant = [why for pattern, why in EXPECTED.items() if fnmatchcase(f"{where}.{at}", pattern)]
        reasons.update(meant)
        apart = f" ({(two - one) / abs(one):+.1e})" if isinstance(one, float) and isinstance(two, float) and one else ""
        lines += [] if meant else [f"  {where}.{at}: {one!s:.90} -> {two!s:.90}{apart}"]
    if lines:
        return ("FAILED" if any(at.endswith("FAILED") for at in (*old, *new)) else "DIFFERENT"), lines
    return ("expected" if changed else "refused" if "refused" in old else "same" if old else "-"), []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``record FILE`` or ``compare FILE`` in a separate process with one thread; return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="same", description="Record every number, or compare with a record.")
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--with", dest="other", type=Path, help="a second record; by default everything is run now")
    parser.add_argument("--plant", nargs="?", const="factors", metavar="COLUMN", help="change one number: must fail")
    options = parser.parse_args(given)
    if "SAME_NUMBERS" not in os.environ:  # threads are counted and versions copied at import, so begin anew
        single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        paths = [str(Path(__file__).resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | single | {"SAME_NUMBERS": "1", "PYTHONPATH": os.pathsep.join(paths)}
        return subprocess.run([sys.executable, "-P", __file__, *given], env=environment, check=False).returncode
    if options.what == "record":
        found = record()
        options.file.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")
        every = [(f"{of}.{at}", one) for row in found["rows"].values() for of in row for at, one in row[of].items()]
        ends = Counter(f"{at} {one}" for at, one in every if at.endswith(("refused", "FAILED")))
        print(*(f"{count} x {what}" for what, count in ends.items()), f"{len(found['rows'])} rows recorded", sep="\n")
        return 1 if any("FAILED" in what for what in ends) else 0
    before = json.loads(options.file.read_text())
    after = json.loads(options.other.read_text()) if options.other else record()
    print(*(f"{side['code']} ({side['made_with']})" for side in (before, after)), sep="\n")
    if options.plant and not any(options.plant in row for row in before["rows"].values()):
        parser.error("the column does not exist")
    if options.plant:
        print(f"planted: {plant(before['rows'], options.plant)}")
    wrong = compare(before["rows"], after["rows"])
    print(f"{wrong} of {len(after['rows'])} rows differ" if wrong else "everything is the same")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
