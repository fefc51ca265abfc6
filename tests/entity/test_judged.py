"""Which of the rungs that were tried is taken."""

from __future__ import annotations

import numpy as np
import pytest

from twofold.entity import judged
from twofold.entity.candidates import Losses
from twofold.entity.judged import Rung, Tried, least_use, path
from twofold.entity.models.stack import Weighed


def tried(kind: str, worth: float, losses: np.ndarray, step: int = 1) -> Tried:
    return Tried(
        rung=Rung(kind=kind, step=step),
        weighed=Weighed(weights=np.ones(2), likelihood=worth, worth=worth),
        losses=Losses(values=losses, owners=np.arange(losses.size)),
    )


@pytest.mark.parametrize(("behind", "worse", "kept"), [(9.0, 0.0, True), (11.0, 0.0, False), (-20.0, 0.5, False)])
def test_factors_by_confidence_stand_alone_unless_nats_or_lists_are_clearly_worse(behind, worse, kept):
    losses = np.random.default_rng(0).random(50)
    rival, sure = tried("item-item", -100.0, losses), tried(judged.CONFIDENT, -100.0 - behind, losses + worse)
    assert judged._trusted([rival, sure], -200.0) == ([sure] if kept else [rival])
    assert judged._trusted([sure], -200.0) == [sure]


def test_lists_within_two_errors_do_not_speak_against_confidence():
    rng = np.random.default_rng(0)
    losses, chance = rng.random(400), rng.normal(size=400)
    chance -= chance.mean()
    error = chance.std(ddof=1) / 20
    for errors, kept in ((1.9, True), (2.1, False)):
        rival = tried("item-item", -100.0, losses)
        sure = tried(judged.CONFIDENT, -100.0, losses + chance + errors * error)
        assert judged._trusted([rival, sure], -200.0) == ([sure] if kept else [rival])


def test_factors_by_confidence_that_would_not_be_climbed_do_not_keep_others_from_it():
    losses = np.zeros(50)
    use, rival = tried("use", -100.0, losses, step=0), tried("item-item", -97.0, losses)
    for worth, taken in ((-98.5, "item-item"), (-97.5, judged.CONFIDENT)):
        sure = tried(judged.CONFIDENT, worth, losses)
        assert path([use, rival, sure])[-1].rung.kind == taken


def test_what_others_know_has_to_tell_more_than_all_own_rungs_also_those_that_gave_way():
    losses = np.zeros(50)
    own = [
        tried("use", -100.0, losses, step=0),
        tried("item-item", -80.0, losses),
        tried(judged.CONFIDENT, -89.0, losses),
    ]
    for worth, taken in ((-86.0, judged.CONFIDENT), (-78.5, judged.CONFIDENT), (-77.5, "shared taste")):
        assert path([*own, tried("shared taste", worth, losses, step=3)])[-1].rung.kind == taken


def test_factors_by_confidence_that_failed_are_left_out():
    rival, sure = tried("item-item", -100.0, np.zeros(9)), judged.failed(Rung(kind=judged.CONFIDENT, step=1))
    assert judged._trusted([rival, sure], -200.0) == [rival]
    assert path([tried("use", -200.0, np.zeros(9), step=0), sure])[-1].rung.kind == "use"


def test_a_bolder_rung_needs_its_nats():
    losses = np.zeros(20)
    safe, bold = tried("use", -100.0, losses, step=0), tried("item-item", -98.5, losses)
    assert path([safe, bold]) == [safe]
    bolder = tried("item-item", -97.5, losses)
    assert path([safe, bolder]) == [safe, bolder]


@pytest.mark.parametrize(("people", "hidden", "taken"), [(120, 500, 1), (120, 300, 0), (80, 500, 0)])
def test_use_weighs_less_where_lists_are_hardly_worse_and_many_tell(people, hidden, taken):
    rng = np.random.default_rng(0)
    best = rng.random(people)
    hardly = best + rng.normal(size=people)
    hardly += best.mean() - hardly.mean() + 0.01
    clearly = best + 0.5
    lists = [Losses(values=one, owners=np.arange(people)) for one in (best, hardly, clearly)]
    assert least_use(lists, hidden) == taken
