"""Whatever is due is done: over any transport, late or in time, again and again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.enrolled import enrolled
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.participate import Done, ParticipationStatus, Send, Wait, act, participate
from twofold.errors import BadMessage
from twofold.federation.agreement import Agreements, encode_agreed
from twofold.federation.folder import EntityFolder
from twofold.federation.key_messages import decode_survivors
from twofold.federation.mailbox import AGREE, ANSWERS, KEYS, MASKED, ROUNDS, InProcess, Step, StepId
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.privacy.ledger import Ledger
from twofold.server.secure import SecureServer

NAMES = ("site-0", "site-1", "site-2", "site-3", "site-4")
AGREED_SENT, KEYS_SENT = (StepId.AGREE,), (StepId.AGREE, StepId.KEYS)
MASKED_SENT = (*KEYS_SENT, StepId.MASKED)
CATALOG = Catalog([f"item-{number}" for number in range(6)])


class Group:
    """Five entities around mailboxes in this process; the server is played by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        plan = Plan(
            catalog=CATALOG,
            feedback="counts",
            bound=2,
            max_items=3,
            rank=2,
            mechanism="gram",
            n_entities=5,
            secure=SecureSum(survivors=4, present=4),
        )
        self.enrolled = enrolled(plan, *NAMES, folder=folder)
        self.plan = self.enrolled.plan
        self.server = SecureServer(self.plan, signer=self.enrolled.signer())
        self.box = InProcess()
        counts = np.random.default_rng(3).integers(0, 3, (9, 6)).astype(float)
        self.ratings = Ratings(
            sparse.csr_array(counts), Identifiers([f"u{row}" for row in range(9)]), CATALOG, "counts"
        )
        for name in NAMES:
            Ledger.create(folder / f"{name}.ledger", dataset=name, ceiling=self.plan.budget, unit=self.plan.unit)

    def entity(self, name: str) -> Entity:
        place = self.folder / name
        return Entity(
            name, self.ratings, self.plan, ledger=place.with_suffix(".ledger"), keys=place.with_suffix(".keys")
        )

    def publish_agreed(self) -> bytes:
        """Say that everybody has agreed; each test but those of the agreement starts here."""
        data = encode_agreed(self.enrolled.agreements, self.plan, signer=self.enrolled.signer())
        self.box.publish(AGREE, data)
        return data

    def join(self, *names: str) -> ParticipationStatus:
        return [participate(self.entity(name), self.box) for name in names][-1]

    def sent(self, step: Step) -> list[bytes]:
        return [one.read() for one in self.box.submissions(step)]

    def publish_participants(self) -> None:
        self.box.publish(KEYS, self.server.participants(self.sent(KEYS)))

    def publish_survivors(self) -> None:
        participants = self.box.published(KEYS)
        self.box.publish(MASKED, self.server.survivors(self.sent(MASKED), participants))

    def spent(self, name: str) -> int:
        return len(Ledger(self.folder / f"{name}.ledger").state().entries)


@pytest.fixture
def before(tmp_path: Path) -> Group:
    """Nobody has published anything."""
    return Group(tmp_path)


@pytest.fixture
def group(before: Group) -> Group:
    """Everybody has agreed, and knows that."""
    before.publish_agreed()
    return before


def test_nothing_but_the_agreement_leaves_before_everybody_has_agreed(before: Group):
    first = before.join(*NAMES)
    assert (first.sent, first.fresh, first.waits) == (AGREED_SENT, AGREED_SENT, StepId.AGREE)
    assert [len(before.sent(step)) for step in (AGREE, KEYS, MASKED, ANSWERS)] == [5, 0, 0, 0]
    assert before.join(*NAMES).fresh == ()
    before.publish_agreed()
    second = before.join(*NAMES)
    assert (second.sent, second.fresh, second.waits) == (KEYS_SENT, (StepId.KEYS,), StepId.KEYS)


def test_an_incomplete_or_unsigned_list_of_agreements_starts_nothing(before: Group):
    every, signer = before.enrolled.agreements, before.enrolled.signer()
    fewer = Agreements(before.plan.hash, {name: every[name] for name in every if name != "site-2"})
    with refused(BadMessage, "agreements", found="site-2"):
        act(before.entity("site-0"), {StepId.AGREE: encode_agreed(fewer, before.plan, signer=signer)}, {StepId.AGREE})
    forged = encode_agreed(every, before.plan, signer=before.enrolled.signer("site-1"))
    with refused(BadMessage, "signature"):
        act(before.entity("site-0"), {StepId.AGREE: forged}, {StepId.AGREE})
    assert before.spent("site-0") == 0


