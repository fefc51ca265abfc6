"""An entity's part of a secure sum: one plan, one message under the masks, one answer; nothing for strangers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.enrolled import enrolled
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.account import describe
from twofold.entity.agent import Entity
from twofold.entity.secure import SecurePart
from twofold.errors import NotForRealUse, NotReady, PlanMismatch, PrivacyError
from twofold.federation.key_messages import decode_participants, encode_participants, encode_survivors
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity.keystore import KeyStore
from twofold.privacy.budget import ApproxDP
from twofold.privacy.ledger import Ledger
from twofold.release.content import BilinearSums
from twofold.server.secure import SecureServer

NAMES = ("site-0", "site-1", "site-2", "site-3", "site-4")
CATALOG = Catalog([f"item-{number}" for number in range(6)])
#: Five sites of ten people: noise hides everything, which is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")


def ratings(seed: int) -> Ratings:
    counts = np.random.default_rng(seed).integers(0, 3, (9, 6)).astype(float)
    return Ratings(sparse.csr_array(counts), Identifiers([f"u{row}" for row in range(9)]), CATALOG, "counts")


class Group:
    """Five entities with keys and ledgers on disk, in a real plan."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder = folder
        given: dict[str, Any] = {"max_items": 3, "n_users": 10, "epsilon": 1, "n_entities": 5} | changes
        secure = SecureSum(survivors=4, present=4)
        plan = Plan(catalog=CATALOG, feedback="counts", bound=2, mechanism="gram", secure=secure, **given)
        self.enrolled = enrolled(plan, *NAMES, folder=folder)
        self.plan = self.enrolled.plan
        self.server = SecureServer(self.plan, signer=self.enrolled.signer())

    def entity(self, name: str, **changes: Any) -> Entity:
        ledger, unit = self.folder / f"{name}.ledger", self.plan.unit
        if not ledger.exists():  # room for several releases, so that only the keys stand in the way of a second one
            Ledger.create(ledger, dataset=name, ceiling=ApproxDP(epsilon=9, delta="1/1000"), unit=unit)
        given = {"ledger": ledger} | self.enrolled.given(name) | changes
        return Entity(name, given.pop("ratings", ratings(NAMES.index(name))), given.pop("plan", self.plan), **given)

    def participants(self, names: tuple[str, ...] = NAMES) -> bytes:
        return self.server.participants([self.entity(name).share() for name in names])

    def survivors(self, names: tuple[str, ...], present: tuple[str, ...] = NAMES) -> bytes:
        return encode_survivors(present, names, self.plan, signer=self.enrolled.signer())

    def spent(self, name: str) -> int:
        return len(Ledger(self.folder / f"{name}.ledger").state().entries)


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_the_same_bytes_whenever_asked_and_paid_once(group: Group):
    participants = group.participants()
    first = group.entity("site-0").release(participants).data
    assert group.entity("site-0").release(participants).data == first
    assert group.spent("site-0") == 1
    assert group.entity("site-0").share() == group.entity("site-0").share()
    lists = group.survivors(NAMES[:4])
    assert group.entity("site-0").answer(lists, participants) == group.entity("site-0").answer(lists, participants)


def test_a_second_list_of_survivors_is_refused_for_good(group: Group):
    participants = group.participants()
    one, two = (group.survivors(names) for names in (NAMES[:4], NAMES))
    group.entity("site-0").answer(one, participants)
    for _ in range(2):
        with refused(PrivacyError, "already"):
            group.entity("site-0").answer(two, participants)
    group.entity("site-0").answer(one, participants)


def test_a_second_roll_is_refused_before_anything_is_drawn(group: Group):
    whole, fewer = group.participants(), group.participants(NAMES[:4])
    group.entity("site-0").release(whole)
    with refused(PlanMismatch, "roll"):
        group.entity("site-0").release(fewer)
    with refused(PlanMismatch, "roll"):
        group.entity("site-0").answer(group.survivors(NAMES[:4], NAMES[:4]), fewer)
    with refused(PlanMismatch, "survivors"):
        group.entity("site-0").answer(group.survivors(NAMES[:4], NAMES[:4]), whole)
    assert group.spent("site-0") == 1


def test_no_second_message_under_the_same_masks(group: Group):
    """Another version or another ledger would give other numbers under the same masks, and tell their difference."""
    participants = group.participants()
    group.entity("site-0").release(participants)
    with refused(PrivacyError, "version"):
        group.entity("site-0", version="2").release(participants)
    assert group.spent("site-0") == 1
    other = group.folder / "other.ledger"
    Ledger.create(other, dataset="x", ceiling=group.plan.budget, unit=group.plan.unit)
    with refused(PrivacyError, "message"):
        group.entity("site-0", ledger=other).release(participants)


