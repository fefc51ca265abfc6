"""A federation whose server sees only sums, by folders: drop-outs, forgers, kills at any instant, and the exact sum."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from benchmarks._kill_points import SINGLE
from tests.enrolled import Enrolled, enrolled
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity, bounded
from twofold.entity.participate import ParticipationStatus, participate
from twofold.errors import BadMessage, PlanMismatch, PrivacyError, TooFewMessages
from twofold.federation.folder import EntityFolder, ServerFolder
from twofold.federation.key_messages import decode_survivors, encode_survivors
from twofold.federation.mailbox import ANSWERS, KEYS, MASKED, Step, StepId
from twofold.federation.messages import decode_release, encode_release
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.release.content import BilinearSums, plain_sum
from twofold.server.coordinate import CoordinationStatus, coordinate
from twofold.server.secure import SecureServer
from twofold.server.state import FolderState
from twofold.storage.container import open_container, pack_sealed

ROOT = Path(__file__).parents[2]
NAMES = tuple(f"site-{number}" for number in range(7))
CATALOG = Catalog([f"item-{number:02d}" for number in range(12)])
START = datetime(2027, 1, 1, tzinfo=UTC)


def people(seed: int) -> Ratings:
    """Two kinds of people, each with items of their own."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((30, 12))
    for number, row in enumerate(counts):
        row[6 * (number % 2) + rng.choice(6, 4, replace=False)] = rng.integers(1, 6, 4)
    return Ratings(sparse.csr_array(counts), Identifiers([f"p{row}" for row in range(30)]), CATALOG, "counts")


class Federation:
    """Seven entities and a server around one folder. Everybody is a new object every time: killed in between."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.box = folder, folder / "box"
        self.box.mkdir(parents=True)
        plan = Plan(
            catalog=CATALOG,
            feedback="counts",
            bound=5,
            max_items=4,
            rank=3,
            mechanism="gram",
            epsilon=30,
            n_users=30,
            n_entities=7,
            deadline="2027-01-03T00:00:00Z",
            simulation=True,
            secure=SecureSum(survivors=5, present=6, share_deadline="2027-01-02T00:00:00Z"),
        )
        self.enrolled: Enrolled = enrolled(plan, *NAMES, folder=folder)
        self.plan, self.server = self.enrolled.plan, SecureServer(self.enrolled.plan, signer=self.enrolled.signer())

    def entity(self, name: str) -> Entity:
        seed = NAMES.index(name)
        return Entity(name, people(seed), self.plan, rng=seed, keys=self.folder / f"{name}.keys")

    def join(self, names: Sequence[str]) -> list[ParticipationStatus]:
        return [participate(self.entity(name), EntityFolder(self.box, self.box, self.plan)) for name in names]

    def serve(self, days: float = 0) -> CoordinationStatus:
        box, state = ServerFolder(self.box, self.box, self.plan), FolderState(self.folder / "state", self.plan)
        now = START + timedelta(days=days)
        return coordinate(self.server, box, state=state, clock=lambda: now)

    def files(self, suffix: str) -> list[Path]:
        return sorted(self.box.glob(f"*.{suffix}"))

    def published(self, step: Step) -> bytes:
        (path,) = self.files(step.down.suffix)
        return path.read_bytes()

    def message(self, name: str) -> bytes:
        return self.entity(name).release(self.published(KEYS)).data

    def forge(self, name: str, data: bytes) -> None:
        """Put other bytes under an entity's name before it sends its own; it stays away then."""
        (self.box / f"{name}.forged").write_bytes(data)

    def total(self) -> BilinearSums:
        """What the server laid open, from the very files."""
        stored = [path.read_bytes() for path in (self.folder / "state" / "masked" / "messages").glob("*.round1")]
        answers = [path.read_bytes() for path in self.files(ANSWERS.up.suffix)]
        participants, survivors = self.published(KEYS), self.published(MASKED)
        return self.server.total(stored, answers, participants=participants, survivors=survivors)

    def plain(self, names: Sequence[str]) -> BilinearSums:
        """The same seeded releases without masks, added up."""

        def released(name: str) -> BilinearSums:
            seed = NAMES.index(name)
            rows = bounded(people(seed), self.plan).matrix
            return self.plan.release_mechanism.release(rows, self.plan.parameters, rng=seed).value

        return plain_sum(released(name) for name in names)


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path / "federation")