def test_step_by_step(group: Group):
    first = group.join(*NAMES)
    assert (first.sent, first.fresh, first.waits) == (KEYS_SENT, (StepId.KEYS,), StepId.KEYS)
    assert [group.spent(name) for name in NAMES] == [0] * 5
    group.publish_participants()
    second = group.join(*NAMES)
    assert (second.sent, second.fresh, second.waits) == (MASKED_SENT, (StepId.MASKED,), StepId.MASKED)
    group.publish_survivors()
    third = group.join(*NAMES)
    assert (third.sent[-1], third.waits, third.dropped) == (StepId.ANSWERS, StepId.ANSWERS, False)
    before = [group.sent(step) for step in (KEYS, MASKED, ANSWERS)]
    group.join(*NAMES)
    assert [group.sent(step) for step in (KEYS, MASKED, ANSWERS)] == before
    assert [group.spent(name) for name in NAMES] == [1] * 5


def test_too_late_to_share_nothing_is_drawn_and_the_factors_are_still_fetched(group: Group):
    group.join(*NAMES[:4])
    group.publish_participants()
    late = group.join("site-4")
    assert (late.sent, late.fresh, late.waits, late.dropped) == (KEYS_SENT, (), StepId.ANSWERS, True)
    group.box.publish(ANSWERS, b"factors")  # carried as they are; whether they are sound shows when they are used
    assert group.join("site-4").factors == b"factors"
    assert group.spent("site-4") == 0


def test_too_late_to_mask_nothing_is_drawn(group: Group):
    group.join(*NAMES)
    group.publish_participants()
    group.join(*NAMES[:4])
    group.publish_survivors()
    late = group.join("site-4")
    assert (late.sent, late.dropped) == (KEYS_SENT, True)
    assert (group.spent("site-4"), len(group.sent(MASKED))) == (0, 4)


def test_a_masked_message_that_came_too_late_is_said_to_be_sent(group: Group):
    group.join(*NAMES)
    group.publish_participants()
    group.join(*NAMES)
    participants = group.box.published(KEYS)
    first = [one.read() for one in group.box.submissions(MASKED) if one.entity != "site-4"]
    group.box.publish(MASKED, group.server.survivors(first, participants))
    late = group.join("site-4")
    assert (late.sent, late.fresh, late.dropped) == (MASKED_SENT, (), True)
    assert "site-4" not in decode_survivors(group.box.fetch(MASKED), group.plan).survivors
    assert group.spent("site-4") == 1


def test_what_lies_there_and_is_not_taken_is_said(group: Group, tmp_path: Path):
    box = EntityFolder(tmp_path / "shared", tmp_path / "shared", group.plan)
    assert participate(group.entity("site-0"), box).rejected == ()
    (tmp_path / "shared" / "federation.roll").write_bytes(b"half a")
    assert [one.name for one in participate(group.entity("site-0"), box).rejected] == ["federation.roll"]


def test_a_plain_plan_has_one_step(group: Group):
    plan = group.plan.with_(secure=None, simulation=True, roster=None, writer=None)
    standing = participate(Entity("site-0", group.ratings, plan, rng=1), InProcess())
    assert (standing.sent, standing.waits) == ((StepId.ROUNDS,), StepId.ROUNDS)


def test_act_decides_without_any_mailbox(group: Group):
    plan = group.plan.with_(secure=None, simulation=True, roster=None, writer=None)
    entity = Entity("site-0", group.ratings, plan, rng=1)
    assert act(entity, {}) == Send(step=ROUNDS, data=entity.release().data)
    assert act(entity, {StepId.ROUNDS: None}, {StepId.ROUNDS}) == Wait(step=ROUNDS)
    assert act(entity, {StepId.ROUNDS: b"factors"}, {StepId.ROUNDS}) == Done(factors=b"factors")


def test_nothing_is_drawn_before_the_survivors_were_looked_for(group: Group):
    group.join(*NAMES)
    group.publish_participants()
    published = {step.id: group.box.published(step) for step in (AGREE, KEYS)}
    assert act(group.entity("site-4"), published, set(KEYS_SENT)) == Wait(step=MASKED)
    assert group.spent("site-4") == 0
    due = act(group.entity("site-4"), published | {StepId.MASKED: None}, set(KEYS_SENT))
    assert (due.step, group.spent("site-4")) == (MASKED, 1)
