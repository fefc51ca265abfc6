"""A secure sum with everybody in one process: the same messages, keys beside the ledgers, nothing spent twice."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.enrolled import enrolled
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.participate import Send
from twofold.errors import BudgetExceeded, NotForRealUse, PlanMismatch, UnreadableSource
from twofold.federation.factors import decode_factors
from twofold.federation.mailbox import ANSWERS, KEYS, MASKED, InProcess, StepId
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity.keys import Secrets
from twofold.identity.keystore import KeyStore, new_keys
from twofold.privacy.ledger import Ledger
from twofold.progress import heard
from twofold.release.content import plain_sum
from twofold.server.secure import SecureServer
from twofold.simulation import run, simulate
from twofold.simulation.members import Member, keyed_plan, visit
from twofold.simulation.run import _seed

CATALOG = Catalog([f"item-{number}" for number in range(10)])
NAMES = ("a", "b", "c", "d")


def ratings(seed: int) -> Ratings:
    rng = np.random.default_rng(seed)
    counts = np.zeros((24, 10))
    for number, row in enumerate(counts):
        row[5 * (number % 2) + rng.choice(5, 3, replace=False)] = rng.integers(1, 6, 3)
    return Ratings(sparse.csr_array(counts), Identifiers([f"u{row}" for row in range(24)]), CATALOG, "counts")


FEDERATION = {name: ratings(seed) for seed, name in enumerate(NAMES)}


def plan(**changes: Any) -> Plan:
    given = {
        "catalog": CATALOG,
        "feedback": "counts",
        "bound": 5,
        "max_items": 3,
        "rank": 2,
        "mechanism": "gram",
        "epsilon": 30,
        "n_users": 24,
        "n_entities": 4,
        "secure": SecureSum(survivors=4),
    }
    return Plan(**(given | changes))


def test_the_sum_is_that_of_the_same_seeded_releases_without_masks(monkeypatch: pytest.MonkeyPatch):
    boxes: list[InProcess] = []
    keyed: list[tuple[Plan, dict[str, Any], list[KeyStore]]] = []
    monkeypatch.setattr(run, "InProcess", lambda: boxes.append(InProcess()) or boxes[0])
    monkeypatch.setattr(run, "keyed_plan", lambda *given: keyed.append(keyed_plan(*given)) or keyed[0])
    done = simulate(FEDERATION, plan(simulation=True), rng=7, threads=1, local="factors")
    (box,), ((made, keys, (operator,)),) = boxes, keyed
    sent = {step: {one.entity: one.read() for one in box.submissions(step)} for step in (KEYS, MASKED, ANSWERS)}
    participants, survivors = box.published(KEYS), box.published(MASKED)
    total = SecureServer(made, signer=operator.signer).total(
        sent[MASKED].values(), sent[ANSWERS].values(), participants=participants, survivors=survivors
    )
    plain = plain_sum(
        made.release_mechanism.release(FEDERATION[name].matrix, made.parameters, rng=_seed(7, name)).value
        for name in NAMES
    )
    assert (total.numbers == plain.numbers).all()
    assert done.factors.entities == 4
    assert done.sent["a"] == sum(len(sent[step]["a"]) for step in sent)
    assert done.received == sum(len(box.published(step)) for step in sent)
    member = Member(name="a", ratings=FEDERATION["a"], plan=made, seed=_seed(7, "a"), keys=keys["a"])
    published = {StepId.KEYS: participants, StepId.MASKED: None}
    assert visit(member, published, {StepId.KEYS}) == Send(step=MASKED, data=sent[MASKED]["a"])


def test_both_rounds_and_progress():
    told: list[str] = []
    with heard(lambda phase, *_: told.append(phase)):
        done = simulate(FEDERATION, plan(simulation=True), rng=1, threads=1, local="factors")
    phases = ["keys", "round 1", "answers", "server", "round 2"]
    assert list(dict.fromkeys(phase for phase in told if phase in phases)) == phases
    assert (done.private, done.factors.entities, done.plan.entities) == (False, 4, NAMES)
    assert len(done.recommend("a", "u1", 3)) == 3
    again = simulate(FEDERATION, plan(simulation=True), rng=1, threads=1, local="factors")
    # Other keys make another plan and other masks; the sum under them is the same.
    assert (done.factors.factors == again.factors.factors).all()
    assert done.plan.hash != again.plan.hash


def test_keys_beside_the_ledgers_and_nothing_spent_twice(tmp_path: Path):
    ledgers = tmp_path / "ledgers"
    given = {"ledgers": ledgers, "new_ledgers": True, "threads": 1, "local": "factors", "strength": "shared"}
    done = simulate(FEDERATION, plan(), **given)
    keys = sorted(ledgers.glob("*.keys"))
    # One for the signing key, which stays, and one for each plan.
    assert [path.name.split(".")[0] for path in keys] == sorted([*NAMES, "coordinator"] * 2)
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert done.private
    again = simulate(FEDERATION, plan(), **given)
    assert (again.plan.hash, again.factors.hash) == (done.plan.hash, done.factors.hash)
    assert [len(Ledger(ledgers / f"{name}.ledger").state().entries) for name in NAMES] == [1] * 4
    # Another plan in the same folder has keys of its own; these people have no budget left for it.
    with pytest.raises(BudgetExceeded):
        simulate(FEDERATION, plan(rank=1), **given)
    assert len(list(ledgers.glob("*.keys"))) == 15  # five signing keys, and keys for two plans


def test_a_plan_with_a_list_of_keys_needs_those_keys(tmp_path: Path):
    paths = {name: tmp_path / f"{name}.ledger" for name in NAMES}
    given = enrolled(plan(), *NAMES, folder=tmp_path).plan
    keyed, keys, (operator,) = keyed_plan(given, paths)
    assert (keyed.hash, keys["a"]) == (given.hash, tmp_path / "a.keys")
    assert operator.identity == given.members.operator
    (tmp_path / "a.keys").unlink()
    with refused(UnreadableSource, "keys", found="a.keys"):
        keyed_plan(given, paths)
    assert not (tmp_path / "a.keys").exists()
    new_keys(tmp_path / "a.keys", "a")
    with pytest.raises(PlanMismatch) as caught:
        keyed_plan(given, paths)
    assert caught.value.parameter == "roster"


def test_every_member_gets_its_own_keys(monkeypatch: pytest.MonkeyPatch):
    seen: list[Member] = []
    monkeypatch.setattr(run, "visit", lambda member, *rest: seen.append(member) or visit(member, *rest))
    done = simulate(FEDERATION, plan(simulation=True), threads=1, local="factors")
    assert all(one.plan is done.plan for one in seen)
    assert {one.name: Secrets.from_bytes(one.keys).identity for one in seen} == done.plan.members.entities
    assert str(seen[0].keys)[2:-1] not in repr(seen[0])


def test_a_seed_in_a_real_plan_is_refused(tmp_path: Path):
    with pytest.raises(NotForRealUse) as caught:
        simulate(FEDERATION, plan(), ledgers=tmp_path / "l", rng=1)
    assert caught.value.parameter == "rng"
    assert not (tmp_path / "l").exists()


def test_an_operator_beside_an_entity_that_is_called_coordinator(tmp_path: Path):
    paths = {name: tmp_path / f"{name}.ledger" for name in ("coordinator", "a", "b")}
    given = plan(n_entities=3, secure=SecureSum(survivors=3))
    keyed, keys, (operator,) = keyed_plan(given, paths)
    assert keyed.entities == ("a", "b", "coordinator")
    assert operator.identity.name not in keyed.entities
    assert len(set(keys.values())) == 4
    again, *_ = keyed_plan(given, paths)
    assert again.hash == keyed.hash


def test_everybody_in_a_real_plan_agrees_and_confirms(tmp_path: Path):
    """One caller holds everything; the agreements are made all the same, and nothing starts without one."""
    paths = {name: tmp_path / f"{name}.ledger" for name in NAMES}
    keyed, keys, (operator,) = keyed_plan(plan(), paths)
    for store in (*(KeyStore(keys[name]) for name in NAMES), operator):
        assert store.agreement(keyed.hash) is not None
        assert store.confirmed(keyed.hash)
    done = simulate(FEDERATION, plan(), ledgers=tmp_path, new_ledgers=True, threads=1, local="factors")
    assert (done.plan.hash, done.private) == (keyed.hash, True)
    assert decode_factors(done.published, keyed).hash == done.factors.hash
