"""Shares of the gap and their words, on tables whose answer is known."""

from __future__ import annotations

import math

import polars as pl
import pytest

from studies.frontier.page import advice, verdict, worth_from
from studies.frontier.settings import Target, read_frontier
from studies.frontier.summary import SCHEMA, Results
from studies.frontier.tables import entity_sheet, harm_sheet, share_sheet, target_sheet

HOSPITALS = read_frontier("full").of("hospitals-middle")
FILMS = read_frontier("full").of("movielens-zip1")
EPSILONS = (0.1, 1.0, 10.0)


def rows(mechanism, noise="none", epsilon=math.inf, *, values, data=HOSPITALS.name, way="adapted", **other):
    """One row per seed and entity; `values` by entity, the same for all seeds but for a small shift."""
    return [
        {
            **{name: "" if kind == pl.String else 0 for name, kind in SCHEMA.items()},
            "data": data, "seed": seed, "mechanism": mechanism, "noise": noise, "epsilon": epsilon, "way": way,
            "entity": f"e{at}", "quarter": at, "weight": 1.0, "users": 100, "entries": 100, "measured": 100,
            "ndcg": value + 0.001 * seed, "mse": value + 0.001 * seed, **other,
        }
        for seed in (0, 1)
        for at, value in enumerate(values)
    ]  # fmt: skip


def results(*parts, setting=HOSPITALS) -> Results:
    return Results(pl.DataFrame([row for part in parts for row in part], schema=SCHEMA), setting)


def hospitals(shares=(0.2, 0.6, 0.9)) -> Results:
    """Quarter q gains 4 - q hundredths when federated; private ones a share of that."""
    federated = [0.54, 0.53, 0.52, 0.51]
    return results(
        rows("alone", values=[0.5] * 4),
        rows("gram", values=federated),
        rows("gram", "noise only", 1.0, values=[0.49] * 4),
        *(
            rows("gram", "secure", epsilon, values=[0.5 + share * (value - 0.5) for value in federated])
            for epsilon, share in zip(EPSILONS, shares, strict=True)
        ),
    )


def test_shares_are_those_that_were_put_in():
    found = hospitals()
    for epsilon, wanted in zip(EPSILONS, (0.2, 0.6, 0.9), strict=True):
        for group in ("all", "smaller half", "smallest quarter"):
            assert found.share("gram", "secure", epsilon, group=group).mean == pytest.approx(wanted)
    assert found.gap("smallest quarter").mean == pytest.approx(0.04)
    assert found.gap("smaller half").mean == pytest.approx(0.035)
    assert found.gap("all").mean == pytest.approx(0.025)


def test_entities_count_by_users_and_by_whom_they_stand_for():
    made = rows("alone", values=[0.1, 0.5, 0.5, 0.5])
    for row in made:
        row |= {"users": 300, "weight": 2.0} if row["entity"] == "e0" else {}
    found = results(made).metric("alone")
    assert found[0] == pytest.approx((600 * 0.1 + 300 * 0.5) / 900)


def test_rmse_is_the_root_of_the_mean_over_ratings_and_less_is_better():
    found = results(
        rows("alone", values=[1.0] * 4, data=FILMS.name),
        rows("features", values=[0.64] * 4, data=FILMS.name),
        rows("features", "secure", 1.0, values=[0.81] * 4, data=FILMS.name),
        setting=FILMS,
    )
    assert found.metric("alone")[0] == pytest.approx(1.0)
    assert found.share("features", "secure", 1.0).mean == pytest.approx(0.5, abs=0.01)


def test_without_a_clear_gap_there_is_no_share():
    flat = results(
        rows("alone", values=[0.5] * 4), rows("gram", values=[0.5] * 4), rows("gram", "secure", 1.0, values=[0.6] * 4)
    )
    share = flat.share("gram", "secure", 1.0)
    assert math.isnan(share.mean)
    assert share.seeds == 2
    assert "no clear gap" in verdict(flat)
    assert worth_from(flat, "gram", "secure") is None


def test_the_reference_is_the_best_without_noise():
    found = results(rows("alone", values=[0.5] * 4), rows("gram", values=[0.52] * 4), rows("sketch", values=[0.53] * 4))
    assert found.reference() == "sketch"
    begun = [row for row in rows("features", values=[0.9] * 4) if row["seed"] == 0]
    parts = [rows("alone", values=[0.5] * 4), rows("gram", values=[0.52] * 4), begun]
    assert results(*parts).reference() == "gram"


def test_from_which_epsilon_on():
    assert worth_from(hospitals(), "gram", "secure") == 1.0
    assert worth_from(hospitals((0.7, 0.2, 0.9)), "gram", "secure") == 10.0
    assert worth_from(hospitals((0.7, 0.7, 0.3)), "gram", "secure") is None