@pytest.mark.parametrize(
    ("shared", "masked", "answered"),
    [
        (NAMES, NAMES, NAMES),
        (NAMES[1:], NAMES[1:], NAMES[1:]),
        (NAMES, NAMES[1:], NAMES[1:]),
        (NAMES, NAMES, NAMES[2:]),
        (NAMES[:6], NAMES[:5], NAMES[:5]),
    ],
    ids=["nobody", "before sharing", "before masking", "two after masking", "one before sharing, one before masking"],
)
def test_drop_outs(
    federation: Federation, shared: Sequence[str], masked: Sequence[str], answered: Sequence[str]
) -> None:
    federation.join(shared)
    assert not federation.serve().published
    federation.serve(1.5)
    federation.join(masked)
    federation.serve(2.5)
    federation.join(answered)
    done = federation.serve(2.5)
    assert (done.published, done.arrived) == (True, len(answered))
    total = federation.total()
    assert (total.numbers == federation.plain(masked).numbers).all()
    assert total.entities == len(masked)
    # Everybody gets the item factors, also those who dropped out, and recommends with them.
    standings = dict(zip(NAMES, federation.join(NAMES), strict=True))
    assert [name for name, one in standings.items() if one.dropped] == [name for name in NAMES if name not in masked]
    factors = {one.factors for one in standings.values()}
    assert len(factors) == 1
    for name in (NAMES[0], NAMES[-1]):
        model = federation.entity(name).personalize(factors.copy().pop(), local="factors", strength="shared", threads=1)
        assert len(model.recommend("p1", n=3)) == 3


def resealed(federation: Federation, data: bytes, packed: Any = None, **changes: Any) -> bytes:
    """Change a message of site-0 and sign it again with the key of site-0: the entity itself lies."""
    sealed = ("checksum", "signature")
    record = {name: value for name, value in open_container(data).record.items() if name not in sealed}
    whole = decode_release(data, federation.plan).content.packed
    signer = federation.enrolled.signer("site-0")
    return pack_sealed(record | changes, {"masked": whole if packed is None else packed}, signer=signer)


@pytest.mark.parametrize("forgery", ["noise", "another federation", "another modulus", "another length"])
def test_whoever_sends_what_does_not_fit_is_a_drop_out(federation: Federation, tmp_path: Path, forgery: str) -> None:
    federation.join(NAMES)
    federation.serve()
    if forgery == "noise":
        data = b"\x00" * 5_000
    elif forgery == "another federation":
        other = Federation(tmp_path / "other")
        other.join(NAMES)
        other.serve()
        data = other.message("site-0")
    elif forgery == "another modulus":
        data = resealed(federation, federation.message("site-0"), bits=64)
    else:
        good = federation.message("site-0")
        packed = decode_release(good, federation.plan).content.packed[:-1]
        data = resealed(federation, good, packed)
    federation.forge("site-0", data)
    federation.join(NAMES[1:])
    assert not federation.serve().published
    assert ["site-0" in one.name for one in federation.serve(2.5).refused] == [True]
    federation.join(NAMES[1:])
    assert federation.serve(2.5).published
    assert (federation.total().numbers == federation.plain(NAMES[1:]).numbers).all()


def test_a_forged_message_with_the_right_header_spoils_the_sum_and_nothing_comes_out(federation: Federation) -> None:
    federation.join(NAMES)
    federation.serve()
    good = decode_release(federation.message("site-0"), federation.plan).content
    packed = np.random.default_rng(5).integers(0, 256, good.packed.shape).astype(np.uint8)
    signer = federation.enrolled.signer("site-0")
    content = dataclasses.replace(good, packed=packed)
    forged = encode_release(content, entity="site-0", plan=federation.plan, signer=signer)
    federation.forge("site-0", forged)
    federation.join(NAMES[1:])
    federation.serve()
    federation.join(NAMES[1:])
    answer = federation.entity("site-0").answer(federation.published(MASKED), federation.published(KEYS))
    (federation.box / "site-0.a").write_bytes(answer)
    with refused(BadMessage, "checks", "new keys"):
        federation.serve()
    assert federation.files("round2") == []


def test_swapped_keys_share_nothing(federation: Federation) -> None:
    one, two = (federation.folder / f"{name}.keys" for name in NAMES[:2])
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with refused(PlanMismatch, "keys", found="site-1"):
        federation.join(NAMES[:1])
    assert federation.files("shares") == []


def test_below_the_floor_nothing_is_unmasked(federation: Federation) -> None:
    federation.join(NAMES)
    federation.serve()
    federation.join(NAMES[:3])
    for _ in range(2):
        with pytest.raises(TooFewMessages) as caught:
            federation.serve(9)
        assert (caught.value.parameter, caught.value.found) == ("secure.survivors", "3")
    assert federation.files("survivors") + federation.files("round2") == []
    standing = federation.join(NAMES[:1])[0]
    assert (standing.waits, standing.factors) == (StepId.MASKED, None)
    # Late ones still count.
    federation.join(NAMES[:5])
    federation.serve(9)
    assert decode_survivors(federation.published(MASKED), federation.plan).survivors == NAMES[:5]


def test_a_second_list_of_survivors_is_refused(federation: Federation) -> None:
    federation.join(NAMES)
    federation.serve()
    federation.join(NAMES)
    federation.serve()
    federation.join(NAMES[:1])
    other = encode_survivors(NAMES, NAMES[:5], federation.plan, signer=federation.enrolled.signer())
    with refused(PrivacyError, "already"):
        federation.entity("site-0").answer(other, federation.published(KEYS))


