"""A secure sum with everybody in one process: the same messages, keys beside the ledgers, nothing spent twice."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from twofold.data.catalog import Catalog
from twofold.data.identifiers import Identifiers
from twofold.data.ratings import Ratings
from twofold.errors import NotForRealUse, PlanMismatch, TwofoldError
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity.keystore import new_keys
from twofold.identity.roster import Roster
from twofold.privacy.ledger import Ledger
from twofold.release.content import plain_sum
from twofold.server.secure import SecureServer
from twofold.simulation import simulate
from twofold.simulation.members import Member, keyed_plan, masked_part, secure_rounds, with_keys
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
        "secure": SecureSum(survivors=3),
    }
    return Plan(**(given | changes))


def test_the_sum_is_that_of_the_same_seeded_releases_without_masks():
    keyed, keys = keyed_plan(plan(simulation=True), dict.fromkeys(NAMES))
    members = {
        name: Member(name=name, ratings=FEDERATION[name], plan=keyed, seed=_seed(7, name), keys=keys[name])
        for name in NAMES
    }
    each = {}

    def run(step: str, task: Any, jobs: Any) -> dict[str, bytes]:
        each[step] = {name: task(*job) for name, job in jobs.items()}
        return each[step]

    summed = secure_rounds(members, keyed, run)
    server = SecureServer(keyed)
    roll = server.roll(each["keys"].values())
    survivors = server.survivors(each["round 1"].values(), roll)
    total = server.total(each["round 1"].values(), each["answers"].values(), roll=roll, survivors=survivors)
    plain = plain_sum(
        keyed.release_mechanism.release(
            members[name].entity().ratings.matrix, keyed.parameters, rng=_seed(7, name)
        ).value
        for name in NAMES
    )
    assert (total.numbers == plain.numbers).all()
    assert summed.factors.entities == 4
    assert summed.sent["a"] == sum(len(each[step]["a"]) for step in each)
    assert masked_part(members["a"], roll) == each["round 1"]["a"]


def test_both_rounds_and_progress():
    told: list[str] = []
    done = simulate(
        FEDERATION,
        plan(simulation=True),
        rng=1,
        progress=lambda phase, *_: told.append(phase),
        threads=1,
        local="factors",
    )
    assert list(dict.fromkeys(told)) == ["keys", "round 1", "answers", "server", "round 2"]
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
    assert [path.name.split(".")[0] for path in keys] == list(NAMES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
    assert done.private
    again = simulate(FEDERATION, plan(), **given)
    assert (again.plan.hash, again.factors.hash) == (done.plan.hash, done.factors.hash)
    assert [len(Ledger(ledgers / f"{name}.ledger").state().entries) for name in NAMES] == [1] * 4
    # Another plan in the same folder has keys of its own; these people have no budget left for it.
    with pytest.raises(TwofoldError, match=r"(?i)budget|room|ceiling"):
        simulate(FEDERATION, plan(rank=1), **given)
    assert len(list(ledgers.glob("*.keys"))) == 8


def test_a_plan_with_a_list_of_keys_needs_those_keys(tmp_path: Path):
    paths = {name: tmp_path / f"{name}.ledger" for name in NAMES}
    roster = Roster.joined(new_keys(tmp_path / f"{name}.keys", name) for name in NAMES)
    given = plan(secure=SecureSum(survivors=3, roster=roster))
    keyed, keys = keyed_plan(given, paths)
    assert (keyed.hash, keys["a"]) == (given.hash, tmp_path / "a.keys")
    (tmp_path / "a.keys").unlink()
    with pytest.raises(TwofoldError, match="no file of secret keys"):
        keyed_plan(given, paths)
    assert not (tmp_path / "a.keys").exists()
    new_keys(tmp_path / "a.keys", "a")
    with pytest.raises(PlanMismatch, match="not that of these entities"):
        keyed_plan(given, paths)


def test_every_member_gets_its_own_keys():
    keyed, keys = keyed_plan(plan(simulation=True), dict.fromkeys(NAMES))
    members = {name: Member(name=name, ratings=FEDERATION[name], plan=plan(simulation=True)) for name in NAMES}
    keyed_members = with_keys(members, keyed, keys)
    assert all(one.keys == keys[name] and one.plan is keyed for name, one in keyed_members.items())
    assert str(keys["a"])[2:-1] not in repr(keyed_members["a"])


def test_a_seed_in_a_real_plan_is_refused(tmp_path: Path):
    with pytest.raises(NotForRealUse, match="repeatable"):
        simulate(FEDERATION, plan(), ledgers=tmp_path / "l", rng=1)
    assert not (tmp_path / "l").exists()
