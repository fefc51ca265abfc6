"""Folders on both ends, with what happens to files on the way."""

from __future__ import annotations

import errno
import os
import random

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, ConflictingMessage, PlanMismatch, RoundClosed, TransportError
from twofold.federation import folder as module
from twofold.federation.folder import EntityFolder, ServerFolder
from twofold.federation.inbox import WAITING
from twofold.federation.mailbox import KEYS, ROUNDS, NothingYet
from twofold.federation.messages import receipt
from twofold.storage import files
from twofold.storage import files as disk


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def entity(tmp_path, plan):
    return EntityFolder(tmp_path / "out", tmp_path / "in", plan)


@pytest.fixture
def server(tmp_path, plan):
    return ServerFolder(tmp_path / "arrivals", tmp_path / "shown", plan)


def test_a_message_has_the_name_of_its_entity_and_receipt(tmp_path, entity, message):
    data = message()
    mark = entity.submit(ROUNDS, data, entity="st-anna").receipt
    assert names(tmp_path / "out") == [f"st-anna.{mark[:16]}.round1"]


def test_a_renamed_message_in_the_outbox_still_counts(tmp_path, entity, message):
    entity.submit(ROUNDS, message(), entity="st-anna")
    (left,) = (tmp_path / "out").iterdir()
    left.rename(tmp_path / "out" / "sent on monday")
    with pytest.raises(ConflictingMessage):
        entity.submit(ROUNDS, message(), entity="st-anna")


def test_an_outbox_that_was_emptied_is_filled_again(tmp_path, entity, message):
    data = message()
    entity.submit(ROUNDS, data, entity="st-anna")
    next((tmp_path / "out").iterdir()).unlink()
    entity.submit(ROUNDS, data, entity="st-anna")
    assert [one.read_bytes() for one in (tmp_path / "out").iterdir()] == [data]


def test_a_stranger_who_takes_the_name_of_a_message_stops_nothing(tmp_path, entity, message):
    data = message()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"st-anna.{receipt(data)[:16]}.round1").write_bytes(b"something else")
    (tmp_path / "out" / "st-anna-1.round1").symlink_to(tmp_path / "elsewhere")
    assert entity.submit(ROUNDS, data, entity="st-anna").new
    assert (tmp_path / "out" / "st-anna-2.round1").read_bytes() == data
    assert not entity.submit(ROUNDS, data, entity="st-anna").new
    assert len(names(tmp_path / "out")) == 3
    assert not (tmp_path / "elsewhere").exists()


def test_names_to_try_end_somewhere(tmp_path, entity, message, monkeypatch):
    monkeypatch.setattr(module, "_NAMES", 2)
    data = message()
    (tmp_path / "out").mkdir()
    for name in (f"st-anna.{receipt(data)[:16]}.round1", "st-anna-1.round1"):
        (tmp_path / "out" / name).write_bytes(b"something else")
    with refused(TransportError, "outbox", found=f"st-anna.{receipt(data)[:16]}.round1"):
        entity.submit(ROUNDS, data, entity="st-anna")


def test_a_message_of_another_plan_does_not_enter_the_outbox(tmp_path, entity, message, plan):
    with refused(PlanMismatch, "plan", found="rank is 3, here 2"):
        entity.submit(ROUNDS, message(of=plan.with_(rank=3)), entity="st-anna")
    assert not (tmp_path / "out").exists()


def test_a_full_disk_leaves_nothing_half_written(tmp_path, entity, message, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    data = message()
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_all", full)
        with refused(TransportError, "path", os.strerror(errno.ENOSPC)):
            entity.submit(ROUNDS, data, entity="st-anna")
        assert names(tmp_path / "out") == []
    assert entity.submit(ROUNDS, data, entity="st-anna").receipt == receipt(data)


def test_a_drive_that_is_not_there(tmp_path, plan, message):
    gone = EntityFolder(tmp_path / "no" / "out", tmp_path / "no" / "in", plan)
    with refused(TransportError, "path", found=f"out: {os.strerror(errno.ENOENT)}"):
        gone.submit(ROUNDS, message(), entity="st-anna")
    (lacking,) = gone.fetch(ROUNDS).rejected
    assert lacking.name == "in"
    assert "No such file" in lacking.reason
    with pytest.raises(TransportError):
        ServerFolder(tmp_path / "no" / "in", tmp_path / "no" / "out", plan)


def test_factors_arrive_under_any_name_and_twice(tmp_path, entity, factors):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "attachment(1)").write_bytes(factors())
    (tmp_path / "in" / "attachment(2)").write_bytes(factors())
    assert entity.fetch(ROUNDS) == factors()


