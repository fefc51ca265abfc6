"""Three steps, however often the server is killed; below a floor nothing comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.enrolled import enrolled
from tests.refused import refused
from twofold.entity.secure import Masks
from twofold.errors import BadMessage, RoundClosed, Set, TooFewMessages, TransportError
from twofold.federation.factors import decode_factors
from twofold.federation.folder import ServerFolder
from twofold.federation.key_messages import (
    decode_answer,
    decode_participants,
    decode_survivors,
    encode_answer,
    encode_shares,
    secure_terms,
)
from twofold.federation.mailbox import ANSWERS, KEYS, MASKED, Step, StepId
from twofold.federation.messages import decode_release, encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.secure_sum import answer, share_secrets
from twofold.secure_sum.terms import Terms
from twofold.server.coordinate import CoordinationStatus, coordinate
from twofold.server.secure import SecureServer
from twofold.server.state import FolderState
from twofold.storage import files as disk

NAMES = tuple(f"site-{number}" for number in range(5))
BEFORE, BETWEEN, AFTER = (datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in (-9, 0.5, 9))


class Group:
    """Five entities of a simulation; what they send is put into a folder as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inbox, self.outbox = folder / "in", folder / "out"
        deadlines = {"share_deadline": "2027-01-01T00:00:00Z"}
        plan = Plan(
            catalog=CatalogKey(hash="a" * 64, n_items=8),
            feedback="counts",
            bound=5,
            max_items=4,
            mechanism="gram",
            rank=2,
            epsilon=20,
            n_users=30,
            n_entities=5,
            deadline="2027-01-02T00:00:00Z",
            simulation=True,
            secure=SecureSum(survivors=4, present=4, **deadlines),
        )
        self.enrolled = enrolled(plan, *NAMES)
        self.plan, self.signer = self.enrolled.plan, self.enrolled.signer
        self.keys = {name: one.sum for name, one in self.enrolled.secrets.items()}

    def look(
        self, *, now: datetime = BEFORE, state: str = "state", outbox: str = "out", close: bool = False
    ) -> CoordinationStatus:
        """Be a server that was just started."""
        (self.folder / outbox).mkdir(exist_ok=True)
        box = ServerFolder(self.inbox, self.folder / outbox, self.plan)
        kept = FolderState(self.folder / state, self.plan)
        return coordinate(
            SecureServer(self.plan, signer=self.signer()), box, state=kept, clock=lambda: now, close=close
        )

    @property
    def terms(self) -> Terms:
        return secure_terms(self.plan)

    def published(self, step: Step, outbox: str = "out") -> bytes | None:
        found = list((self.folder / outbox).glob(f"*.{step.down.suffix}"))
        assert len(found) <= 1
        return found[0].read_bytes() if found else None

    def put(self, name: str, data: bytes) -> None:
        self.inbox.mkdir(exist_ok=True)
        (self.inbox / name).write_bytes(data)

    def share(self, names: Sequence[str] = NAMES) -> None:
        for name in names:
            content = share_secrets(self.keys[name], name, self.terms)
            self.put(f"{name}.s", encode_shares(content, self.plan, signer=self.signer(name)))

    def message(self, name: str, participants: bytes) -> bytes:
        seed = NAMES.index(name)
        rows = np.random.default_rng(seed).integers(0, 4, (30, 8)).astype(float)
        rows[:, 4:] = 0
        masks = Masks(
            name=name, keys=self.keys[name], terms=self.terms, participants=decode_participants(participants, self.plan)
        )
        drawn = self.plan.release_mechanism.release(rows, self.plan.parameters, rng=seed).value
        return encode_release(masks.hide(drawn), entity=name, plan=self.plan, signer=self.signer(name))

    def mask(self, names: Sequence[str] = NAMES) -> None:
        for name in names:
            self.put(f"{name}.m", self.message(name, self.published(KEYS)))

    def answered(self, name: str) -> bytes:
        listed = decode_participants(self.published(KEYS), self.plan)
        lists = decode_survivors(self.published(MASKED), self.plan)
        made = answer(self.keys[name], name, self.terms, listed.shares, lists.present, lists.survivors)
        return encode_answer(made, self.plan, signer=self.signer(name))

    def answer(self, names: Sequence[str] = NAMES) -> None:
        for name in names:
            self.put(f"{name}.a", self.answered(name))


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_all_three_steps_a_new_server_each_time(group: Group) -> None:
    group.share(NAMES[:3])
    seen = group.look()
    assert (seen.arrived, seen.expected, seen.published, seen.step) == (3, 5, False, StepId.KEYS)
    group.share()
    seen = group.look()
    assert (seen.expected, seen.step) == (5, StepId.MASKED)
    group.mask()
    seen = group.look()
    assert (seen.arrived, seen.step) == (0, StepId.ANSWERS)
    group.answer(NAMES[:3])
    assert group.look().arrived == 3
    group.answer(NAMES[:4])
    seen = group.look()
    assert (seen.arrived, seen.closed, seen.published) == (4, True, True)
    assert decode_factors(group.published(ANSWERS), group.plan).entities == 5
    group.answer()
    seen = group.look()
    assert seen.published
    assert [one.name for one in seen.refused] == ["site-4"]


