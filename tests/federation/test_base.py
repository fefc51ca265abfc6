"""What every transport must do, run on each of them."""

from __future__ import annotations

import threading

import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadPlan, ConflictingMessage, RoundClosed
from twofold.federation.folder import EntityFolder, ServerFolder
from twofold.federation.mailbox import ROUNDS, EntityMailbox, InProcess, NothingYet, ServerMailbox, Submitted
from twofold.federation.messages import receipt


@pytest.fixture(params=["inprocess", "folders", "one folder"])
def ends(request, tmp_path, plan):
    """Both ends of a transport, connected."""
    if request.param == "inprocess":
        box = InProcess()
        return box, box
    there, back = ("there", "back") if request.param == "folders" else ("all", "all")
    server = ServerFolder(tmp_path / there, tmp_path / back, plan)
    return EntityFolder(tmp_path / there, tmp_path / back, plan), server


def seen(server):
    return [(one.entity, one.receipt, one.read()) for one in server.submissions(ROUNDS)]


def test_both_ends_are_what_they_say(ends):
    assert isinstance(ends[0], EntityMailbox)
    assert isinstance(ends[1], ServerMailbox)


def test_a_message_arrives_byte_for_byte(ends, message):
    data = message()
    assert ends[0].submit(ROUNDS, data, entity="st-anna") == Submitted(receipt=receipt(data), new=True)
    assert seen(ends[1]) == [("st-anna", receipt(data), data)]


def test_the_same_message_again_changes_nothing(ends, message):
    data = message()
    first, again = (ends[0].submit(ROUNDS, data, entity="st-anna") for _ in range(2))
    assert (first.receipt, first.new, again.new) == (again.receipt, True, False)
    assert len(seen(ends[1])) == 1


def test_another_message_of_the_same_entity_is_refused(ends, message):
    first = message()
    ends[0].submit(ROUNDS, first, entity="st-anna")
    with refused(ConflictingMessage, "entity", found="st-anna"):
        ends[0].submit(ROUNDS, message(), entity="st-anna")
    assert [data for *_, data in seen(ends[1])] == [first]


def test_entities_come_in_the_order_of_their_names(ends, message):
    for name in ("c", "a", "b"):
        ends[0].submit(ROUNDS, message(name), entity=name)
    assert [entity for entity, *_ in seen(ends[1])] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("entity", "change", "error"),
    [
        ("st-olga", lambda data: data, BadMessage),
        ("../st-anna", lambda data: data, BadPlan),
        ("st-anna", lambda data: data[:-1], BadMessage),
        ("st-anna", lambda data: data + b"x", BadMessage),
        ("st-anna", lambda _: b"not ours", BadMessage),
        ("st-anna", lambda _: "text", BadMessage),
    ],
)
def test_what_is_not_a_whole_message_under_its_own_name_is_refused(ends, message, entity, change, error):
    with pytest.raises(error):
        ends[0].submit(ROUNDS, change(message()), entity=entity)
    assert seen(ends[1]) == []


def test_nothing_to_fetch_before_publication(ends, factors):
    assert ends[0].fetch(ROUNDS) == NothingYet()
    assert ends[1].published(ROUNDS) is None
    ends[1].publish(ROUNDS, factors())
    assert ends[0].fetch(ROUNDS) == ends[1].published(ROUNDS) == factors()


def test_publication_happens_once(ends, factors):
    first = ends[1].publish(ROUNDS, factors())
    assert ends[1].publish(ROUNDS, factors()) == first == receipt(factors())
    with pytest.raises(RoundClosed):
        ends[1].publish(ROUNDS, factors(2.0))
    assert ends[0].fetch(ROUNDS) == ends[1].published(ROUNDS) == factors()


def test_many_senders_at_once(ends, message):
    data = {f"entity-{number}": message(f"entity-{number}") for number in range(8)}
    threads = [
        threading.Thread(target=ends[0].submit, args=(ROUNDS, data[name]), kwargs={"entity": name}) for name in data
    ]
    threads += [
        threading.Thread(target=ends[0].submit, args=(ROUNDS, data[name]), kwargs={"entity": name}) for name in data
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entity: content for entity, _, content in seen(ends[1])} == data
