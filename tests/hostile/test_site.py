"""Hostile policies, drafts, approvals and logs: only our errors, quickly and with little memory."""

from __future__ import annotations

import time
import tracemalloc
from collections import Counter

import pytest

from tests.hostile.site import cases
from twofold.errors import TwofoldError


def run(seed: int, n: int) -> Counter[tuple[str, str]]:
    seen: Counter[tuple[str, str]] = Counter()
    for name, data, parse in cases(seed, n):
        started, ending, told = time.process_time(), "read", ""
        try:
            parse(data)
        except TwofoldError as error:
            ending, told = type(error).__name__, str(error)
        assert len(told) < 3_000, name
        assert told.replace("\n", "").isprintable(), name
        assert time.process_time() - started < 5, name
        seen[name, ending] += 1
    return seen


def check_spread(seen: Counter[tuple[str, str]]) -> None:
    """The run met each parser, refusals of each kind, and changes that are none of the parsers' business."""
    assert {name.split()[0] for name, _ in seen} == {"policy", "draft", "approval", "log"}
    assert {"read", "BadPolicy", "BadMessage", "LogBroken", "PolicyRefused"} <= {ending for _, ending in seen}
    assert not any(ending == "read" for name, ending in seen if name.endswith("noise"))


def test_a_few_hundred_give_only_our_errors() -> None:
    check_spread(run(1, 600))


def test_they_take_little_memory() -> None:
    run(2, 30)  # what is loaded once is not counted
    tracemalloc.start()
    try:
        run(3, 150)
        assert tracemalloc.get_traced_memory()[1] < 30 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_twenty_thousand_give_only_our_errors() -> None:
    check_spread(run(4, 20_000))


def test_equal_seeds_give_equal_inputs() -> None:
    assert [case[:2] for case in cases(5, 50)] == [case[:2] for case in cases(5, 50)]