def test_drop_outs_before_between_and_after(group: Group) -> None:
    group.share(NAMES[:4])  # site-4 never comes
    assert not group.look().published
    group.look(now=BETWEEN)
    assert decode_participants(group.published(KEYS), group.plan).present == NAMES[:4]
    group.share()  # too late
    group.look(now=BETWEEN)
    assert decode_participants(group.published(KEYS), group.plan).present == NAMES[:4]
    group.mask(NAMES[:4])
    group.look()
    group.answer(NAMES[:4])
    assert group.look().published
    assert decode_factors(group.published(ANSWERS), group.plan).entities == 4


def test_closing_by_hand_closes_the_present_step_only(group: Group) -> None:
    group.share(NAMES[:4])
    assert not group.look().closed
    assert group.look(close=True).step is StepId.MASKED
    assert decode_participants(group.published(KEYS), group.plan).present == NAMES[:4]
    too_few(group, "secure.survivors", close=True)
    group.mask(NAMES[:4])
    group.look()
    too_few(group, "secure.answers", close=True)
    group.answer(NAMES[:4])
    assert group.look(close=True).published


def too_few(group: Group, floor: str, **how: Any) -> TooFewMessages:
    """Look, and be refused for want of so many as this parameter of the plan asks for."""
    with pytest.raises(TooFewMessages) as caught:
        group.look(**how)
    assert caught.value.parameter == floor
    return caught.value


@pytest.mark.parametrize("step", [KEYS, MASKED])
def test_below_the_floor_nothing_is_published(group: Group, step: Step) -> None:
    if step is MASKED:
        group.share()
        group.look()
        group.mask(NAMES[:3])
    else:
        group.share(NAMES[:3])
    for _ in range(2):
        error = too_few(group, "secure.present" if step is KEYS else "secure.survivors", now=AFTER)
        assert (error.found, error.expected) == ("3", "at least 4 of 5")
        assert "new keys" in str(error.fix)
    assert group.published(MASKED) is None
    assert group.published(ANSWERS) is None


