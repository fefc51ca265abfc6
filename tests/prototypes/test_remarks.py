"""Remarks are for the entity's eyes, and hold no number."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.prototypes import Public, local_remarks

PUBLIC = Public(n_items=3, n_users=2, max_items=2, bound=1, n_prototypes=1)


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (np.zeros((0, 3)), "fewer users than promised"),
        (np.zeros((2, 3)), "no entry"),
        (np.ones((2, 3)), "exceed"),
        (np.eye(3) * 7, "exceed"),
    ],
)
def test_each_finding_is_said_without_a_number(rows: np.ndarray, word: str) -> None:
    said = local_remarks(rows, PUBLIC)
    assert any(word in remark for remark in said)
    assert not any(character.isdigit() for remark in said for character in remark)


def test_rows_as_planned_need_no_remark() -> None:
    assert local_remarks(np.eye(3), PUBLIC) == []
