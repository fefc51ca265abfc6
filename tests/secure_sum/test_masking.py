"""Step 2: what is refused, and that masks depend on everything they should."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadMessage, BadParameter, BadShape, TooFewMessages
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.masking import pair_stream, self_stream


def test_masking_again_gives_the_same_message(federation) -> None:
    group = federation(4)
    one, two = (group.mask("e001", np.arange(9), list(group.names)) for _ in range(2))
    assert one == two
    np.testing.assert_array_equal(one.numbers, two.numbers)


def test_masks_depend_on_the_list_the_length_the_plan_and_the_entity(federation) -> None:
    group, other = federation(4), federation(4, context=b"another")
    zeros, names = np.zeros(9, dtype=np.int64), list(group.names)
    messages = [
        group.mask("e001", zeros, names),
        group.mask("e001", zeros, names[:3]),
        group.mask("e001", np.zeros(10, dtype=np.int64), names),
        other.mask("e001", zeros, names),
        group.mask("e000", zeros, names),
    ]
    starts = {tuple(message.numbers[:9].tolist()) for message in messages}
    assert len(starts) == len(messages)


@pytest.mark.parametrize(
    "values",
    [
        np.array([], dtype=np.int64),
        np.zeros((2, 2), dtype=np.int64),
        np.array([1.0, 2.0]),
        np.array([1, 2], dtype=np.uint64),
        np.array([1, 2], dtype=np.int32),
        [1, 2],
    ],
    ids=repr,
)
def test_only_a_row_of_int64_is_taken(federation, values) -> None:
    group = federation(3)
    with pytest.raises(BadShape):
        group.mask("e000", values, list(group.names))


@pytest.mark.parametrize("bits", range(16, 65, 8))
def test_no_number_is_refused_for_its_size_it_wraps_around(federation, bits: int) -> None:
    """Audit M1: a refusal depends on the numbers and on one share of the noise, and is seen as a drop-out."""
    group = federation(3, bits=bits)
    names, lowest = list(group.names), np.iinfo(np.int64).min
    zero = group.mask("e000", np.zeros(1, dtype=np.int64), names).numbers[0]
    for number in (group.terms.limit + 1, -group.terms.limit - 1, lowest, -lowest - 1):
        made = group.mask("e000", np.array([number]), names)
        assert (int(made.numbers[0]) - int(zero) - number) % 2**bits == 0


def test_who_did_not_share_does_not_mask(federation) -> None:
    group = federation(4, threshold=3)
    with refused(BadParameter, "present"):
        group.mask("e003", np.arange(3), ["e000", "e001", "e002"])
    with refused(TooFewMessages, "present"):
        group.mask("e000", np.arange(3), ["e000", "e001"])
    with pytest.raises(BadMessage):
        group.mask("e000", np.arange(3), ["e002", "e001", "e000"])


def test_the_values_are_not_changed(federation) -> None:
    group = federation(3)
    values = np.arange(5)
    group.mask("e000", values, list(group.names))
    assert values.tolist() == [0, 1, 2, 3, 4]


def test_each_mask_alone_depends_on_the_list_and_the_length(federation) -> None:
    """The proof needs it: masks over different lists must not cancel, nor two lengths share a stream."""
    group = federation(3)
    private, public = private_of(group.keys["e000"].mask), group.terms.roster["e001"].mask
    paired = partial(pair_stream, private, public, pair=("e000", "e001"))
    for make in (lambda bound, size: self_stream(bytes(32), bound, size), paired):
        assert len({make(bound, size) for bound in (b"one", b"two") for size in (5, 6)}) == 4
    names = ("e000", "e001", "e002")
    assert len({pair_stream(private, public, b"", 5, pair=pair) for pair in combinations(names, 2)}) == 3