def test_half_arrived_factors_are_not_ready(tmp_path, entity, factors):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").write_bytes(factors()[:-5])
    assert entity.fetch(ROUNDS) == NothingYet(rejected=(("x", WAITING),))


def test_factors_of_another_plan_are_named_and_left(tmp_path, entity, factors, plan, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").write_bytes(factors(of=plan.with_(max_items=3)))
    (tmp_path / "in" / "y").write_bytes(message())
    other_plan, other_step = entity.fetch(ROUNDS).rejected
    assert "max_items is 3, here 2" in other_plan.reason
    assert other_step == ("y", "a message of another step")


def test_where_several_steps_pass_files_of_the_others_are_not_named(tmp_path, entity, server, message):
    """In one folder, or in a secure sum, which has three steps."""
    shared = EntityFolder(tmp_path / "in", tmp_path / "in", entity.plan)
    shared.submit(ROUNDS, message(), entity="st-anna")
    assert shared.fetch(ROUNDS) == entity.fetch(KEYS) == NothingYet()
    assert [one.name for one in entity.fetch(ROUNDS).rejected] == [path.name for path in (tmp_path / "in").iterdir()]
    (tmp_path / "arrivals" / "x").write_bytes(message())
    assert list(server.submissions(KEYS)) == []
    assert server.rejected(KEYS) == []


def test_two_different_factors_are_refused(tmp_path, entity, factors):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x").write_bytes(factors())
    (tmp_path / "in" / "y").write_bytes(factors(2.0))
    with refused(ConflictingMessage, "inbox", found="x, y"):
        entity.fetch(ROUNDS)


def test_two_different_messages_of_one_entity_are_both_given(tmp_path, server, message):
    for name in ("x", "y"):
        (tmp_path / "arrivals" / name).write_bytes(message())
    assert [one.entity for one in server.submissions(ROUNDS)] == ["st-anna", "st-anna"]


def test_what_is_not_taken_is_listed(tmp_path, server, message, factors, plan):
    arrivals = tmp_path / "arrivals"
    (arrivals / "good").write_bytes(message())
    (arrivals / "other").write_bytes(message(of=plan.with_(rank=3)))
    (arrivals / "back").write_bytes(factors())
    (arrivals / "half").write_bytes(message("b")[:-1])
    assert [one.entity for one in server.submissions(ROUNDS)] == ["st-anna"]
    assert {name: reason.split(";")[0] for name, reason in server.rejected(ROUNDS)} == {
        "other": "the message was made with another plan. rank is 3, here 2",
        "back": "a message of another step",
        "half": "not whole yet",
    }


def test_a_publication_that_was_carried_away_is_written_again(tmp_path, server, factors, plan):
    server.publish(ROUNDS, factors())
    (shown,) = (tmp_path / "shown").iterdir()
    shown.unlink()
    again = ServerFolder(tmp_path / "arrivals", tmp_path / "shown", plan)
    assert again.published(ROUNDS) is None
    again.publish(ROUNDS, factors())
    assert shown.read_bytes() == factors() == again.published(ROUNDS)


def test_a_second_publication_is_refused(server, factors):
    server.publish(ROUNDS, factors())
    with refused(RoundClosed, None):
        server.publish(ROUNDS, factors(2.0))
    assert server.published(ROUNDS) == factors()


def test_a_changed_publication_is_written_again_under_another_name(tmp_path, server, factors):
    server.publish(ROUNDS, factors())
    (shown,) = (tmp_path / "shown").iterdir()
    shown.write_bytes(factors(2.0))
    assert server.published(ROUNDS) is None
    server.publish(ROUNDS, factors())
    assert server.published(ROUNDS) == factors()


@pytest.mark.parametrize("planted", ["a key", "factors", "foreign", "flipped", "other plan", "folder"])
def test_what_a_stranger_plants_is_neither_shown_nor_followed_nor_in_the_way(tmp_path, server, factors, plan, planted):
    """Audit H1: anyone may write into a shared folder, under any name, and gets nothing."""
    hidden, data = tmp_path / "hidden", factors(2.0)
    place = server.outbox / f"{plan.name}.{receipt(data)[:16]}.round2"
    wrong = {
        "foreign": b"TOP SECRET",
        "flipped": flipped(factors()),
        "other plan": factors(of=plan.with_(max_items=3)),
    }
    if planted == "folder":
        place.mkdir()
    elif planted in wrong:
        place.write_bytes(wrong[planted])
    else:
        hidden.write_bytes(factors() if planted == "factors" else b"TOP SECRET")
        place.symlink_to(hidden)
    assert server.published(ROUNDS) is None
    server.publish(ROUNDS, data)
    assert server.published(ROUNDS) == data
    assert (tmp_path / "shown" / f"{plan.name}-1.round2").read_bytes() == data
    if hidden.exists():
        assert hidden.read_bytes() in (factors(), b"TOP SECRET")


def flipped(data: bytes, at: int = -1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize("at", [-1, -20])
def test_a_damaged_renamed_copy_of_the_factors_does_not_block(tmp_path, entity, factors, at):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "copy").write_bytes(flipped(factors(), at))
    ((name, reason),) = entity.fetch(ROUNDS).rejected
    assert (name, "damaged" in reason) == ("copy", True)
    (tmp_path / "in" / "whole").write_bytes(factors())
    assert entity.fetch(ROUNDS) == factors()


def test_a_damaged_renamed_copy_in_the_outbox_is_no_other_message(tmp_path, entity, message):
    data = message()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "copy").write_bytes(flipped(data))
    assert entity.submit(ROUNDS, data, entity="st-anna").receipt == receipt(data)
    assert entity.submit(ROUNDS, data, entity="st-anna").receipt == receipt(data)
    with pytest.raises(ConflictingMessage):
        entity.submit(ROUNDS, message(), entity="st-anna")


