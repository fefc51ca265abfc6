"""Who may take part, by the command line alone: a stranger who writes into the shared folder changes nothing.

Audit H1 and H2: before there were identities, anyone who could write into the folder could pose as an entity or as the
server, and the writer of a plan could invent the other participants without anybody noticing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.refused import check_refusal
from twofold.cli import app
from twofold.errors import BadPlan, NotReady, PlanMismatch
from twofold.federation.agreement import plan_words
from twofold.federation.factors import encode_factors
from twofold.federation.plan import Plan
from twofold.identity.keys import Identity
from twofold.identity.keystore import KeyStore
from twofold.privacy.ledger import Ledger
from twofold.server.factorize import Server
from twofold.storage.container import open_container, pack_sealed, receipt, unpack
from twofold.storage.signing import SigningKey

pytestmark = pytest.mark.long

NAMES = ("anna", "bern", "clara")
EVERYBODY = (*NAMES, "coordinator")
ITEMS = [f"item-{number}" for number in range(8)]
NUMBERS = "--catalog items.csv --mechanism gram --n-users 25 --epsilon 20 --rank 2 --max-items 4"
COLLECT = "coordinate --plan plan.toml --inbox box --outbox box --state state --keys coordinator.keys"
SECURE = "--secure peers"


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str, *codes: int) -> str:
    result = ask(line)
    assert result.exit_code in (codes or (0,)), (line, result.output, result.exception)
    return result.output


def join(name: str, more: str = "", plan: str = "plan.toml") -> str:
    files = f"--data {name}.csv --ledger {name}.ledger --new-ledger --outbox box --inbox box -o {name}.model"
    return f"join --plan {plan} {files} --keys {name}.keys {more}"


def public(*names: str) -> str:
    return " ".join(f"--public-key {name}.pub" for name in names)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tables(tmp_path)
    return tmp_path


def tables(folder: Path) -> None:
    (folder / "box").mkdir()
    pl.DataFrame({"item": ITEMS}).write_csv(folder / "items.csv")
    for seed, name in enumerate(NAMES):
        rng = np.random.default_rng(seed)
        users, items = np.nonzero(rng.random((25, 8)) < 0.4)
        frame = {"user": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 6, users.size)}
        pl.DataFrame(frame).write_csv(folder / f"{name}.csv")


def enrol(more: str = "") -> Plan:
    """Make keys, write the plan and agree to it, each by its own command."""
    for name in NAMES:
        call(f"keys new --entity {name} --keys {name}.keys -o {name}.pub")
    call("keys new --operator coordinator --keys coordinator.keys -o coordinator.pub")
    call(f"plan new plan.toml {NUMBERS} {public(*EVERYBODY)} {more}")
    for name in EVERYBODY:
        call(f"plan agree plan.toml --keys {name}.keys")
    return Plan.read("plan.toml")


class Stranger:
    """Someone who can write into the folder and reads everything in it, with keys of their own.

    Before the federation starts, they run one of their own under the same names, and so have files of every kind.
    """

    def __init__(self, home: Path, more: str) -> None:
        self.key, self.planted = SigningKey.new(), set[Path]()
        here = Path.cwd()
        home.mkdir()
        os.chdir(home)
        try:
            tables(home)
            enrol(f"{more} --name stranger")
            run(more)
        finally:
            os.chdir(here)
        self.own = [path.read_bytes() for path in sorted((home / "box").iterdir())]

    def plant(self, box: Path) -> None:
        """Forge every file there is, in every way, under new and under swapped names."""
        forged = list(self.own)
        found = [path for path in sorted(box.iterdir()) if path not in self.planted]
        for path in found:
            data = path.read_bytes()
            forged += [data, data[: len(data) // 2], *self.forged(data)]
        for number, data in enumerate(forged):
            for name in (f"0-{number}", f"anna.{receipt(data)[:16]}.round1", f"federation.{receipt(data)[:16]}.agreed"):
                if not (box / name).exists():
                    (box / name).write_bytes(data)
                    self.planted.add(box / name)

    def plant_copies(self, box: Path, plan: Plan) -> None:
        """Take the names under which the server keeps its own copies of what it publishes."""
        for step in ("", "agree.", "keys.", "masked.", "answers."):
            path = box / f".{plan.name}.{plan.hash[:16]}.{step}published"
            path.write_bytes(self.own[0])
            self.planted.add(path)

    def forged(self, data: bytes) -> Iterator[bytes]:
        """The same content unsigned, under the stranger's key, and in another's name."""
        container = open_container(data)
        arrays = unpack(data, container, container.layouts)
        record = {name: one for name, one in container.record.items() if name not in ("checksum", "signature")}
        yield pack_sealed(record, arrays)
        yield pack_sealed(record, arrays, signer=self.key)
        if "entity" in record:
            yield pack_sealed(record | {"entity": "bern"}, arrays, signer=self.key)
        yield pack_sealed(record | {"software": "twofold 9"}, arrays, signer=self.key)


def run(more: str, stranger: Stranger | None = None) -> None:
    """Run a federation to its end: everybody looks, then the server, until the models are there."""
    confirm = "--confirm" if more else ""
    for _ in range(6):
        for actor in (*(join(name, confirm) for name in NAMES), COLLECT):
            if stranger is not None:
                stranger.plant(Path("box"))
            call(actor, 0, 3)
        if all(Path(f"{name}.model").exists() for name in NAMES):
            return
    raise AssertionError("the federation did not come to its end")


@pytest.mark.parametrize("more", ["", SECURE], ids=["plain", "secure sum"])
def test_a_stranger_in_the_folder_changes_nothing(tmp_path: Path, more: str) -> None:
    stranger = Stranger(tmp_path / "stranger", more)
    plan = enrol(more)
    run(more, stranger)
    assert len(stranger.planted) > 100
    assert len(json.loads(call("recommend clara.model --user 100 -n 3 --json"))) > 0
    sent = [Ledger(f"{name}.ledger").stored(plan=plan.hash) for name in NAMES]
    assert all(one is not None for one in sent)
    closed = json.loads(Path("state", *(["masked"] if more else []), "closed.json").read_text())
    assert closed["receipts"] == sorted(receipt(one) for one in sent)
    if not more:  # the very bytes that the three releases give
        factors = encode_factors(Server(plan).factorize(sent), plan, signer=KeyStore("coordinator.keys").signer)
        assert Path("state", "items.round2").read_bytes() == factors


def test_names_taken_by_a_stranger_stall_nobody(tmp_path: Path) -> None:
    stranger = Stranger(tmp_path / "stranger", "")
    stranger.plant_copies(Path("box"), enrol())
    run("")


def test_a_secure_sum_starts_after_a_look_at_the_fingerprint() -> None:
    plan = enrol(SECURE)
    for name in NAMES:
        call(join(name), 3)
    call(COLLECT, 3)
    result = ask(join("anna"))
    check_refusal(result.exception, NotReady, "confirm", "twofold join --confirm")
    assert plan_words(plan) in result.output  # what to compare
    assert not list(Path("box").glob("*.shares"))
    assert "sent: key shares" in call(join("anna", "--confirm"), 3)
    call(join("anna"), 3)  # asked for once


def test_an_invented_participant_shows_in_the_words() -> None:
    """The plan's writer invents dora, who is another name of their own."""
    plan = enrol(SECURE)
    call("keys new --entity dora --keys dora.keys -o dora.pub")
    call(f"plan new more.toml {NUMBERS} {public(*EVERYBODY, 'dora')} {SECURE}")
    shown = json.loads(call("plan agree more.toml --keys anna.keys --json"))
    assert shown["fingerprint"] == plan_words(Plan.read("more.toml")) != plan_words(plan)
    assert "dora" in shown["members"]
    # What the honest ones agreed to is the other plan; their signatures never start this one.
    for name in EVERYBODY:
        call(f"plan agree plan.toml --keys {name}.keys -o {name}.agreement")
    parts = " ".join(f"{name}.agreement" for name in EVERYBODY)
    call(f"plan agreed plan.toml {parts} -o plan.agreed")
    check_refusal(ask(f"plan agreed more.toml {parts} -o more.agreed").exception, NotReady, "agreements")
    shutil.copy("plan.agreed", "more.agreed")
    check_refusal(ask(join("anna", "--confirm", "more.toml")).exception, NotReady, "agreements", found="5 without")
    assert not list(Path("box").iterdir())


