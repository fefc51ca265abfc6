"""A box opens for its receiver, from its sender, for its terms, unchanged; and for nobody else."""

from __future__ import annotations

import pytest

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.messages import BOX_BYTES, open_box, seal_box

SHARES = {"key_share": b"k" * 33, "seed_share": b"s" * 33}
COMMITMENT = b"c" * 32


def seal(group, sender="e000", receiver="e001", **changed):
    return seal_box(
        private_of(group.keys[sender].seal), sender, receiver, group.terms, commitment=COMMITMENT, **(SHARES | changed)
    )


def opened(group, box, *, opener="e001", sender="e000", receiver="e001", commitment=COMMITMENT):
    return open_box(private_of(group.keys[opener].seal), sender, receiver, group.terms, commitment=commitment, box=box)


def test_the_receiver_opens_it(federation) -> None:
    group = federation(3)
    box = seal(group)
    assert len(box) == BOX_BYTES
    assert opened(group, box) == (b"k" * 33, b"s" * 33)
    assert b"kkkk" not in box


@pytest.mark.parametrize(
    "changed",
    [
        {"opener": "e002"},
        {"opener": "e002", "receiver": "e002"},
        {"sender": "e002"},
        {"receiver": "e002"},
        {"commitment": b"d" * 32},
        {"opener": "e000", "sender": "e001", "receiver": "e000"},
    ],
    ids=str,
)
def test_nobody_else_and_nothing_moved(federation, changed) -> None:
    group = federation(3)
    with refused(BadMessage, "box"):
        opened(group, seal(group), **changed)


def test_another_plan_does_not_open_it(federation) -> None:
    with refused(BadMessage, "box"):
        opened(federation(3, context=b"another"), seal(federation(3)))


@pytest.mark.parametrize("place", [0, 40, 81])
def test_a_changed_byte_is_found(federation, place: int) -> None:
    group = federation(3)
    box = bytearray(seal(group))
    box[place] ^= 1
    with refused(BadMessage, "box"):
        opened(group, bytes(box))


def test_the_two_directions_of_a_pair_have_different_keys(federation) -> None:
    group = federation(3)
    there, back = seal(group), seal(group, "e001", "e000")
    assert there[:66] != back[:66]  # with one key the same shares would give the same bytes
