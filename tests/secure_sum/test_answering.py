"""Step 3: one list, with oneself, above the floor, never both secrets."""

from __future__ import annotations

import dataclasses

import pytest

from twofold.errors import BadMessage, PlanMismatch, PrivacyError, TooFewMessages


@pytest.fixture
def group(federation):
    group = federation(5, threshold=3, least_survivors=3, least_present=4)
    group.share()
    return group


def test_seeds_of_survivors_and_keys_of_drop_outs_and_nothing_of_who_never_shared(group) -> None:
    message = group.answer("e001", ["e000", "e001", "e002", "e003"], ["e000", "e001", "e003"])
    assert sorted(message.seeds) == ["e000", "e001", "e003"]
    assert sorted(message.keys) == ["e002"]


def test_answering_again_gives_the_same_bytes(group) -> None:
    names = list(group.names)
    first = group.answer("e000", names, names[:4])
    again = group.answer("e000", names, names[:4], already=first)
    assert again.to_record() == first.to_record()


@pytest.mark.parametrize(
    ("present", "survivors"),
    [
        (["e000", "e001", "e002", "e003", "e004"], ["e000", "e001", "e002", "e003"]),
        (["e000", "e001", "e002", "e003"], ["e000", "e001", "e002"]),
    ],
)
def test_a_second_list_is_refused_be_it_the_survivors_or_who_shared(group, present, survivors) -> None:
    first = group.answer("e000", list(group.names), ["e000", "e001", "e002"])
    with pytest.raises(PrivacyError, match="answered another list"):
        group.answer("e000", present, survivors, already=first)


def test_somebody_elses_stored_answer_is_refused(group) -> None:
    names = list(group.names)
    with pytest.raises(BadMessage, match="another entity's"):
        group.answer("e000", names, names, already=group.answer("e001", names, names))


def test_bad_lists_are_refused(group) -> None:
    names = list(group.names)
    with pytest.raises(TooFewMessages, match="nothing is unmasked"):
        group.answer("e000", names, names[:2])
    with pytest.raises(PrivacyError, match="not in the list of survivors"):
        group.answer("e000", names, names[1:])
    with pytest.raises(BadMessage, match="stranger"):
        group.answer("e000", names[:4], names)


def test_missing_moved_or_changed_shares_are_refused(group, federation) -> None:
    names, whole = list(group.names), dict(group.shares)
    group.shares = {name: message for name, message in whole.items() if name != "e003"}
    with pytest.raises(BadMessage, match="'e003' for 'e000'"):
        group.answer("e000", names, names)
    group.shares = whole | {"e003": dataclasses.replace(whole["e003"], commitment=bytes(32))}
    with pytest.raises(BadMessage, match="do not open"):
        group.answer("e000", names, names)
    group.shares = whole | {"e003": dataclasses.replace(whole["e002"], sender="e003")}
    with pytest.raises(BadMessage, match="do not open"):
        group.answer("e000", names, names)
    other = federation(5, threshold=3, least_survivors=3, least_present=4, context=b"another")
    other.share()
    group.shares = whole | {"e003": other.shares["e003"]}
    with pytest.raises(PlanMismatch, match="another plan"):
        group.answer("e000", names, names)
