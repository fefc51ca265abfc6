"""The short way to the sums of people is the long one: same numbers, and the noise that the plan states."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from studies.case import load_case
from studies.frontier.release import Sums
from studies.people.bench import PeopleBench
from studies.people.page import markdown
from studies.people.release import _noises, shared_factors
from studies.people.run import PARTS, rows_of
from studies.people.sizes import sizes
from twofold.entity.person import Person
from twofold.federation.reports import decode_report
from twofold.federation.secure import OperatorSum
from twofold.identity.keys import Role, Secrets
from twofold.identity.roster import Roster
from twofold.release.bilinear.records import exact_sums
from twofold.release.contract import check_rows
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.operators import add_share, joined_sum, open_share

HOSPITALS = replace(PARTS[0], sample=(1, 1, 1, 1), users=4)
SCALE = 0.002


@cache
def bench() -> PeopleBench:
    setting = HOSPITALS.setting(SCALE)
    return PeopleBench(load_case(setting.case, 4000), setting, HOSPITALS.sample)


@cache
def sums() -> Sums:
    return Sums(case=bench().case, base=bench().plan, release=HOSPITALS.releases[0], honest_share=0.9)


def test_reports_of_people_add_up_to_the_exact_sums_of_their_hospitals() -> None:
    two = [Secrets.new(name, Role.OPERATOR) for name in ("one", "two")]
    federation = bench().case.train
    people = sum(ratings.n_users for ratings in federation.values())
    plan = sums().plan.with_(
        n_users=1,
        n_entities=people,
        secure=OperatorSum(floor=2, people=True),
        roster=Roster(one.identity for one in two),
    )
    assert plan.spec.sum is not None
    totals = [np.zeros(plan.spec.sum.length, dtype=np.uint64) for _ in two]
    bits = 0
    few, label = 25, next(iter(federation))
    for ratings in (federation[label],):
        for number in range(few):
            keys = Secrets.new("person", Role.PERSON)
            report = decode_report(Person(ratings.take([number]), plan, keys=keys).report().data, plan)
            bits = report.header.bits
            for place, box in enumerate(report.boxes):
                assert box is not None
                share = open_share(private_of(two[place].sum.seal), box, report.header, place)
                add_share(totals[place], share, report.header)
    public = sums().plan.parameters  # a hospital's, with other numbers of users and entities
    rows = check_rows(bench().case.rows[str(label)][:few], public)
    np.testing.assert_array_equal(joined_sum(totals, bits=bits), exact_sums(rows, public, sums().layout))
    stated = plan.with_(epsilon=1).spec.sum
    assert stated is not None
    assert stated.operator_deviation * math.sqrt(_noises("operators", people, 0.9)) == pytest.approx(
        stated.total_deviation(people)
    )


def test_more_noise_where_everybody_adds_their_own() -> None:
    assert _noises("own", 500, 0.9) > _noises("operators", 500, 0.9) > _noises("peers", 500, 0.9) > 1
    heard = [shared_factors(sums(), way, 30.0, seed=1, senders=380) for way in ("none", "operators", "own")]
    widths = [0 if one.patterns is None else one.patterns.shape[1] for one in heard]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[2]


def test_a_person_folds_in_better_than_alone() -> None:
    shared = shared_factors(sums(), "none", 1.0, seed=1, senders=380)
    assert bench().people(shared, features=False) > bench().person_alone(features=False)


def test_sizes_are_those_of_real_reports() -> None:
    found = {(one["catalog"], one["what"]): one for one in sizes(1_000, most_items=457)}
    gram = found["457 items", "gram"]
    assert gram["numbers"] == 457 * 458 // 2 + 457 + 1
    for one in found.values():
        assert one["numbers"] * 6 < one["first"] < one["bytes"]
        assert one["second"] < 2_000


@pytest.mark.slow
def test_the_page_has_every_row() -> None:
    rows = list(rows_of(HOSPITALS, 4000, scale=SCALE))
    text = markdown(rows, [])
    for who in ("people", "hospitals"):
        assert {(one["noise"], one["epsilon"]) for one in rows if one["who"] == who} >= {("operators", 3.0)}
    assert text.count("two operators |") == 2
