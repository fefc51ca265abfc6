"""Audit H1 and M3: a dishonest server, dishonest participants and a reader together open no sum without whole noise.

The attack is that of `studies.trust.strip`, with real keys, shares and masks. It succeeds just below the bound, so
these tests can fail.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from studies.trust.run import strip_row
from studies.trust.strip import every_choice, lists_for, open_group, strip
from tests.enrolled import enrolled
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.account import NewLedger
from twofold.entity.agent import Entity, bounded
from twofold.errors import TooFewMessages
from twofold.federation.key_messages import (
    decode_answer,
    decode_shares,
    encode_participants,
    encode_survivors,
    secure_terms,
)
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum, usual_survivors
from twofold.identity.keystore import KeyStore
from twofold.release.bilinear.records import exact_sums
from twofold.secure_sum import MaskedMessage, honest_in_any_sum
from twofold.secure_sum.messages import unpack
from twofold.secure_sum.terms import least_floor


@pytest.mark.parametrize("entities", [3, 5, 10, 20, 50, pytest.param(205, marks=pytest.mark.slow)])
def test_at_the_defaults_the_smallest_sum_has_whole_noise(entities: int) -> None:
    """Server, one colluder who deviates in any way, and the shares of one more participant who only reads."""
    row = strip_row(entities)
    assert (row["colluders"], row["allies"]) == (1, 2)
    assert (row["result"], row["group"]) == ("kept", row["honest"])  # the bound is reached, and not passed


def test_the_best_lists_reach_the_promise_and_not_below_it_at_every_size() -> None:
    for entities in (*range(3, 60), 205, 400):
        names, secure = [f"{place:03}" for place in range(entities)], SecureSum(survivors=usual_survivors(entities))
        best = lists_for(names, names[-2:], threshold=secure.answers, survivors=secure.survivors)
        assert (best.bare, len(best.group)) == (False, secure.honest(entities))


@pytest.mark.parametrize("entities", [5, 10, 20, pytest.param(205, marks=pytest.mark.slow)])
def test_the_old_default_is_broken(entities: int) -> None:
    assert str(strip_row(entities, before=True)["result"]).startswith("BROKEN")


@pytest.mark.parametrize("entities", [4, 5, 6, 7, 10, 21])
def test_one_survivor_below_the_bound_a_single_message_opens(entities: int) -> None:
    floor = least_floor(entities, 2)
    assert floor is not None
    at = strip(entities=entities, survivors=floor, threshold=floor, allies=2)
    assert (at.bare, len(at.group)) == (False, SecureSum(survivors=floor).honest(entities))
    below = strip(entities=entities, survivors=floor - 1, threshold=floor - 1, allies=2)
    assert (len(below.group), below.right) == (1, True)


def test_second_answers_are_refused_whatever_they_are_for() -> None:
    found = strip(entities=7, survivors=5, threshold=5, allies=1)
    assert found.refused == 6


@pytest.mark.parametrize(
    ("entities", "allies"), [(3, 1), (3, 2), (4, 1), (4, 2), (4, 3), (5, 1), (5, 2), (5, 3), (6, 2), (6, 3)]
)
def test_the_proof_holds_for_every_choice_of_lists(entities: int, allies: int) -> None:
    """Colluders, and a reader among the allies: a single message opens in no choice, or in some, as the proof says."""
    for threshold in range(max(allies, entities // 2) + 1, entities + 1):
        for survivors in range(threshold, entities + 1):
            if (entities - allies) * (entities - survivors) > 8:
                continue  # millions of choices
            seen = every_choice(entities=entities, survivors=survivors, threshold=threshold, allies=allies)
            safe = 2 * threshold > entities + allies
            assert (seen.bare == 0) == (safe or survivors == entities)
            if safe:
                assert seen.least >= max(seen.bound, 1)
                # The attack finds the best choice: it is not weaker than all of them.
                names = [str(place) for place in range(entities)]
                best = lists_for(names, names[entities - allies :], threshold=threshold, survivors=survivors)
                assert len(best.group) == seen.least


def test_the_bound_is_reached_by_some_choice() -> None:
    reached = [
        every_choice(entities=entities, survivors=survivors, threshold=survivors, allies=2)
        for entities, survivors in ((3, 3), (4, 4), (5, 4), (5, 5), (6, 5))
    ]
    assert [one.least for one in reached] == [one.bound for one in reached] == [1, 2, 2, 3, 3]


NAMES = ("a", "b", "c", "d", "e")
CATALOG = Catalog(["x", "y", "z"])
#: Five entities of ten people: noise hides everything, which is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore::twofold.entity.account.NothingExpected")


class Group:
    """Five entities with key files and ledgers, in a plan that is not a simulation; `e` works with the server."""

    def __init__(self, folder: Path, survivors: int, colluders: int = 1) -> None:
        self.folder = folder
        secure = SecureSum(survivors=survivors, colluders=colluders)
        given = {"feedback": "counts", "bound": 1, "max_items": 2, "mechanism": "gram", "epsilon": 1, "delta": 0}
        drawn = Plan(catalog=CATALOG, secure=secure, n_users=10, entities=NAMES, **given)
        self.enrolled = enrolled(drawn, folder=folder)
        self.plan, self.signer = self.enrolled.plan, self.enrolled.signer()
        self.terms = secure_terms(self.plan)
        self.rows = Ratings(
            sparse.csr_array(np.tile([1.0, 1.0, 0.0], (7, 1))), Identifiers(list("stuvwxy")), CATALOG, "counts"
        )

    def entity(self, name: str) -> Entity:
        ledger = self.folder / f"{name}.ledger"
        return Entity(name, self.rows, self.plan, ledger=ledger, **self.enrolled.given(name))

    def attacked(self) -> tuple[tuple[str, ...], np.ndarray | None]:
        shares = {name: decode_shares(self.entity(name).share(), self.plan).content for name in NAMES}
        listed = encode_participants(shares, self.plan, signer=self.signer)
        plan = lists_for(NAMES, "e", threshold=self.terms.threshold, survivors=self.terms.least_survivors)
        sent, answers = {}, {}
        for name in NAMES[:4]:
            with pytest.warns(NewLedger):
                message = self.entity(name).release(listed)
            numbers = unpack(message.content.packed.tobytes(), self.terms.bits)
            listing = self.terms.present_digest(NAMES)
            sent[name] = MaskedMessage(sender=name, present=listing, bits=self.terms.bits, numbers=numbers)
        for name in NAMES[:4]:
            told = encode_survivors(NAMES, plan.lists[name], self.plan, signer=self.signer)
            answers[name] = decode_answer(self.entity(name).answer(told, listed), self.plan).content
        ally = {"e": KeyStore(self.folder / "e.keys").keys}
        return plan.group, open_group(plan.group, sent, answers, shares, ally, self.terms)


def users(group: Group, numbers: np.ndarray) -> float:
    layout = group.plan.release_mechanism.layout(group.plan.parameters)
    return float(numbers[layout.count][0]) * layout.count_unit


def test_the_audits_attack_through_entities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Audit H1: 5 entities, 3 survivors, δ = 0; the message of seven people lies bare, with one share of the noise."""
    with monkeypatch.context() as patched:
        patched.setattr(SecureSum, "check", lambda *_, **__: None)
        patched.setattr(SecureSum, "honest", lambda *_: 2)
        group = Group(tmp_path, survivors=3, colluders=0)
        names, found = group.attacked()
    assert names == ("a",)
    assert found is not None
    exact = exact_sums(
        bounded(group.rows, group.plan).matrix,
        group.plan.parameters,
        group.plan.release_mechanism.layout(group.plan.parameters),
    )
    assert users(group, exact) == pytest.approx(7)
    share = group.plan.spec.sum.farthest_noise
    assert (np.abs(found - exact) <= share).all()


@pytest.mark.parametrize("survivors", [4, 5])
def test_through_entities_a_valid_plan_keeps_every_message_in_a_group(tmp_path: Path, survivors: int) -> None:
    group = Group(tmp_path, survivors)
    names, found = group.attacked()
    assert found is not None
    assert len(names) == honest_in_any_sum(
        entities=5, threshold=survivors, least_survivors=survivors, least_present=5, colluders=1
    )
    assert len(names) >= group.plan.parameters.honest + 1  # and a reader in it takes off its own share only


def test_a_list_below_the_floor_is_not_answered(tmp_path: Path) -> None:
    group = Group(tmp_path, survivors=4)
    shares = {name: decode_shares(group.entity(name).share(), group.plan).content for name in NAMES}
    listed = encode_participants(shares, group.plan, signer=group.signer)
    with pytest.raises(TooFewMessages):
        group.entity("a").answer(encode_survivors(NAMES, NAMES[:3], group.plan, signer=group.signer), listed)
    assert usual_survivors(5) == 5