def test_keys_serve_one_plan(group: Group):
    group.entity("site-0").share()
    other = enrolled(group.plan.with_(rank=3), folder=group.folder, secrets=group.enrolled.secrets)
    with refused(PlanMismatch, "plan", expected=other.plan.hash[:12]):
        group.entity("site-0", plan=other.plan, agreements=other.agreements).share()


def test_nothing_is_shared_before_the_fingerprint_is_confirmed_and_everybody_agreed(group: Group):
    other = enrolled(group.plan.with_(rank=3), secrets=group.enrolled.secrets)  # agreed to, not confirmed
    entity = group.entity("site-0", plan=other.plan, agreements=other.agreements)
    with refused(NotReady, "confirm"):
        entity.share()
    store = KeyStore(group.folder / "site-0.keys")
    assert store.plan_hash is None
    store.confirm(group.plan.hash)
    with refused(NotReady, "confirm"):
        entity.share()
    store.confirm(other.plan.hash)
    with refused(NotReady, "agreements"):
        group.entity("site-0", plan=other.plan, agreements=None).share()
    entity.share()
    participants = group.participants(NAMES[1:])
    with refused(NotReady, "agreements"):
        group.entity("site-1", agreements=None).answer(group.survivors(NAMES[1:], NAMES[1:]), participants)
    with refused(NotReady, "agreements"):
        group.entity("site-1", agreements=None).release(participants)
    assert group.spent("site-1") == 0


def test_lists_of_another_plan_are_refused(group: Group, tmp_path: Path):
    (tmp_path / "second").mkdir()
    second = Group(tmp_path / "second")
    participants = group.participants()
    with refused(PlanMismatch, "plan", expected=group.plan.hash[:12]):
        group.entity("site-0").release(second.participants())
    with refused(PlanMismatch, "plan", expected=group.plan.hash[:12]):
        group.entity("site-0").answer(second.survivors(NAMES), participants)
    assert group.spent("site-0") == 0


def test_a_roll_without_ones_own_shares_or_with_others_draws_nothing(group: Group):
    with refused(PlanMismatch, "participants"):
        group.entity("site-4").release(group.participants(NAMES[:4]))
    listed = dict(decode_participants(group.participants(), group.plan).shares)
    object.__setattr__(listed["site-0"], "commitment", bytes(32))
    with refused(PlanMismatch, "participants"):
        group.entity("site-0").release(encode_participants(listed, group.plan, signer=group.enrolled.signer()))
    with refused(NotReady, "participants"):
        group.entity("site-0").release()
    assert group.spent("site-0") + group.spent("site-4") == 0


def test_whoever_is_not_a_survivor_does_not_answer(group: Group):
    with refused(PrivacyError, "survivors"):
        group.entity("site-4").answer(group.survivors(NAMES[:4]), group.participants())


def test_swapped_missing_and_forgetful_keys(group: Group):
    with refused(PlanMismatch, "keys", found="keys of site-1"):
        group.entity("site-0", keys=group.folder / "site-1.keys").share()
    with refused(PlanMismatch, "keys", "site-0.keys"):
        group.entity("site-0", keys=None).share()
    with refused(NotForRealUse, "keys", "site-0.keys"):
        group.entity("site-0", keys=group.enrolled.secrets["site-0"]).share()


def test_no_seed_and_no_missing_ledger_in_a_real_plan(group: Group):
    participants = group.participants()
    with refused(NotForRealUse, "rng"):
        group.entity("site-0", rng=3).release(participants)
    with refused(NotForRealUse, "ledger"):
        group.entity("site-0", ledger=None).release(participants)


def test_numbers_that_leave_the_modulus_are_masked_like_all_others(group: Group):
    """Audit M1: the refusal was seen as a drop-out, and only one share of the noise was in the numbers by then."""
    part = SecurePart("site-0", group.plan, KeyStore(group.folder / "site-0.keys"))
    masks, length = part.masks(group.participants()), group.plan.spec.sum.length
    for number in (part.terms.limit, part.terms.limit + 1, -part.terms.limit - 1, np.iinfo(np.int64).min):
        numbers = np.zeros(length, dtype=np.int64)
        numbers[5] = number
        content = BilinearSums(mechanism="gram", numbers=numbers, deviation=1.0, law="gaussian", seeded=False)
        assert masks.hide(content).packed.shape == (length + 2, part.terms.bits // 8)


def test_the_ledger_knows_against_how_many_the_promise_holds(group: Group):
    """Audit H1: the card could not say it. These are public numbers of the plan."""
    about = describe(group.plan)
    assert (about["colluders"], about["survivors"], about["entities"]) == (1, 4, 5)
    group.entity("site-0").release(group.participants())
    (entry,) = Ledger(group.folder / "site-0.ledger").state().entries
    assert entry.request["about"]["colluders"] == 1
    assert "colluders" not in describe(group.plan.with_(secure=None, entities=()))
