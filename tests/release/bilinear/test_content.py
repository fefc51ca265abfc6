"""The message."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from twofold.errors import BadParameter, BadShape, TwofoldError
from twofold.release.content import BilinearSums, plain_sum

ONE = BilinearSums(mechanism="gram", numbers=np.arange(4), deviation=3.0, law="gaussian", seeded=False)


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": np.arange(4.0)},
        {"numbers": np.arange(4, dtype=np.int32)},
        {"numbers": [1, 2]},
        {"numbers": np.zeros((2, 2), dtype=np.int64)},
        {"numbers": np.zeros(0, dtype=np.int64)},
        {"deviation": math.nan},
        {"deviation": -1.0},
        {"deviation": math.inf},
        {"law": "cauchy"},
        {"seeded": None},
        {"entities": 0},
        {"entities": True},
        {"entities": 1.5},
    ],
)
def test_parts_that_are_not_right_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TwofoldError):
        dataclasses.replace(ONE, **change)


@pytest.mark.parametrize(
    "change",
    [
        {"numbers": np.arange(4) + 1},
        {"mechanism": "sketch"},
        {"deviation": 4.0},
        {"law": "laplace"},
        {"seeded": True},
        {"entities": 2},
    ],
)
def test_the_digest_sees_every_part(change: dict[str, Any]) -> None:
    assert dataclasses.replace(ONE, **change).digest() != ONE.digest()
    assert dataclasses.replace(ONE, note="words are not content").digest() == ONE.digest()


def test_adding_up_is_exact_and_remembers_everything() -> None:
    other = dataclasses.replace(ONE, numbers=np.full(4, 2**60), deviation=4.0, entities=3, seeded=True)
    total = plain_sum(iter([ONE, other]))
    np.testing.assert_array_equal(total.numbers, np.arange(4) + 2**60)
    assert (total.deviation, total.entities, total.seeded) == (5.0, 4, True)
    assert plain_sum([ONE]) is ONE


def test_what_does_not_fit_is_not_added() -> None:
    with pytest.raises(BadParameter):
        plain_sum([])
    for change in ({"mechanism": "sketch"}, {"law": "laplace"}, {"numbers": np.arange(5)}):
        with pytest.raises(BadShape):
            plain_sum([ONE, dataclasses.replace(ONE, **change)])  # type: ignore[arg-type]