def test_what_noise_gives_as_well_is_not_called_federation():
    parts = [
        rows("alone", values=[0.5] * 4),
        rows("gram", values=[0.6] * 4),
        rows("gram", "secure", 1.0, values=[0.56] * 4),
    ]
    assert worth_from(results(*parts), "gram", "secure") == 1.0
    with_noise = results(*parts, rows("gram", "noise only", 1.0, values=[0.56] * 4))
    assert worth_from(with_noise, "gram", "secure") is None


def test_words_follow_the_numbers():
    said = verdict(hospitals())
    assert "from ε = 1:" in said
    assert "20 % at 0.1, 60 % at 1, 90 % at 10" in said
    assert "at every ε" in verdict(hospitals((0.6, 0.7, 0.8)))
    assert "do not federate" in verdict(hospitals((0.0, 0.1, 0.2)))
    lines = advice([hospitals()])
    assert "1 of 1" in lines[0]
    assert any("ε = 1: at least half of the gap is closed on 1 of 1" in line for line in lines)
    assert any("ε = 0.1: at least half of the gap is closed on 0 of 1" in line for line in lines)
    assert any(line.startswith("Noise alone") and "-29 %" in line for line in lines)


def test_harm_is_counted_by_standard_errors():
    made = rows("gram", "own", 1.0, values=[0.5] * 4)
    for row, (gain, error) in zip(
        made, [(-2, 1.5), (-4, 1.5), (0, 0), (1, 1), (-1, 1.5), (5, 1), (0, 0), (1, 1)], strict=True
    ):
        row |= {"gain": gain, "gain_error": error}
    found = results(rows("alone", values=[0.5] * 4), made)
    harm = found.harm("gram", "own", 1.0)
    assert (harm.entities, harm.moved, harm.worse, harm.far_worse) == (8, 6, 2, 1)
    assert harm_sheet(found).rows == (("gram, own noise", "2 (1) of 6"),)
    target = Target(data=HOSPITALS.name, noise="own", epsilon=1, group="all", least=0.5)
    said = target_sheet([target], {HOSPITALS.name: found}).rows[-1]
    assert said[0].endswith("own noise, ε = 1, 2 of 6)")
    assert said[1:] == ("2 of 6", "no")


def test_every_entity_has_its_gain_over_splits():
    made = rows("features", "secure", 1.0, values=[0.5] * 4, data=FILMS.name)
    for row in made:
        row |= {"gain": 0.1 + 0.02 * row["seed"], "users": 10 if row["entity"] == "e3" else 20}
    found = results(rows("alone", values=[1.0] * 4, data=FILMS.name), made, setting=FILMS)
    assert found.entity_gains("features", "secure", 1.0)["e3"].mean == pytest.approx(0.11)
    assert found.entity_gains("features", "secure", 1.0)["e3"].error == pytest.approx(0.01)
    assert found.entity_gains("features", "own", 1.0) == {}
    assert entity_sheet(found, "own").rows == ()
    assert entity_sheet(found, "secure").rows[0][1] == "+0.1100 ± 0.0100"


def test_targets_say_reached_or_not():
    least = Target(data=HOSPITALS.name, noise="secure", epsilon=1, group="smaller half", least=0.5)
    targets = [least, Target(data=HOSPITALS.name, noise="secure", epsilon=0.1, group="all", least=0.5),
               Target(data=HOSPITALS.name, noise="own", epsilon=0.1, group="all", least=0.5)]  # fmt: skip
    rows_ = target_sheet(targets, {HOSPITALS.name: hospitals()}).rows
    assert [row[2] for row in rows_] == ["yes", "no", "not known", "yes"]
    assert rows_[0][1].startswith("60 ± ")
    assert rows_[2][1] == "not measured"


def test_an_epsilon_that_was_not_run_is_passed_over_and_few_seeds_are_marked():
    federated = [0.6] * 4
    later = [row for row in rows("sketch", "secure", 10.0, values=[0.55] * 4) if row["seed"] == 0]
    found = results(
        rows("alone", values=[0.5] * 4),
        rows("gram", values=federated),
        rows("gram", "secure", 1.0, values=[0.58] * 4),
        later,
    )
    assert found.epsilons == [1.0, 10.0]
    assert worth_from(found, "gram", "secure") == 1.0
    assert share_sheet(found, "all").rows[1][1:] == ("–", "50 % (1 seed)")


def test_a_table_of_shares():
    sheet = share_sheet(hospitals(), "smaller half")
    assert sheet.heads == ("mechanism", "ε = 0.1", "ε = 1", "ε = 10")
    assert sheet.rows[0][0] == "gram, secure sum"
    assert sheet.markdown().count("\n") == 2
