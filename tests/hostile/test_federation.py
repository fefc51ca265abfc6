"""Hostile members of a federation and strangers in its folders: no lie is believed, and nobody answers twice."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from studies.trust.strip import lists_for, open_group
from tests.hostile.federation import NAMES, Stage, small_plan
from tests.refused import refused
from twofold.errors import BadMessage, ConflictingMessage, PlanMismatch, PrivacyError
from twofold.federation.bodies import encode_body
from twofold.federation.factors import decode_factors
from twofold.federation.inbox import Found, Scanner
from twofold.federation.key_messages import decode_answer, decode_shares, encode_answer, encode_shares
from twofold.federation.mailbox import MASKED, ROUNDS, StepId
from twofold.federation.messages import ROLL, SURVIVORS, decode_release, encode_release
from twofold.federation.secure import SecureSum
from twofold.identity.keystore import KeyStore
from twofold.secure_sum import MaskedMessage
from twofold.server.secure import masked_message
from twofold.server.state import FolderState
from twofold.storage.container import open_container, pack_sealed, receipt, unpack
from twofold.storage.signing import SigningKey

pytestmark = pytest.mark.long

HONEST = NAMES[:4]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Five entities of which four must survive; `e` works with the operator."""
    return Stage(tmp_path, small_plan(*NAMES, secure=SecureSum(survivors=4)))


def masked(stage: Stage) -> dict[str, MaskedMessage]:
    return {name: masked_message(decode_release(stage.sent(name, "round1")[0], stage.plan)) for name in HONEST}


# The operator and one participant together.


def test_different_lists_to_different_entities_open_no_sum_below_the_promise(stage: Stage) -> None:
    shares = stage.to_the_lists()
    best = lists_for(NAMES, "e", threshold=stage.terms.threshold, survivors=stage.terms.least_survivors)
    for name in HONEST:
        stage.show("survivors", stage.survivors(best.lists[name]), name)
        stage.join(name)
    answers = stage.answers(*HONEST)
    assert len(answers) == 4
    own = {"e": KeyStore(stage.folder / "e.keys").keys}
    assert open_group(best.group, masked(stage), answers, shares, own, stage.terms) is not None
    assert len(best.group) >= stage.plan.parameters.honest + 1  # and not one message less
    for name in HONEST:
        for victim in HONEST:
            assert open_group((victim,), masked(stage), answers, shares, own, stage.terms) is None
        # Another list in the place of the first is not answered; both of them are evidence.
        first = next(stage.inbox(name).glob("*.survivors")).read_bytes()
        stage.hide("survivors", name)
        other = NAMES if len(best.lists[name]) == 4 else tuple(one for one in NAMES if one != "e")
        stage.show("survivors", stage.survivors(other), name)
        with refused(PrivacyError, "already"):
            stage.join(name)
        stage.show("survivors", first, name)
        with refused(ConflictingMessage, "inbox"):
            stage.join(name)
    assert stage.answers(*HONEST) == answers


def test_an_older_copy_of_the_files_beside_the_keys_sends_no_second_answer(stage: Stage) -> None:
    """The answer in the outbox is the last guard; without it nobody remembers."""
    stage.to_the_lists()
    stage.show("survivors", stage.survivors(NAMES), "a")
    stage.join("a")
    first = stage.answers("a")
    (stage.folder / "a.keys.answer").unlink()
    stage.hide("survivors", "a")
    stage.show("survivors", stage.survivors(HONEST), "a")
    with refused(ConflictingMessage, "entity"):
        stage.join("a")
    assert stage.answers("a") == first


LISTS = {
    "the victim twice": (["a", "a", "b", "c", "d"], None),
    "the victim twice for another": (["a", "a", "c", "d"], None),
    "out of order": (["b", "a", "c", "d"], None),
    "a stranger": (["a", "b", "c", "z"], None),
    "too few": (["a", "b", "c"], None),
    "nobody": ([], None),
    "not names": ([1, 2, 3, 4], None),
    "one who is absent": (["a", "b", "c", "e"], ["a", "b", "c", "d"]),
    "another list of those present": (["a", "b", "c", "d"], ["a", "b", "c", "d"]),
    "everybody twice": (list(NAMES) * 2, list(NAMES) * 2),
}


