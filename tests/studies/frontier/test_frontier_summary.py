"""Shares of the gap and their words, on tables whose answer is known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import polars as pl
import pytest

from studies.frontier.page import advice, verdict, worth_from
from studies.frontier.settings import Target, read_frontier
from studies.frontier.summary import SCHEMA, Results
from studies.frontier.tables import (
    entity_sheet,
    harm_sheet,
    overview_sheet,
    promise_sheet,
    promises,
    share_sheet,
    target_sheet,
)
from twofold.release import usefulness

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
        rows("EASE pooled", values=federated),
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
        rows("pooled", values=[0.64] * 4, data=FILMS.name),
        rows("features", "secure", 1.0, values=[0.81] * 4, data=FILMS.name),
        setting=FILMS,
    )
    assert found.metric("alone")[0] == pytest.approx(1.0)
    assert found.share("features", "secure", 1.0).mean == pytest.approx(0.5, abs=0.01)


def test_without_a_clear_gap_there_is_no_share():
    flat = results(
        rows("alone", values=[0.5] * 4),
        rows("pooled", values=[0.5] * 4),
        rows("gram", "secure", 1.0, values=[0.6] * 4),
    )
    share = flat.share("gram", "secure", 1.0)
    assert math.isnan(share.mean)
    assert share.seeds == 2
    assert "no clear gap" in verdict(flat)
    assert worth_from(flat, "gram", "secure") is None


def test_the_best_of_each_kind_is_taken_among_those_with_the_most_splits():
    begun = [row for row in rows("EASE alone", values=[0.9] * 4) if row["seed"] == 0]
    parts = [rows("alone", values=[0.5] * 4), rows("own popularity", values=[0.51] * 4), begun]
    found = results(*parts, rows("pooled", values=[0.6] * 4), rows("EASE pooled", values=[0.61] * 4))
    assert found.control()[0] == "own popularity"
    assert found.pooled()[0] == "EASE pooled"
    assert found.gap().mean == pytest.approx(0.1)


def test_exact_sums_are_a_way_to_pool():
    parts = [rows("alone", values=[0.5] * 4), rows("pooled", values=[0.6] * 4), rows("gram", values=[0.7] * 4)]
    found = results(*parts, rows("gram", "secure", 1.0, values=[0.65] * 4))
    assert found.pooled() == ("gram", "none", math.inf)
    assert found.share("gram", "secure", 1.0).mean == pytest.approx(0.75)


def test_popularity_shared_at_the_same_price_is_a_control():
    shared = "shared popularity, private"
    found = results(
        rows("alone", values=[0.5] * 4),
        rows("pooled", values=[0.6] * 4),
        rows(shared, "secure", 0.1, values=[0.4] * 4),
        rows(shared, "secure", 1.0, values=[0.55] * 4),
        *(rows("gram", "secure", epsilon, values=[0.57] * 4) for epsilon in (0.1, 1.0)),
    )
    assert [found.control(one)[0] for one in (0.1, 1.0)] == ["alone", shared]
    assert found.share("gram", "secure", 0.1).mean == pytest.approx(0.7)
    assert found.share("gram", "secure", 1.0).mean == pytest.approx(0.4)
    assert found.gain("gram", "secure", 1.0).mean == pytest.approx(0.02)


def test_the_error_of_a_share_is_that_of_a_ratio_of_paired_means():
    private = rows("gram", "secure", 1.0, values=[0.55] * 4)
    for row in private:
        row["ndcg"] += 0.01 * row["seed"]
    found = results(rows("alone", values=[0.5] * 4), rows("pooled", values=[0.6] * 4), private)
    share = found.share("gram", "secure", 1.0)
    assert share.mean == pytest.approx(0.55)
    assert share.error == pytest.approx(0.05)


def test_from_which_epsilon_on():
    assert worth_from(hospitals((-0.1, 0.6, 0.9)), "gram", "secure") == 1.0
    assert worth_from(hospitals((0.7, 0.0, 0.9)), "gram", "secure") == 10.0
    assert worth_from(hospitals((0.7, 0.7, -0.3)), "gram", "secure") is None


def test_what_noise_gives_as_well_is_not_called_federation():
    parts = [
        rows("alone", values=[0.5] * 4),
        rows("pooled", values=[0.6] * 4),
        rows("gram", "secure", 1.0, values=[0.56] * 4),
    ]
    assert worth_from(results(*parts), "gram", "secure") == 1.0
    with_noise = results(*parts, rows("gram", "noise only", 1.0, values=[0.56] * 4))
    assert worth_from(with_noise, "gram", "secure") is None


def test_words_follow_the_numbers():
    said = verdict(hospitals((-0.2, 0.6, 0.9)))
    assert "from ε = 1 on" in said
    assert "-20 % at 0.1, 60 % at 1, 90 % at 10" in said
    assert "at every ε" in verdict(hospitals())
    assert "do not federate" in verdict(hospitals((0.0, 0.1, -0.2)))
    lines = advice([hospitals((-0.2, 0.6, 0.9))])
    assert "1 of 1" in lines[0]
    assert "from ε = 1 for hospitals" in lines[1]
    assert "60 % (hospitals)" in lines[2]
    assert "to 0.522, where pooled data gives 0.536" in lines[2]
    assert "Do not federate" in advice([hospitals((0.0, 0.0, -0.2))])[-1]


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


@pytest.mark.parametrize(("private", "reached"), [(0.6, "yes"), (0.4, "no")])
def test_a_data_set_that_is_worse_than_alone_is_told(private, reached):
    found = results(
        rows("alone", values=[0.5] * 4),
        rows("own popularity", values=[0.3] * 4),
        rows("gram", "own", 1.0, values=[private] * 4),
    )
    assert set(found.beside_alone("gram", "own", 1.0)) == {"alone", "own popularity"}
    target = Target(data=HOSPITALS.name, noise="own", epsilon=1, group="all", least=0.5)
    said = target_sheet([target], {HOSPITALS.name: found}).rows[-1]
    assert said[1:] == (f"{0 if reached == 'yes' else 1} of 2 tests", reached)
    assert ("beside our model alone" in said[0]) == (reached == "no")


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


def test_a_target_beside_the_best_control():
    below = Target(data=HOSPITALS.name, noise="secure", epsilon=0.1, group="all", beside="not below")
    above = Target(data=HOSPITALS.name, noise="secure", epsilon=0.1, group="all", beside="above")
    for share, wanted in ((-0.1, ["no", "no"]), (0.1, ["yes", "yes"])):
        found = target_sheet([below, above], {HOSPITALS.name: hospitals((share, 0.5, 0.5))}).rows
        assert [row[2] for row in found[:2]] == wanted


def test_one_row_for_every_data_set():
    flat = results(rows("alone", values=[0.5] * 4), rows("pooled", values=[0.4] * 4),
                   rows("gram", "secure", 1.0, values=[0.5] * 4))  # fmt: skip
    found = overview_sheet([hospitals(), flat])
    assert found.rows[0][3:] == tuple(f"{one} ± 0 %" for one in (20, 60, 90))
    assert found.rows[1][3:] == ("–", "no clear gap", "–")


def test_predictions_stand_beside_what_was_measured(monkeypatch):
    monkeypatch.delattr(usefulness, "predict", raising=False)
    assert promises([hospitals()], 0.9) == []
    said = SimpleNamespace(directions=12.0, share=0.5)
    monkeypatch.setattr(usefulness, "predict", lambda *_, **__: said, raising=False)
    frame = hospitals().frame.with_columns(
        entities=pl.lit(205), items=pl.lit(457), all_users=pl.lit(190_000), directions=pl.lit(9)
    )
    found = promises([Results(frame, HOSPITALS)], 0.9)
    assert [one.epsilon for one in found] == list(EPSILONS)
    assert promise_sheet(found).rows[1][1:4] == ("12", "9", "50 %")


def test_an_epsilon_that_was_not_run_is_passed_over_and_few_seeds_are_marked():
    federated = [0.6] * 4
    later = [row for row in rows("buckets", "own", 10.0, values=[0.55] * 4) if row["seed"] == 0]
    found = results(
        rows("alone", values=[0.5] * 4),
        rows("pooled", values=federated),
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