def test_only_item_factors_of_the_plan_are_published(server, factors, plan, message):
    with pytest.raises(PlanMismatch):
        server.publish(ROUNDS, factors(of=plan.with_(max_items=3)))
    with pytest.raises(BadMessage):
        server.publish(ROUNDS, message())
    assert server.published(ROUNDS) is None


def test_random_files_never_raise_anything_but_ours(tmp_path, server, entity, message, factors):
    """Names and bytes at random, pieces of messages, flipped bytes: all listed or taken, never another error."""
    rng, whole = random.Random(3), (message(), factors())
    (tmp_path / "in").mkdir()
    for number in range(300):
        source = rng.choice((*whole, rng.randbytes(rng.randrange(200))))
        data = bytearray(source[: rng.randrange(len(source) + 1)] if rng.random() < 0.5 else source)
        for _ in range(rng.randrange(3) if data else 0):
            data[rng.randrange(len(data))] = rng.randrange(256)
        name = "".join(rng.choice("ab.~ é\n\x01-") for _ in range(6)) + str(number)
        for folder in ("arrivals", "in"):
            (tmp_path / folder / name).write_bytes(bytes(data))
    taken = list(server.submissions(ROUNDS))
    assert len(taken) + len(server.rejected(ROUNDS)) > 250
    for one in taken:
        assert receipt(one.read()) == one.receipt
    assert entity.fetch(ROUNDS) == whole[1]  # the undamaged copies are one set, and the damaged ones none


def test_in_one_folder_the_servers_own_files_are_not_strangers(tmp_path, plan, factors, message):
    server = ServerFolder(tmp_path, tmp_path, plan)
    server.publish(ROUNDS, factors())
    (tmp_path / "stranger").write_bytes(b"hello")
    EntityFolder(tmp_path, tmp_path, plan).submit(ROUNDS, message(), entity="st-anna")
    assert [one.entity for one in server.submissions(ROUNDS)] == ["st-anna"]
    assert [one.name for one in server.rejected(ROUNDS)] == ["stranger"]


def test_a_full_disk_at_every_step_of_both_rounds(tmp_path, plan, message, factors, monkeypatch):
    """Whatever the step: our error, nothing half-written to be seen, and the same call again succeeds."""
    data, failed = message(), 0
    for fatal in range(1, 40):
        place = tmp_path / str(fatal)
        place.mkdir()
        entity, server = EntityFolder(place, place, plan), ServerFolder(place, place, plan)
        for job in (
            lambda box=entity: box.submit(ROUNDS, data, entity="st-anna"),
            lambda box=server: box.publish(ROUNDS, factors()),
        ):
            left = [fatal]
            monkeypatch.setattr(disk, "_listener", lambda _, left=left: full_at(left))
            try:
                job()
            except TransportError:
                failed += 1
            assert {path.read_bytes() for path in place.iterdir()} <= {data, factors()}
            monkeypatch.setattr(disk, "_listener", None)
            job()
        assert [one.read() for one in server.submissions(ROUNDS)] == [data]
        assert entity.fetch(ROUNDS) == server.published(ROUNDS) == factors()
    assert failed > 10


def full_at(left: list[int]) -> None:
    left[0] -= 1
    if left[0] == 0:
        raise OSError(errno.ENOSPC, "No space left on device")
