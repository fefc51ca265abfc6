"""Three steps, however often the server is killed; below a floor nothing comes out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from twofold.entity.secure import Masks
from twofold.errors import BadMessage, NotReady, RoundClosed, TooFewMessages, TransportError
from twofold.federation.folder import ServerFolder
from twofold.federation.key_messages import decode_answer, decode_roll, decode_survivors, encode_answer, encode_shares
from twofold.federation.messages import decode_factors, decode_release, encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.federation.steps import ANSWERS, KEYS, MASKED, Phase
from twofold.identity.roster import Roster
from twofold.secure_sum import Keys, answer, share_secrets
from twofold.server.secure_coordinate import SecureCoordinator
from twofold.storage import files as disk

NAMES = tuple(f"site-{number}" for number in range(5))
BEFORE, BETWEEN, AFTER = (datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=days) for days in (-9, 0.5, 9))


class Group:
    """Five entities of a simulation; what they send is put into a folder as it is."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inbox, self.outbox = folder / "in", folder / "out"
        self.keys = {name: Keys.new() for name in NAMES}
        roster = Roster({name: one.public for name, one in self.keys.items()})
        deadlines = {"share_deadline": "2027-01-01T00:00:00Z"}
        self.plan = Plan(
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
            secure=SecureSum(survivors=4, present=4, roster=roster, **deadlines),
        )

    def server(self, *, now: datetime = BEFORE, state: str = "state", outbox: str = "out") -> SecureCoordinator:
        (self.folder / outbox).mkdir(exist_ok=True)

        def box(phase: Phase) -> ServerFolder:
            return ServerFolder(self.inbox, self.folder / outbox, self.plan, phase=phase)

        return SecureCoordinator(self.plan, box, state=self.folder / state, clock=lambda: now)

    def published(self, phase: Phase, outbox: str = "out") -> bytes | None:
        found = list((self.folder / outbox).glob(f"*.{phase.down_suffix}"))
        assert len(found) <= 1
        return found[0].read_bytes() if found else None

    def put(self, name: str, data: bytes) -> None:
        self.inbox.mkdir(exist_ok=True)
        (self.inbox / name).write_bytes(data)

    def share(self, names: Sequence[str] = NAMES) -> None:
        server = self.server()
        for name in names:
            content = share_secrets(self.keys[name], name, server._keys.server.terms)
            self.put(f"{name}.s", encode_shares(content, self.plan))

    def message(self, name: str, roll: bytes) -> bytes:
        seed = NAMES.index(name)
        rows = np.random.default_rng(seed).integers(0, 4, (30, 8)).astype(float)
        rows[:, 4:] = 0
        terms = self.server()._keys.server.terms
        masks = Masks(name=name, keys=self.keys[name], terms=terms, roll=decode_roll(roll, self.plan))
        drawn = self.plan.release_mechanism.release(rows, self.plan.parameters, rng=seed).value
        return encode_release(masks.hide(drawn), entity=name, plan=self.plan)

    def mask(self, names: Sequence[str] = NAMES) -> None:
        for name in names:
            self.put(f"{name}.m", self.message(name, self.published(KEYS)))

    def answered(self, name: str) -> bytes:
        listed = decode_roll(self.published(KEYS), self.plan)
        lists = decode_survivors(self.published(MASKED), self.plan)
        terms = self.server()._keys.server.terms
        made = answer(self.keys[name], name, terms, listed.shares, lists.present, lists.survivors)
        return encode_answer(made, self.plan)

    def answer(self, names: Sequence[str] = NAMES) -> None:
        for name in names:
            self.put(f"{name}.a", self.answered(name))


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_all_three_steps_a_new_server_each_time(group: Group) -> None:
    group.share(NAMES[:3])
    seen = group.server().step()
    assert (seen.arrived, seen.expected, seen.published, group.server().step_name) == (3, 5, False, "key shares")
    group.share()
    assert (group.server().step().expected, group.server().step_name) == (5, "messages")
    group.mask()
    assert (group.server().step().arrived, group.server().step_name) == (0, "answers")
    group.answer(NAMES[:3])
    assert group.server().step().arrived == 3
    group.answer(NAMES[:4])
    seen = group.server().step()
    assert (seen.arrived, seen.closed, seen.published) == (4, True, True)
    assert decode_factors(group.published(ANSWERS), group.plan).entities == 5
    group.answer()
    assert group.server().step().published
    assert [one.name for one in group.server().refused()] == ["site-4"]


