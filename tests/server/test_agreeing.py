"""A real plan: it starts when everybody has agreed, and a server without the operator's key publishes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.enrolled import OPERATOR, Enrolled, enrolled
from tests.refused import refused
from twofold.errors import PlanMismatch, TooFewMessages
from twofold.federation.agreement import Agreements, decode_agreed, encode_agreement
from twofold.federation.factors import decode_factors
from twofold.federation.folder import ServerFolder
from twofold.federation.mailbox import AGREE, ROUNDS, InProcess, StepId
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity.keys import Secrets
from twofold.server.coordinate import CoordinationStatus, coordinate, server_for, standing
from twofold.server.state import FolderState, MemoryState
from twofold.storage.container import open_container, pack_sealed, unpack
from twofold.storage.signing import SigningKey

NAMES = ("site-0", "site-1", "site-2")


class Group:
    """Three entities of a real plan, and a server in this process."""

    def __init__(self, plan: Plan, make_message: Callable[..., bytes]) -> None:
        self.enrolled: Enrolled = enrolled(plan, *NAMES)
        self.plan = self.enrolled.plan
        self.make_message = make_message
        self.box, self.state = InProcess(), MemoryState()

    def look(self, *, signer: SigningKey | None = None, close: bool = False) -> CoordinationStatus:
        server = server_for(self.plan, signer=signer or self.enrolled.signer())
        return coordinate(server, self.box, state=self.state, close=close)

    def agreement(self, name: str, signer: SigningKey | None = None) -> bytes:
        key = signer or self.enrolled.signer(name)
        signature = Agreements.signed(self.plan, key, name)[name]
        return encode_agreement(signature, self.plan, entity=name, signer=key)

    def agree(self, *names: str) -> None:
        for name in names:
            self.box.submit(AGREE, self.agreement(name), entity=name)

    def release(self, name: str, signer: str | None = None) -> bytes:
        number = NAMES.index(name)
        return self.make_message(self.plan, number, signer=self.enrolled.signer(signer or name))


@pytest.fixture
def group(make_plan: Callable[..., Plan], make_message: Callable[..., bytes]) -> Group:
    return Group(make_plan(simulation=False, n_entities=3), make_message)


def test_agreements_first_and_then_the_rounds(group: Group) -> None:
    group.agree(*NAMES[:2])
    seen = group.look()
    assert (seen.step, seen.arrived, seen.expected, seen.quorum) == (StepId.AGREE, 2, 3, 3)
    assert (seen.missing, seen.can_close, seen.published) == (("site-2",), False, False)
    assert group.box.published(AGREE) is None
    group.agree("site-2")
    seen = group.look()
    assert (seen.step, seen.arrived, seen.expected) == (StepId.ROUNDS, 0, 3)
    assert decode_agreed(group.box.published(AGREE), group.plan) == group.enrolled.agreements
    for name in NAMES:
        group.box.submit(ROUNDS, group.release(name), entity=name)
    assert group.look().published
    assert decode_factors(group.box.published(ROUNDS), group.plan).entities == 3


def test_nobody_closes_the_agreement_for_the_others(group: Group) -> None:
    """Neither the deadline of the rounds nor the operator: without agreement nobody takes part in a real plan."""
    group.agree(*NAMES[:2])
    with refused(TooFewMessages, "entities", found="2", expected="at least 3 of 3"):
        group.look(close=True)
    assert group.box.published(AGREE) is None


def test_messages_of_the_rounds_wait_for_the_agreement(group: Group) -> None:
    for name in NAMES:
        group.box.submit(ROUNDS, group.release(name), entity=name)
    seen = group.look()
    assert (seen.step, seen.arrived) == (StepId.AGREE, 0)
    assert group.box.published(ROUNDS) is None
    group.agree(*NAMES)
    assert group.look().published


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("who", ["nobody", "site-0", "stranger", "re-enrolled"])
def test_a_server_without_the_operators_key(make_plan: Callable[..., Plan], who: str, secure: bool) -> None:
    changes = {"mechanism": "gram", "secure": SecureSum(survivors=3)} if secure else {}
    made = enrolled(make_plan(simulation=False, n_entities=3, **changes), *NAMES)
    renewed = Secrets.new(OPERATOR, made.secrets[OPERATOR].role).sign
    key = {"nobody": None, "site-0": made.signer("site-0"), "stranger": SigningKey.new(), "re-enrolled": renewed}[who]
    box = InProcess()
    with refused(PlanMismatch, "keys", found="no key" if key is None else "another key", expected=OPERATOR):
        coordinate(server_for(made.plan, signer=key), box, state=MemoryState())
    assert box.published(AGREE) is None


def test_a_simulation_with_a_roster_needs_the_key_as_well(make_plan: Callable[..., Plan]) -> None:
    made = enrolled(make_plan(n_entities=3), *NAMES)
    assert made.plan.simulation
    with refused(PlanMismatch, "keys"):
        coordinate(server_for(made.plan), InProcess(), state=MemoryState())


@pytest.mark.parametrize("hashes", [False, True])
def test_a_real_plan_without_its_roster(make_plan: Callable[..., Plan], hashes: bool) -> None:
    plan = make_plan(simulation=False)
    if hashes:
        plan = Plan.from_dict(enrolled(plan, *NAMES).plan.as_dict())
    with refused(PlanMismatch, "roster"):
        coordinate(server_for(plan, signer=SigningKey.new()), InProcess(), state=MemoryState())


def test_how_it_stands_can_be_seen_without_the_key(group: Group) -> None:
    group.agree("site-1")
    group.look()
    seen = standing(server_for(group.plan), group.box, state=group.state)
    assert (seen.step, seen.missing) == (StepId.AGREE, ("site-0", "site-2"))


class Folder:
    """A folder that strangers can write to."""

    def __init__(self, group: Group, place: Path) -> None:
        self.group, self.inbox, self.place = group, place / "in", place
        self.inbox.mkdir()
        (place / "out").mkdir()

    def put(self, name: str, data: bytes) -> None:
        (self.inbox / name).write_bytes(data)

    def look(self) -> CoordinationStatus:
        plan = self.group.plan
        box = ServerFolder(self.inbox, self.place / "out", plan)
        server = server_for(plan, signer=self.group.enrolled.signer())
        return coordinate(server, box, state=FolderState(self.place / "state", plan))

    def published(self, suffix: str) -> Any:
        return list((self.place / "out").glob(f"*.{suffix}"))


def test_a_stranger_with_the_folder_neither_lies_nor_stalls(group: Group, tmp_path: Path) -> None:
    """Audit: an unsigned message under somebody's name made two, and none of them counted."""
    folder, thief = Folder(group, tmp_path), SigningKey.new()
    for name in NAMES:
        folder.put(f"0-forged-{name}", group.agreement(name, signer=thief))
        folder.put(f"1-{name}", group.agreement(name))
        folder.put(f"2-forged-{name}", group.agreement(name, signer=group.enrolled.signer("site-0")))
    seen = folder.look()
    assert seen.step is StepId.ROUNDS
    assert len(folder.published("agreed")) == 1
    for name in NAMES:
        honest = group.release(name)
        folder.put(f"0-unsigned-{name}-r", repacked(honest, None))
        folder.put(f"1-{name}-r", honest)
        folder.put(f"2-stolen-{name}-r", repacked(honest, thief))
        folder.put(f"3-insider-{name}-r", repacked(honest, group.enrolled.signer(NAMES[NAMES.index(name) - 1])))
    seen = folder.look()
    assert (seen.published, seen.arrived) == (True, 3)
    assert decode_factors(folder.published("round2")[0].read_bytes(), group.plan).entities == 3
    forged = {one for one in seen.refused if one.reason.startswith("BadMessage")}
    assert sorted(one.name for one in forged) == sorted(2 * NAMES)  # no signature; another key
    assert len(seen.refused) == len(forged)


