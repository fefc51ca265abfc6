"""Messages: whole, through JSON and back; damaged ones are refused; nothing of them is shown."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import BadMessage
from twofold.secure_sum import MaskedMessage, SharesMessage, UnmaskMessage


@pytest.fixture(scope="module")
def messages(federation):
    group = federation(4)
    present = group.share()
    return [
        group.shares["e000"],
        group.mask("e000", np.array([1, -2, 3]), present),
        group.answer("e000", present, present[:3]),
    ]


def test_every_message_comes_back_through_json(messages) -> None:
    for message in (messages[0], messages[2]):
        back = type(message).from_record(json.loads(json.dumps(message.to_record())))
        assert back == message
        assert back.to_record() == message.to_record()


def test_nothing_but_the_sender_is_shown(messages) -> None:
    assert repr(messages[0]) == "SharesMessage(sender='e000')"
    assert repr(messages[1]) == "MaskedMessage(sender='e000', bits=48)"
    assert repr(messages[2]) == "UnmaskMessage(sender='e000')"


JUNK = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=2), st.just({"x": 1}))


@given(data=st.data())
def test_a_damaged_field_is_refused(messages, data) -> None:
    message = data.draw(st.sampled_from([messages[0], messages[2]]))
    record = message.to_record()
    record[data.draw(st.sampled_from([key for key in record if key != "sender"]))] = data.draw(JUNK)
    with pytest.raises(BadMessage):
        type(message).from_record(record)


@pytest.mark.parametrize("numbers", [[1, 2], [1, 2, 2**16], [[1, 2, 3]]])
def test_masked_numbers_are_a_row_below_the_modulus(numbers) -> None:
    with pytest.raises(BadMessage):
        MaskedMessage(sender="a", present=bytes(32), bits=16, numbers=np.array(numbers, dtype=np.uint64))


def test_masked_numbers_are_unsigned() -> None:
    with pytest.raises(BadMessage):
        MaskedMessage(sender="a", present=bytes(32), bits=16, numbers=np.array([1, 2, 3]))


@pytest.mark.parametrize("bits", [8, 15, 17, 72, 48.0, True])
def test_an_impossible_modulus_is_refused(bits) -> None:
    with pytest.raises(BadMessage) as caught:
        MaskedMessage(sender="a", present=bytes(32), bits=bits, numbers=np.arange(3, dtype=np.uint64))
    assert caught.value.parameter == "bits"


def test_both_secrets_of_one_entity_are_never_in_one_answer() -> None:
    with pytest.raises(BadMessage, match="both secrets"):
        UnmaskMessage(sender="a", lists=bytes(32), seeds={"b": bytes(33)}, keys={"b": bytes(33)})


def test_wrong_sizes_are_refused() -> None:
    for boxes, terms in (({"b": bytes(81)}, bytes(32)), ({"b": "x" * 82}, bytes(32)), ({}, bytes(31))):
        with pytest.raises(BadMessage, match="wrong sizes"):
            SharesMessage(sender="a", terms=terms, commitment=bytes(32), boxes=boxes)
