"""The rows of the benchmark of sums come from whole sums: small ones end in the right numbers."""

from __future__ import annotations

import pytest

from benchmarks._sum_child import operators, people, plain


@pytest.mark.parametrize("kind", [plain, operators, people])
def test_a_small_sum_is_right(kind) -> None:
    found = kind(4, 6)
    assert found["exact"]
    assert found["visits"] == 1
    assert set(found["servers"]) == ({"server"} if kind is plain else {"first", "second"})
