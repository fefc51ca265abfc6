"""`twofold plan explain` of a bilinear plan: its own noise and its own size, not those of prototypes."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from twofold.cli.plan import app
from twofold.cli.plan_explain import release_lines
from twofold.cli.steps import price_lines, price_record
from twofold.features import Features
from twofold.federation.messages import array_bytes
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import OperatorSum, SecureSum
from twofold.privacy.card import brief, rounded_up
from twofold.privacy.ledger import Cost
from twofold.release.bilinear.mechanism import Bilinear

PLAN = Plan(
    catalog=CatalogKey(hash="0" * 64, n_items=40),
    feedback="counts",
    bound=1,
    max_items=10,
    mechanism="gram",
    n_entities=10,
    n_users=200,
)
SECURE = PLAN.with_(secure=SecureSum(survivors=9))


def explained(folder: Path, plan: Plan, *options: object) -> str:
    plan.write(folder / "plan.toml")
    done = CliRunner().invoke(app, ["explain", str(folder / "plan.toml"), *map(str, options)])
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done.output


def told(folder: Path, plan: Plan, *options: object) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(explained(folder, plan, "--json", *options))
    return record


def test_honest_counts_this_entity():
    """First reader B2: "shared among 2 honest entities" left open whether this one is counted."""
    honest = SECURE.parameters.honest
    said = "\n".join(release_lines(SECURE))
    assert f"at least {honest} entities, this one and {honest - 1} more, suffices" in said
    assert f"Of the {honest} shares that the price and the card count on" in said


def test_a_secure_sum_is_judged_by_the_noise_of_the_sum(tmp_path):
    rows = told(tmp_path, SECURE)["rows"]
    assert [row["epsilon"] for row in rows] == [0.1, 0.3, 1, 3, 10]
    assert [row["of_the_plan"] for row in rows] == [False, False, True, False, False]
    for row in rows:
        public = SECURE.parameters.with_(epsilon=row["epsilon"])
        assert row["share"] == pytest.approx(Bilinear(kind="gram").noise_share(public))
        assert row["own_noise"] == pytest.approx(Bilinear(kind="gram").noise_share(public.with_(honest=0)))
        assert row["own_noise"] > 2 * row["share"]


@pytest.mark.parametrize("plan", [SECURE, PLAN.with_(n_entities=1)], ids=["secure sum", "one entity"])
def test_the_bound_is_said_where_messages_are_added_up_as_they_are(tmp_path, plan):
    """What the page on error bounds proves: 2·rank times the noise edge, a little raised for certainty."""
    for row in told(tmp_path, plan)["rows"]:
        raised = (1 + (math.log(40) / plan.n_items) ** 0.5) * 99 / 70 / 2**0.5
        assert row["reconstruction_bound"] == pytest.approx(2 * plan.rank * row["share"] * raised)
    assert explained(tmp_path, plan).count("Bound: ") == 1


@pytest.mark.parametrize(
    "plan",
    [PLAN, PLAN.with_(delta=0), SECURE.with_(mechanism="sketch"), SECURE.with_(feedback="ratings", bound=5, lower=1)],
    ids=["weighted by size", "pure", "sketch", "ratings"],
)
def test_no_bound_is_said_where_none_is_proved(tmp_path, plan):
    assert {row["reconstruction_bound"] for row in told(tmp_path, plan)["rows"]} == {None}
    assert "Bound: " not in explained(tmp_path, plan)


def test_own_noise_has_no_second_column(tmp_path):
    assert {row["own_noise"] for row in told(tmp_path, PLAN)["rows"]} == {None}
    assert "with own" not in explained(tmp_path, PLAN)
    assert "with own" in explained(tmp_path, SECURE)


@pytest.mark.parametrize("plan", [PLAN, SECURE, PLAN.with_(mechanism="popularity"), PLAN.with_(mechanism="sketch")])
def test_there_is_one_answer_to_how_much_leaves(tmp_path, plan):
    record, numbers, size = told(tmp_path, plan), plan.spec.numbers, array_bytes(plan)
    assert record["leaves"] == {"numbers": numbers, "bytes": size}
    assert (record["plan"]["numbers"], record["plan"]["bytes"]) == (numbers, size)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (SECURE, "clear of the noise by the limit of auto (25 %)"),
        (SECURE.with_(epsilon="0.03"), "not clear of the noise by the limit of auto (25 %)"),
        (PLAN.with_(n_users=5, epsilon="0.1"), "no pattern can be seen"),
        (PLAN.with_(feedback="ratings", bound=5, lower=1), "the limit of auto (4 %)"),
    ],
)
def test_the_verdict_is_that_of_auto_and_names_where_it_was_measured(tmp_path, plan, words):
    shown = explained(tmp_path, plan)
    assert words in shown
    assert words in told(tmp_path, plan)["verdict"]
    assert "docs/results/frontier.md" in shown
    assert "users per entity, or" in shown or "not sufficient" in shown
    assert "prototype" not in shown


def test_the_row_of_the_plan_is_marked(tmp_path):
    (line,) = [line for line in explained(tmp_path, SECURE.with_(epsilon="0.7")).splitlines() if "plan >" in line]
    assert line.split()[2] == "0.7"
    several = explained(tmp_path, SECURE, "--epsilon", 0.2, "--epsilon", 0.4)
    assert "plan >" not in several
    assert "At ε = 1 " in several


def test_features_and_pure_noise_are_judged_too(tmp_path):
    table = Features(matrix=np.arange(120).reshape(40, 3) % 3, names=("a", "b", "c"))
    plan = PLAN.with_(mechanism="features", features=table, feedback="ratings", bound=5, lower=1, delta=0)
    record = told(tmp_path, plan)
    assert {row["mechanism"] for row in record["rows"]} == {"features"}
    assert {row["limit"] for row in record["rows"]} == {1.0}
    assert record["public"]["delta"] == 0
    assert "(100 %)" in explained(tmp_path, plan)


def test_prototypes_keep_their_table(tmp_path):
    shown = explained(tmp_path, PLAN.with_(mechanism="sulq"))
    assert "noise hides patterns below" in shown
    assert "limit of auto" not in shown


def test_the_epsilon_of_one_message_is_rounded_up_as_on_the_card(tmp_path):
    found = SECURE.spec.sum.alone_epsilon
    said = re.search(r"alone, .* server: (ε = \S+)\.\n", explained(tmp_path, SECURE))
    assert said is not None
    assert said[1] == brief(Cost(epsilon=Fraction(found), delta=Fraction(0)))
    for epsilon in (
        Fraction(1, 3),
        Fraction(1, 10),
        Fraction(2111, 1000),
        Fraction(10001, 100),
        Fraction(999999, 10**6),
    ):
        assert f"ε = {rounded_up(epsilon)}" == brief(Cost(epsilon=epsilon, delta=Fraction(0)))
        assert Fraction(rounded_up(epsilon)) >= epsilon


OPERATED = {
    noise: PLAN.with_(secure=OperatorSum(floor=9, noise=noise), delta=1e-6)
    for noise in ("operators", "both", "entities")
}


@pytest.mark.parametrize("noise", OPERATED)
def test_every_coalition_of_two_operators_is_explained(tmp_path, noise):
    record = told(tmp_path, OPERATED[noise])["plan"]
    rows = {row["who"]: row["epsilon"] for row in record["coalitions"]}
    assert rows["both operators"] == record["alone"]
    assert (rows["both operators"] == "infinite") == (noise == "operators")
    said = explained(tmp_path, OPERATED[noise])
    for who in rows:
        assert f"Against {who}: " in said
    assert "at least 9 entities" in said
    assert "the server sees" not in said


def test_the_noise_of_operators_is_not_called_the_entity_s():
    said = "\n".join(release_lines(OPERATED["operators"]))
    noise = OPERATED["operators"].spec.noise.values
    assert f"Noise of each operator: Gaussian, standard deviation {noise:,.4g} on a sum" in said
    assert f"with all noise in it: {2**0.5 * noise:,.4g} on a sum" in said
    assert "An entity adds no noise" in said
    assert "numbers without noise" in OPERATED["operators"].spec.what
    assert "draws all of the noise itself" not in said


def test_people_are_told_that_taking_part_is_seen():
    plan = PLAN.with_(secure=OperatorSum(floor=9, people=True), n_users=1, simulation=True)
    assert "That a person takes part is seen" in "\n".join(release_lines(plan))


@pytest.mark.parametrize(("noise", "said"), [("operators", "add the noise"), ("both", "a share of one more")])
def test_the_price_names_the_operators(noise, said):
    lines = "\n".join(price_lines(OPERATED[noise]))
    assert said in lines
    assert "it holds if one of them is honest" in lines
    assert ("your exact sums are open to them" in lines) == (noise == "operators")
    assert "fewer than 9 entities" in lines
    assert price_record(OPERATED[noise])["honest"] is None


def test_the_price_of_shares_names_those_who_must_draw_them():
    record = price_record(OPERATED["entities"])
    assert record["honest"] == 7
    assert "at least 7 entities, yours included" in "\n".join(price_lines(OPERATED["entities"]))


def test_where_nothing_is_predicted_the_record_says_no_like_the_table(tmp_path):
    rows = told(tmp_path, SECURE.with_(epsilon="0.03"), "--epsilon", 0.03, "--epsilon", 1)["rows"]
    assert rows[0]["limit"] < rows[0]["share"] < 1  # by its noise alone it would be "hardly"
    assert [row["verdict"] for row in rows] == ["no", "perhaps"]