# Runs in a process of its own, whose children are killed: a fork must not copy threads.
KILLS = """
import json, os, shutil, sys, warnings
from pathlib import Path
from benchmarks._kill_points import Kill, forked, was_killed
sys.path.insert(0, str(Path(sys.argv[2]).parent))
from benchmarks._kill_points import SINGLE
from tests.enrolled import enrolled
from test_secure_federation import CATALOG, people
from twofold.entity.agent import Entity
from twofold.entity.participate import participate
from twofold.errors import PrivacyError
from twofold.privacy.ledger import Ledger
from twofold.federation.key_messages import encode_survivors
from twofold.federation.mailbox import ANSWERS, KEYS, MASKED
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.server.secure import SecureServer
from twofold.federation.folder import EntityFolder, ServerFolder

home, names = Path(sys.argv[1]), ("a", "b", "c", "d", "e")
base = home / "base"
(base / "box").mkdir(parents=True)
plan = Plan(catalog=CATALOG, feedback="counts", bound=5, max_items=4, rank=2, mechanism="gram", n_users=30,
            n_entities=5, secure=SecureSum(survivors=4))
all = enrolled(plan, *names, folder=base)
plan, operator = all.plan, all.signer()
server, rows = SecureServer(plan, signer=operator), people(1)
for name in names:
    Ledger.create(base / f"{name}.ledger", dataset=name, ceiling=plan.budget, unit=plan.unit)

def entity(name, place):
    keys = place / f"{name}.keys"
    return Entity(name, rows, plan, ledger=place / f"{name}.ledger", keys=keys, agreements=all.agreements)

def join(name, place):
    return participate(entity(name, place), EntityFolder(place / "box", place / "box", plan))

def own(place):
    kept = {path.name: path.read_bytes() for path in place.glob("a.keys*") if path.suffix != ".lock"}
    return kept | {path.name: path.read_bytes() for path in (place / "box").glob("a.*")}

def killed(place, touch):
    child = forked(lambda *_: bool(join("a", place)), Kill("touch", touch))
    died = was_killed(os.waitpid(child.pid, 0)[1])
    os.close(child.pipe)
    return died

tally = {"kills": 0, "changed": 0, "charges": 0, "conflicts": 0, "both_lists": 0, "left": 0}
def torture(stage):
    touch = 1
    while True:
        place = home / f"{stage}-{touch}"
        shutil.copytree(base, place)
        if not killed(place, touch):
            return touch
        tally["kills"] += 1
        before = own(place)
        if stage == "answers" and touch % 2:
            answered = other_list(place)
            tally["both_lists"] += answered and any(name.endswith(".answer") for name in before)
        else:
            join("a", place)
            after = own(place)
            join("a", place)
            tally["changed"] += any(after.get(name) != data for name, data in before.items()) or own(place) != after
            sent = [name.rpartition(".")[2] for name in after if not name.startswith("a.keys")]
            tally["conflicts"] += len(sent) != len(set(sent))
            tally["left"] += {"keys": 2, "masked": 3, "answers": 4}[stage] != len(sent)
        entries = Ledger(place / "a.ledger").state().entries
        tally["charges"] += len(entries) != (0 if stage == "keys" else 1)
        shutil.rmtree(place)
        touch += int(sys.argv[3])

def other_list(place):
    '''Whether the entity answers another list after the kill, and then refuses the first.'''
    participants = ServerFolder(place / "box", place / "box", plan).published(KEYS)
    lists = encode_survivors(names, ("a", "b", "c", "d"), plan, signer=operator)
    try:
        entity("a", place).answer(lists, participants)
    except PrivacyError:
        return False
    try:
        join("a", place)
    except PrivacyError:
        return True
    tally["both_lists"] += 1
    return True

touches = {"keys": torture("keys")}
box = ServerFolder(base / "box", base / "box", plan)
for step in (KEYS, MASKED):
    for name in names:
        join(name, base)
    sent = [one.read() for one in box.submissions(step)]
    if step is KEYS:
        box.publish(step, server.participants(sent))
        touches["masked"] = torture("masked")
    else:
        box.publish(step, server.survivors(sent, box.published(KEYS)))
        touches["answers"] = torture("answers")
print(json.dumps(tally | {"touches": touches}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_an_entity_killed_anywhere_sends_the_same_bytes_and_pays_once(fast_disk: Path, stride: int) -> None:
    command = [sys.executable, "-c", KILLS, str(fast_disk), __file__, str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | SINGLE)
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout)
    touches, kills = tally.pop("touches"), tally.pop("kills")
    assert min(touches.values()) > 10
    assert kills >= sum(touches.values()) // stride - 3
    assert tally == dict.fromkeys(tally, 0)