def test_drop_outs_before_between_and_after(group: Group) -> None:
    group.share(NAMES[:4])  # site-4 never comes
    assert not group.server().step().published
    group.server(now=BETWEEN).step()
    assert decode_roll(group.published(KEYS), group.plan).present == NAMES[:4]
    group.share()  # too late
    group.server(now=BETWEEN).step()
    assert decode_roll(group.published(KEYS), group.plan).present == NAMES[:4]
    group.mask(NAMES[:4])
    group.server().step()
    group.answer(NAMES[:4])
    assert group.server().step().published
    assert decode_factors(group.published(ANSWERS), group.plan).entities == 4


def test_closing_by_hand_closes_the_present_step_only(group: Group) -> None:
    group.share(NAMES[:4])
    assert not group.server().step().closed
    group.server().step(close=True)
    assert decode_roll(group.published(KEYS), group.plan).present == NAMES[:4]
    assert group.server().step_name == "messages"
    with pytest.raises(TooFewMessages, match="too few messages"):
        group.server().step(close=True)
    group.mask(NAMES[:4])
    group.server().step()
    with pytest.raises(TooFewMessages, match="too few answers"):
        group.server().step(close=True)
    group.answer(NAMES[:4])
    assert group.server().step(close=True).published


@pytest.mark.parametrize("step", ["key shares", "messages"])
def test_below_the_floor_nothing_is_published(group: Group, step: str) -> None:
    if step == "messages":
        group.share()
        group.server().step()
        group.mask(NAMES[:3])
    else:
        group.share(NAMES[:3])
    for _ in range(2):
        with pytest.raises(TooFewMessages, match=rf"too few {step}[\s\S]*nothing is unmasked[\s\S]*at least 4"):
            group.server(now=AFTER).step()
    assert group.published(MASKED) is None
    assert group.published(ANSWERS) is None