@pytest.mark.parametrize("what", LISTS)
def test_a_signed_list_that_makes_no_sense_is_not_answered(stage: Stage, what: str) -> None:
    stage.to_the_lists()
    survivors, present = LISTS[what]
    stage.show("survivors", stage.survivors(survivors, present), "a")
    assert stage.join("a").waits is StepId.MASKED
    assert stage.answers("a") == {}
    stage.hide("survivors", "a")
    stage.show("survivors", stage.survivors(NAMES), "a")
    assert stage.join("a").waits is StepId.ANSWERS
    assert set(stage.answers("a")["a"].seeds) == set(NAMES)


def test_survivors_who_shared_no_keys_are_not_answered(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small_plan(*NAMES, "f", secure=SecureSum(survivors=5, present=5)))
    shares = stage.shares()
    present = [name for name in stage.plan.entities if name != "f"]
    stage.show("roll", stage.roll({name: shares[name] for name in present}))
    stage.join("a")
    for wrong in ((present, None), (["a", "b", "c", "d", "f"], present), (NAMES, (*NAMES, "f"))):
        stage.show("survivors", stage.survivors(*wrong), "a")
        with suppress(PlanMismatch):  # the two lists do not belong together
            assert stage.join("a").waits is StepId.MASKED
        assert stage.answers("a") == {}
        stage.hide("survivors", "a")
    # One who is not in the list draws nothing, and waits for the item factors.
    assert (stage.join("f").dropped, stage.spent("f"), stage.spent("a")) == (True, 0, 1)


@pytest.mark.parametrize("what", ["own boxes", "own commitment", "left out"])
def test_a_roll_without_the_entity_s_own_shares_draws_nothing(stage: Stage, what: str) -> None:
    shares = stage.shares()
    if what == "own boxes":
        shares["a"] = replace(shares["a"], boxes={**shares["a"].boxes, "b": bytes(82)})
    elif what == "own commitment":
        shares["a"] = replace(shares["a"], commitment=shares["b"].commitment)
    else:
        del shares["a"]
    stage.show("roll", stage.roll(shares), "a")
    if what == "left out":  # too few are left
        assert stage.join("a").waits is StepId.KEYS
    else:
        with refused(PlanMismatch, "participants"):
            stage.join("a")
    assert (stage.sent("a", "round1"), stage.spent("a")) == ([], 0)
    # The right roll is taken afterwards.
    stage.hide("roll", "a")
    shares["a"] = stage.shares()["a"]
    stage.show("roll", stage.roll(shares), "a")
    assert stage.join("a").waits is StepId.MASKED


@pytest.mark.parametrize("what", ["boxes", "commitment", "moved"])
def test_another_s_shares_replaced_in_the_roll_give_no_share_of_anybody(stage: Stage, what: str) -> None:
    """The operator signs the roll, and no entity's own signature is in it: the sealed boxes must hold by themselves."""
    shares = stage.shares()
    wrong = dict(shares)
    if what == "boxes":
        wrong["b"] = replace(shares["b"], boxes={**shares["b"].boxes, "a": bytes(82)})
    elif what == "commitment":
        wrong["b"] = replace(shares["b"], commitment=bytes(32))
    else:
        wrong["b"] = replace(shares["e"], sender="b", boxes={**shares["e"].boxes, "e": bytes(82)})
        wrong["b"] = replace(wrong["b"], boxes={name: box for name, box in wrong["b"].boxes.items() if name != "b"})
    stage.show("roll", stage.roll(wrong), "a")
    stage.join("a")
    stage.show("survivors", stage.survivors(NAMES), "a")
    with refused(BadMessage, found="'b'"):
        stage.join("a")
    assert stage.answers("a") == {}
    # With what everybody else got, it answers, since the names are the same.
    stage.hide("roll", "a")
    stage.show("roll", stage.roll(shares), "a")
    stage.join("a")
    assert set(stage.answers("a")["a"].seeds) == set(NAMES)


def test_two_rolls_give_one_message(tmp_path: Path) -> None:
    """Masks for two lists under one key would open; the second list is refused, wherever it comes from."""
    stage = Stage(tmp_path, small_plan(*NAMES, "f", secure=SecureSum(survivors=5, present=5)))
    shares = stage.shares()
    stage.show("roll", stage.roll(shares), "a")
    stage.join("a")
    first = stage.sent("a", "round1")
    stage.show("roll", stage.roll({name: shares[name] for name in NAMES}), "a")
    with refused(ConflictingMessage, "inbox"):
        stage.join("a")
    stage.hide("roll", "a")
    stage.show("roll", stage.roll({name: shares[name] for name in NAMES}), "a")
    with refused(PlanMismatch, "roll"):
        stage.join("a")
    assert (stage.sent("a", "round1"), stage.spent("a")) == (first, 1)