def test_a_revoked_key_stops_everything() -> None:
    enrol()
    call("keys revoke --keys bern.keys -o bern.revoked")
    check_refusal(
        ask(f"plan new two.toml {NUMBERS} {public(*EVERYBODY)} --revoked bern.revoked").exception,
        BadPlan,
        "roster",
        found="bern",
    )
    for line in ("plan agree plan.toml --keys anna.keys", join("anna"), COLLECT):
        check_refusal(ask(f"{line} --revoked bern.revoked").exception, PlanMismatch, "roster", found="bern")
    assert not list(Path("box").iterdir())
    # The new key, which the old one vouches for, takes its place.
    call("keys new --entity bern --keys bern-2.keys -o bern-2.pub --replace bern.keys")
    every = public(*EVERYBODY, "bern-2")
    call(f"plan new two.toml {NUMBERS} {every} --revoked bern.revoked")
    assert Plan.read("two.toml").members["bern"] == Identity.read("bern-2.pub")


def test_the_next_plan_has_new_keys_under_the_same_fingerprint() -> None:
    enrol(SECURE)
    for name in NAMES:
        call(join(name, "--confirm"), 3)
    call(COLLECT, 3)
    call(join("anna"), 3)  # its keys now serve this plan
    call(f"plan new next.toml {NUMBERS} {public(*EVERYBODY)} {SECURE} --name next")
    error = ask("plan agree next.toml --keys anna.keys").exception  # now, not once others wait for it
    check_refusal(error, PlanMismatch, "plan", expected=Plan.read("next.toml").hash[:12])
    call("keys new --entity anna --keys anna-2.keys -o anna-2.pub --renew anna.keys")
    old, new = Identity.read("anna.pub"), Identity.read("anna-2.pub")
    assert (new.words, new.sum == old.sum) == (old.words, False)
    call(f"plan new third.toml {NUMBERS} {public('anna-2', *EVERYBODY[1:])} {SECURE} --name third")
    call("plan agree third.toml --keys anna-2.keys")
    check_refusal(ask("plan agree third.toml --keys anna.keys").exception, PlanMismatch, "keys")