def repacked(data: bytes, signer: SigningKey | None) -> bytes:
    """Another message under the same name, with everything but the right signature."""
    container = open_container(data)
    arrays = unpack(data, container, container.layouts)
    record = {name: value for name, value in container.record.items() if name not in ("checksum", "signature")}
    return pack_sealed(record | {"note": "forged"}, arrays, signer=signer)


def test_a_new_server_each_time(group: Group, tmp_path: Path) -> None:
    """The first version kept agreement and rounds in one folder: nothing came after the agreement."""
    folder = Folder(group, tmp_path)
    for number, name in enumerate(NAMES):
        folder.put(f"{name}-a", group.agreement(name))
        seen = folder.look()
        assert (seen.step, seen.arrived) == ((StepId.AGREE, number + 1) if number < 2 else (StepId.ROUNDS, 0))
    (agreed,) = folder.published("agreed")
    before = agreed.read_bytes()
    for number, name in enumerate(NAMES):
        folder.put(f"{name}-r", group.release(name))
        seen = folder.look()
        assert (seen.step, seen.arrived, seen.published) == (StepId.ROUNDS, number + 1, number == 2)
    assert agreed.read_bytes() == before
    (factors,) = folder.published("round2")
    published = factors.read_bytes()
    assert decode_factors(published, group.plan).entities == 3
    assert folder.look().published
    assert factors.read_bytes() == published