def test_files_of_another_plan_with_the_same_roster_are_not_taken(stage: Stage) -> None:
    """Replayed lists and answers, with the right names and the operator's own signature."""
    shares = stage.to_the_lists()
    other = stage.plan.with_(name="other")
    every = {"shares": [shares[name].to_record() for name in NAMES]}
    stage.show("roll", encode_body(ROLL, other, every, signer=stage.operator), "a")
    lists = {"present": NAMES, "survivors": NAMES[:4]}
    stage.show("survivors", encode_body(SURVIVORS, other, lists, signer=stage.operator), "a")
    assert stage.join("a").waits is StepId.MASKED
    assert stage.answers("a") == {}
    stage.show("survivors", stage.survivors(NAMES))
    assert stage.join("a").waits is StepId.ANSWERS
    given = stage.answers("a")["a"]
    # An answer to another plan, and another's under one's own name: the server takes the right ones.
    served = Stage.again(stage, shared=True)
    for _ in range(3):
        for name in NAMES:
            served.join(name)
        (served.box / "a.replayed").write_bytes(encode_answer(given, other, signer=stage.members.signer("a")))
        (served.box / "b.replayed").write_bytes(encode_answer(given, served.plan, signer=stage.members.signer("b")))
        status = served.serve()
    assert status.published
    assert set(ends(served)) == set(NAMES)


def ends(stage: Stage, *names: str) -> dict[str, object]:
    """Run with an honest server until nothing changes; give the hash of everybody's factors."""
    found = {}
    for _ in range(4):
        for name in names or stage.plan.entities:
            if (status := stage.join(name)).factors is not None:
                found[name] = decode_factors(status.factors, stage.plan).hash
        status = stage.serve()
    assert status.published
    return found


@pytest.fixture
def open_stage(tmp_path: Path) -> Stage:
    """One folder for everybody, and an honest server."""
    return Stage(tmp_path, small_plan(*NAMES, secure=SecureSum(survivors=4)), shared=True)


@pytest.mark.parametrize("when", ["together", "after"])
def test_double_answers_of_a_participant_count_once_or_not_at_all(open_stage: Stage, when: str) -> None:
    stage = open_stage
    for _ in range(2):
        for name in NAMES:
            stage.join(name)
        stage.serve()
    stage.join("e")
    one = decode_answer(stage.sent("e", "answer")[0], stage.plan).content
    seeds = {**one.seeds, "a": one.seeds["b"]}
    wrong = encode_answer(replace(one, seeds=seeds), stage.plan, signer=stage.members.signer("e"))
    if when == "after":
        stage.serve()
    (stage.box / "e.second.answer").write_bytes(wrong)
    status = stage.serve()
    assert ("e" in (status.missing or ())) == (when == "together")
    assert any("ConflictingMessage" in refusal.reason for refusal in status.refused)
    hashes = ends(stage, *HONEST)
    assert set(hashes) == set(HONEST)
    assert len(set(hashes.values())) == 1
    stage.answers(*HONEST)
    # Late: the factors are out, and stay.
    (stage.box / "e.third.answer").write_bytes(wrong)
    assert ends(stage, *HONEST) == hashes


@pytest.mark.parametrize("victims", ["a", "ab"])
def test_shares_that_do_not_open_are_named_and_take_no_model_from_anybody(tmp_path: Path, victims: str) -> None:
    """A participant seals nonsense for others, who cannot answer then. The sum goes on if enough others can."""
    stage = Stage(tmp_path, small_plan(*"abcdefg", secure=SecureSum(survivors=5)), shared=True)
    for name in stage.plan.entities:
        stage.join(name)
    [path] = stage.box.glob("g.*.shares")
    shares = decode_shares(path.read_bytes(), stage.plan).content
    path.unlink()
    wrong = replace(shares, boxes={**shares.boxes, **dict.fromkeys(victims, bytes(82))})
    (stage.box / "g").write_bytes(encode_shares(wrong, stage.plan, signer=stage.members.signer("g")))
    stage.serve()
    for name in "abcdef":
        stage.join(name)
    stage.serve(close=True)
    for name in "abcdef":
        if name in victims:
            with refused(BadMessage, found="'g'"):
                stage.join(name)
        else:
            stage.join(name)
    assert set(stage.answers(*"abcdef")) == set("abcdef") - set(victims)
    assert stage.serve().published == (len(victims) == 1)
    if len(victims) == 1:
        assert stage.join("a").factors is not None