def test_garbage_and_strangers_are_refused_and_the_rest_goes_on(group: Group, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Group(tmp_path / "other")
    group.share()
    group.put("noise.s", b"noise")
    other.share()
    group.put("foreign.s", (other.inbox / "site-0.s").read_bytes())
    group.look()
    other.look()
    group.put("foreign.m", other.message("site-0", other.published(KEYS)))
    group.mask()
    refused = group.look().refused
    assert decode_survivors(group.published(MASKED), group.plan).survivors == NAMES
    assert sorted(one.name for one in refused) == ["foreign.m", "foreign.s", "noise.s"]
    assert all("another plan" in one.reason for one in refused if one.name.startswith("foreign"))


def test_a_wrong_answer_is_outvoted_by_more_answers(group: Group) -> None:
    group.share()
    group.look()
    group.mask()
    group.look()
    content = decode_answer(group.answered("site-0"), group.plan).content
    wrong = dataclasses.replace(content, seeds=dict.fromkeys(content.seeds, bytes(33)))
    group.put("site-0.a", encode_answer(wrong, group.plan, signer=group.signer("site-0")))
    group.answer(NAMES[1:4])
    seen = group.look()
    assert (seen.arrived, seen.published, seen.closed) == (4, False, False)
    group.answer(NAMES[1:])
    assert group.look().published


def test_a_message_of_garbage_stops_the_sum_and_says_so(group: Group) -> None:
    group.share()
    group.look()
    content = decode_release(group.message("site-0", group.published(KEYS)), group.plan).content
    noise = np.random.default_rng(1).integers(0, 256, content.packed.shape).astype(np.uint8)
    packed = dataclasses.replace(content, packed=noise)
    forged = encode_release(packed, entity="site-0", plan=group.plan, signer=group.signer("site-0"))
    group.mask(NAMES[1:])
    group.put("site-0.m", forged)
    group.look()
    group.answer()
    for _ in range(2):
        with refused(BadMessage, "checks", "new keys"):
            group.look()
    assert group.published(ANSWERS) is None


def test_an_answer_to_another_list_is_not_taken(group: Group) -> None:
    group.share()
    group.look()
    group.mask()
    group.look()
    listed = decode_participants(group.published(KEYS), group.plan)
    other = answer(group.keys["site-0"], "site-0", group.terms, listed.shares, NAMES, NAMES[:4])
    group.put("site-0.a", encode_answer(other, group.plan, signer=group.signer("site-0")))
    seen = group.look()
    assert seen.arrived == 0
    assert "other lists" in seen.refused[0].reason


def test_a_lost_state_does_not_make_a_second_list(group: Group) -> None:
    """What is published stays; a server that has forgotten and would say otherwise is stopped."""
    group.share(NAMES[:4])
    group.look(now=BETWEEN)
    group.share()
    with pytest.raises(RoundClosed):
        group.look(state="anew")
    group.mask(NAMES[:4])
    group.look()
    before = group.published(MASKED)
    with pytest.raises(RoundClosed):
        group.look(state="anew")
    assert group.published(MASKED) == before


class Crash(BaseException):
    """Stands for the end of the process."""


def crashed(group: Group, patch: pytest.MonkeyPatch, last: int | None, **where: Any) -> tuple[list[str], bool]:
    seen: list[str] = []

    def listen(name: str) -> None:
        seen.append(name)
        if len(seen) == last:
            raise Crash

    with patch.context() as patched:
        patched.setattr(disk, "_listener", listen)
        try:
            group.look(**where)
        except Crash:
            return seen, True
    return seen, False


def test_crashes_all_along_the_steps_on_disk(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of the three steps; the server that is started again publishes the same bytes."""
    for step, send in ((KEYS, group.share), (MASKED, group.mask), (ANSWERS, group.answer)):
        send()
        # A whole run first, in folders of its own, to know the bytes and to count.
        whole = {"state": f"{step.id}-state", "outbox": f"{step.id}-out"}
        copy(group.folder / "state", group.folder / whole["state"])
        copy(group.folder / "out", group.folder / whole["outbox"])
        touches, _ = crashed(group, monkeypatch, None, **whole)
        due = group.published(step, whole["outbox"])
        assert due is not None
        for last in range(1, len(touches) + 1, 5):
            copy(group.folder / "state", group.folder / f"{step.id}-{last}")
            copy(group.folder / "out", group.folder / f"{step.id}-{last}-out")
            where = {"state": f"{step.id}-{last}", "outbox": f"{step.id}-{last}-out"}
            assert crashed(group, monkeypatch, last, **where)[1]
            assert group.published(step, where["outbox"]) in (None, due)
            group.look(**where)
            assert group.published(step, where["outbox"]) == due
        group.look()
        assert group.published(step) == due


def copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.rglob("*")) if source.exists() else ():
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.write_bytes(path.read_bytes())


def test_who_is_missing_in_each_step_and_when_it_can_be_closed(group: Group) -> None:
    def looked() -> tuple[object, ...]:
        seen = group.look()
        return seen.step, seen.quorum, seen.missing, seen.can_close

    group.share(NAMES[:3])
    assert looked() == (StepId.KEYS, 4, NAMES[3:], False)
    group.share(NAMES[:4])
    assert looked() == (StepId.KEYS, 4, NAMES[4:], True)
    group.look(close=True)
    assert looked() == (StepId.MASKED, 4, NAMES[:4], False)
    group.mask(NAMES[:4])
    assert looked() == (StepId.ANSWERS, 4, NAMES[:4], False)
    group.answer(NAMES[:3])
    assert looked() == (StepId.ANSWERS, 4, NAMES[3:4], False)


@pytest.mark.parametrize(("survivors", "advised"), [(4, True), (5, False)])
def test_a_plan_that_needs_all_says_what_another_could_do(group: Group, survivors: int, advised: bool) -> None:
    group.plan = group.plan.with_(secure=group.plan.secure.with_(survivors=survivors, present=0))
    group.share(NAMES[:4])
    error = too_few(group, "secure.present", close=True)
    assert error.expected == "at least 5 of 5"
    assert (Set("secure.present", 4) in error.parts["fix"]) == advised


def test_a_state_under_a_file_is_an_error_of_ours(group: Group) -> None:
    (group.folder / "file").write_text("")
    for state in ("file", "file/state", "no/state"):
        with refused(TransportError, "folder", found=state.rpartition("/")[2]):
            group.look(state=state)
