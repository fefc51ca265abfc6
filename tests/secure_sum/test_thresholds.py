"""The two formulas, against their meaning."""

from __future__ import annotations

from pathlib import Path

import pytest

from twofold.secure_sum import honest_in_any_sum, least_threshold


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


def test_the_table_in_the_docs_is_what_the_formula_gives() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "secure_sum.md").read_text()
    table = page.split("| truthful server | any server |\n")[1].split("\n\n")[0].splitlines()[1:]
    assert len(table) >= 5
    for line in table:
        n, c, present, least, threshold, truthful, any_server = (int(cell) for cell in line.strip("| ").split("|"))
        assert truthful == least - c
        assert any_server == honest_in_any_sum(
            entities=n, threshold=threshold, least_survivors=least, least_present=present, colluders=c
        )