def test_an_entity_that_signs_two_releases(tmp_path: Path) -> None:
    """The one that was stored first counts. Of two found together neither does: a person decides, nothing is lost."""
    stage = Stage(tmp_path, small_plan("a", "b", "c"), shared=True)
    for name in "ab":
        stage.join(name)
    theirs = decode_release(stage.sent("a", "round1")[0], stage.plan)
    second = encode_release(
        replace(theirs.content, numbers=theirs.content.numbers + 1),
        entity="a",
        plan=stage.plan,
        signer=stage.members.signer("a"),
    )
    stage.serve()
    (stage.box / "again").write_bytes(second)
    status = stage.serve()
    assert (status.missing, [one.name for one in status.refused]) == (("c",), ["a"])
    # Both of c's at once.
    stage.join("c")
    made = decode_release(stage.sent("c", "round1")[0], stage.plan)
    twice = encode_release(
        replace(made.content, numbers=made.content.numbers + 1),
        entity="c",
        plan=stage.plan,
        signer=stage.members.signer("c"),
    )
    (stage.box / "twice").write_bytes(twice)
    for _ in range(2):
        status = stage.serve()
        assert (status.published, status.missing) == (False, ("c",))
        assert [one.name for one in status.refused].count("c") == 2
    (stage.box / "twice").unlink()
    assert stage.serve().published


# A stranger in the folder.


