"""The two formulas, against their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from twofold.secure_sum import honest_in_any_sum, least_threshold
from twofold.secure_sum.terms import least_floor


@pytest.mark.parametrize("entities", range(2, 30))
def test_the_threshold_is_the_least_that_closes_both_secrets(entities: int) -> None:
    for colluders in range(entities - 1):
        threshold = least_threshold(entities, colluders)
        assert 2 * threshold > entities + colluders >= 2 * (threshold - 1)


def test_more_votes_a_higher_floor_and_more_present_never_mean_fewer_honest_ones() -> None:
    base = {"entities": 20, "threshold": 14, "least_survivors": 16, "least_present": 18, "colluders": 2}
    for name in ("threshold", "least_survivors", "least_present"):
        more = base | {name: base[name] + 1}
        assert honest_in_any_sum(**more) >= honest_in_any_sum(**base)


@pytest.mark.parametrize("colluders", range(5))
def test_nobody_missing_means_all_honest_ones(colluders: int) -> None:
    assert (
        honest_in_any_sum(entities=9, threshold=9, least_survivors=9, least_present=9, colluders=colluders)
        == 9 - colluders
    )


def test_never_more_than_what_a_truthful_server_opens_and_never_below_zero() -> None:
    for entities in range(2, 15):
        for colluders in range(entities - 1):
            for threshold in range(least_threshold(entities, colluders), entities + 1):
                for least in range(threshold, entities + 1):
                    numbers = {
                        "entities": entities,
                        "threshold": threshold,
                        "least_survivors": least,
                        "colluders": colluders,
                    }
                    assert 0 <= honest_in_any_sum(**numbers, least_present=entities) <= least - colluders


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "secure_sum.md").read_text(encoding="utf-8")


def _table(last: str) -> list[list[str]]:
    """The rows of the table whose heading ends so."""
    lines = PAGE.split(f"| {last} |\n")[1].split("\n\n")[0].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_the_table_in_the_docs_is_what_the_formula_gives() -> None:
    table = _table("fewest survivors")
    assert len(table) >= 5
    for n, survivors, colluders, shared, before, fewest in table:
        numbers = {"threshold": int(survivors), "least_survivors": int(survivors), "least_present": int(n)}
        counted = int(colluders) + 1
        assert int(shared) == honest_in_any_sum(entities=int(n), colluders=counted, **numbers)
        assert int(fewest) == least_floor(int(n), counted)
        if before != "-":  # nobody colluded, and the reader was counted against a truthful server only
            assert int(before) == min(honest_in_any_sum(entities=int(n), **numbers), int(survivors) - 1)


def test_the_attacks_in_the_docs_open_what_the_proof_allows() -> None:
    table = _table("result")
    assert {row[1] for row in table if row[0] == "default"} == {"3", "5", "10", "20", "50", "205"}
    for plan, n, survivors, threshold, _, allies, shared, opened, result in table:
        numbers = {"threshold": int(threshold), "least_survivors": int(survivors), "least_present": int(n)}
        bound = honest_in_any_sum(entities=int(n), colluders=int(allies), **numbers)
        safe = 2 * int(threshold) > int(n) + int(allies)
        assert int(opened) == (bound if safe else 1)
        assert result.startswith("kept" if int(opened) >= int(shared) else "broken")
        assert result.startswith("kept") == (plan == "default")