def test_garbage_and_strangers_are_refused_and_the_rest_goes_on(group: Group, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Group(tmp_path / "other")
    group.share()
    group.put("noise.s", b"noise")
    other.share()
    group.put("foreign.s", (other.inbox / "site-0.s").read_bytes())
    group.server().step()
    other.server().step()
    group.put("foreign.m", other.message("site-0", other.published(KEYS)))
    group.mask()
    server = group.server()
    server.step()
    assert decode_survivors(group.published(MASKED), group.plan).survivors == NAMES
    named = [one.name for one in server.refused()]
    assert sorted(named) == ["foreign.m", "foreign.s", "noise.s"]
    assert all("another plan" in one.reason for one in server.refused() if one.name.startswith("foreign"))


def test_a_wrong_answer_is_outvoted_by_more_answers(group: Group) -> None:
    group.share()
    group.server().step()
    group.mask()
    group.server().step()
    content = decode_answer(group.answered("site-0"), group.plan).content
    wrong = dataclasses.replace(content, seeds=dict.fromkeys(content.seeds, bytes(33)))
    group.put("site-0.a", encode_answer(wrong, group.plan))
    group.answer(NAMES[1:4])
    seen = group.server().step()
    assert (seen.arrived, seen.published, seen.closed) == (4, False, False)
    group.answer(NAMES[1:])
    assert group.server().step().published


def test_a_message_of_garbage_stops_the_sum_and_says_so(group: Group) -> None:
    group.share()
    group.server().step()
    content = decode_release(group.message("site-0", group.published(KEYS)), group.plan).content
    noise = np.random.default_rng(1).integers(0, 256, content.packed.shape).astype(np.uint8)
    forged = encode_release(dataclasses.replace(content, packed=noise), entity="site-0", plan=group.plan)
    group.mask(NAMES[1:])
    group.put("site-0.m", forged)
    group.server().step()
    group.answer()
    for _ in range(2):
        with pytest.raises(BadMessage, match=r"garbage[\s\S]*new plan and new keys"):
            group.server().step()
    assert group.published(ANSWERS) is None


def test_an_answer_to_another_list_is_not_taken(group: Group) -> None:
    group.share()
    group.server().step()
    group.mask()
    group.server().step()
    listed = decode_roll(group.published(KEYS), group.plan)
    terms = group.server()._keys.server.terms
    other = answer(group.keys["site-0"], "site-0", terms, listed.shares, NAMES, NAMES[:4])
    group.put("site-0.a", encode_answer(other, group.plan))
    server = group.server()
    assert server.step().arrived == 0
    assert "other lists" in server.refused()[0].reason


def test_a_lost_state_does_not_make_a_second_list(group: Group) -> None:
    """What is published stays; a server that has forgotten and would say otherwise is stopped."""
    group.share(NAMES[:4])
    group.server(now=BETWEEN).step()
    group.share()
    with pytest.raises(RoundClosed):
        group.server(state="anew").step()
    group.mask(NAMES[:4])
    group.server().step()
    before = group.published(MASKED)
    with pytest.raises(RoundClosed):
        group.server(state="anew").step()
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
            group.server(**where).step()
        except Crash:
            return seen, True
    return seen, False


def test_crashes_all_along_the_steps_on_disk(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each of the three steps; the server that is started again publishes the same bytes."""
    for phase, send in ((KEYS, group.share), (MASKED, group.mask), (ANSWERS, group.answer)):
        send()
        # A whole run first, in folders of its own, to know the bytes and to count.
        whole = {"state": f"{phase.name}-state", "outbox": f"{phase.name}-out"}
        copy(group.folder / "state", group.folder / whole["state"])
        copy(group.folder / "out", group.folder / whole["outbox"])
        steps, _ = crashed(group, monkeypatch, None, **whole)
        due = group.published(phase, whole["outbox"])
        assert due is not None
        for last in range(1, len(steps) + 1, 5):
            copy(group.folder / "state", group.folder / f"{phase.name}-{last}")
            copy(group.folder / "out", group.folder / f"{phase.name}-{last}-out")
            where = {"state": f"{phase.name}-{last}", "outbox": f"{phase.name}-{last}-out"}
            assert crashed(group, monkeypatch, last, **where)[1]
            assert group.published(phase, where["outbox"]) in (None, due)
            group.server(**where).step()
            assert group.published(phase, where["outbox"]) == due
        group.server().step()
        assert group.published(phase) == due


def copy(source: Path, target: Path) -> None:
    target.mkdir()
    for path in sorted(source.rglob("*")) if source.exists() else ():
        place = target / path.relative_to(source)
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            place.write_bytes(path.read_bytes())


def test_run_waits_and_gives_up(group: Group) -> None:
    group.share(NAMES[:2])
    with pytest.raises(NotReady, match="2 of 5 key shares"):
        group.server().run(poll=0.01, timeout=0.0)


def test_who_is_missing_in_each_step_and_when_it_can_be_closed(group: Group) -> None:
    def looked() -> tuple[object, ...]:
        server = group.server()
        server.step()
        return server.step_name, server.quorum, server.missing(), server.can_close

    group.share(NAMES[:3])
    assert looked() == ("key shares", 4, NAMES[3:], False)
    group.share(NAMES[:4])
    assert looked() == ("key shares", 4, NAMES[4:], True)
    group.server().step(close=True)
    assert looked() == ("messages", 4, NAMES[:4], False)
    group.mask(NAMES[:4])
    assert looked() == ("answers", 4, NAMES[:4], False)
    group.answer(NAMES[:3])
    assert looked() == ("answers", 4, NAMES[3:4], False)


@pytest.mark.parametrize(("survivors", "says"), [(4, "--present 4 would allow one"), (5, "needs all 5 to share keys$")])
def test_a_plan_that_needs_all_says_what_another_could_do(group: Group, survivors: int, says: str) -> None:
    group.plan = group.plan.with_(secure=group.plan.secure.with_(survivors=survivors, present=0))
    group.share(NAMES[:4])
    with pytest.raises(TooFewMessages, match=rf"(?ms)nothing is published.*{says}"):
        group.server().step(close=True)


def test_a_state_under_a_file_is_an_error_of_ours(group: Group) -> None:
    (group.folder / "file").write_text("")
    for state in ("file", "file/state", "no/state"):
        with pytest.raises(TransportError, match="a folder cannot be used"):
            group.server(state=state)