def forged(data: bytes, key: SigningKey) -> Iterator[bytes]:
    """The same file cut, doubled, damaged, unsigned, signed by another key and under another name."""
    yield from (data[: len(data) // 2], data[:7], data + b"\0", data[:-1] + bytes([data[-1] ^ 1]))
    container = open_container(data)
    arrays = unpack(data, container, container.layouts)
    record = {name: one for name, one in container.record.items() if name not in ("checksum", "signature")}
    yield pack_sealed(record, arrays)
    yield pack_sealed(record, arrays, signer=key)
    yield pack_sealed(record | {"entity": "b"}, arrays, signer=key)
    # Right in every byte but for upper case, or with the checksum made right under the old signature.
    mark = container.record["checksum"].encode()
    yield data.replace(mark, mark.upper())
    other = pack_sealed(record | {"software": "twofold 9"}, arrays, signer=key)
    strange = open_container(other).record["signature"].encode()
    yield other.replace(strange, container.record.get("signature", "0" * 128).encode())


class Stranger:
    """Reads everything in a folder, and writes whatever it likes."""

    def __init__(self, box: Path, *, seed: int = 0) -> None:
        self.box, self.key, self.chance = box, SigningKey.new(), random.Random(seed)
        self.planted: set[Path] = set()

    def junk(self, number: int) -> None:
        for place in range(number):
            data = self.chance.randbytes(self.chance.choice((0, 1, 9, 200)))
            self._put(f"{self.chance.choice('abcde')}.{place:016x}.{self.chance.choice(SUFFIXES)}", data)

    def nasty(self) -> None:
        """Links out of the folder and into it, pipes, folders, and names that honest parties may want."""
        for place, suffix in enumerate(SUFFIXES):
            for name in (*NAMES, "federation"):
                self._put(f".{name}.{suffix}.part", b"half")
                self._put(f".{name}.published", b"{}")
                self._put(f"{name}-{place + 1}.{suffix}", b"taken")
            for made in (f"pipe.{suffix}", f"link.{suffix}", f"loop.{suffix}", f"deep.{suffix}"):
                self.planted.add(self.box / made)
            if not (self.box / f"pipe.{suffix}").exists():
                os.mkfifo(self.box / f"pipe.{suffix}")
                (self.box / f"link.{suffix}").symlink_to("/etc/hostname")
                (self.box / f"loop.{suffix}").symlink_to(f"loop.{suffix}")
                (self.box / f"deep.{suffix}" / "a" / "b" / "c" / "d" / "e" / "f").mkdir(parents=True)

    def forge(self) -> None:
        for path in sorted(self.box.iterdir()):
            if path in self.planted or not path.is_file():
                continue
            data = path.read_bytes()
            for number, made in enumerate((data, *forged(data, self.key))):
                self._put(f"0{number}-{receipt(data)[:6]}", made)
                self._put(f"a.{receipt(made)[:16]}.{path.suffix[1:]}", made)
                self._put(f"{path.stem[:-1]}0{number}{path.suffix}", made)

    def _put(self, name: str, data: bytes) -> None:
        if not os.path.lexists(self.box / name):
            (self.box / name).write_bytes(data)
            self.planted.add(self.box / name)


SUFFIXES = ("round1", "round2", "shares", "roll", "survivors", "answer", "agreement", "agreed")


def sums(stage: Stage) -> set[str]:
    """Receipts of the messages that count, as the server has stored them."""
    state = FolderState(stage.folder / f"state-{stage.plan.name}", stage.plan)
    return set(state.of(ROUNDS if stage.plan.secure is None else MASKED).closed() or ())


@pytest.mark.parametrize("secure", [None, SecureSum(survivors=4)], ids=["plain", "secure sum"])
def test_a_stranger_who_writes_into_the_folder_changes_nothing(tmp_path: Path, secure: SecureSum | None) -> None:
    stage = Stage(tmp_path, small_plan(*NAMES, secure=secure), shared=True)
    stranger = Stranger(stage.box)
    stranger.nasty()
    for _ in range(4):
        for name in NAMES:
            stage.join(name)
        stranger.forge()
        status = stage.serve()
        stranger.forge()
    assert status.published
    assert len(stranger.planted) > 300
    hashes = [decode_factors(stage.join(name).factors, stage.plan).hash for name in NAMES]
    assert len(set(hashes)) == 1
    assert sums(stage) == {receipt(stage.released(name)) for name in NAMES}
    assert all(stage.spent(name) == 1 for name in NAMES)


def test_copies_that_change_as_soon_as_they_were_seen_stall_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come first by name. Between the look and the reading of the bytes, the stranger changes or removes them."""
    stage = Stage(tmp_path, small_plan("a", "b"), shared=True)
    usual, copies = Scanner.messages, [f"{place:02}-copy" for place in range(12)]

    def watched(self: Scanner) -> list[Found]:
        for path in sorted(stage.box.iterdir()):
            for copy in copies:
                if path.name[:1] in "abf":
                    shutil.copy(path, stage.box / f"{copy}{path.suffix}{receipt(path.read_bytes())[:4]}")
        found = usual(self)
        for place, path in enumerate(sorted(stage.box.glob("[01]?-copy*"))):
            path.write_bytes(b"junk") if place % 2 else path.unlink()
        return found

    monkeypatch.setattr(Scanner, "messages", watched)
    for name in "ab":
        stage.join(name)
    assert stage.serve().published
    assert stage.join("a").factors is not None


def test_ten_thousand_junk_files_stall_nobody(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small_plan("a", "b"), shared=True)
    stranger = Stranger(stage.box)
    stranger.junk(10_000)
    stranger.nasty()
    assert len(stranger.planted) > 10_000
    started = time.monotonic()
    for name in "ab":
        stage.join(name)
    assert stage.serve().published
    assert stage.join("a").factors is not None
    assert time.monotonic() - started < 60


def test_a_whole_old_federation_in_the_new_folder(tmp_path: Path) -> None:
    """The same people, another plan: every old file is signed by the right people, and none counts."""
    (tmp_path / "old").mkdir()
    old = Stage(tmp_path / "old", small_plan("a", "b", "c", name="first"), shared=True)
    ends(old)
    new = Stage(tmp_path, small_plan("a", "b", "c", name="second"), base=old.members, shared=True)
    for path in old.box.iterdir():
        shutil.copy(path, new.box / path.name)
        shutil.copy(path, new.box / path.name.replace("first", "second"))
        shutil.copy(path, new.box / f"0{receipt(path.read_bytes())[:5]}{path.suffix}")
    waits = new.join("a")
    assert (waits.waits, waits.fresh) == (StepId.ROUNDS, (StepId.AGREE, StepId.ROUNDS))
    status = new.serve()
    assert (status.arrived, status.published) == (1, False)
    hashes = ends(new)
    assert len(set(hashes.values())) == 1
    assert sums(new) == {receipt(new.released(name)) for name in "abc"}
    assert set(hashes.values()).isdisjoint(ends(old).values())
