"""What is kept between cells changes nothing: choice and model are those of `adapt`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from studies.case import load_case
from studies.frontier.fit import Learner
from studies.frontier.release import Sums, plan_of, statistic_factors
from studies.frontier.settings import Release, read_frontier, sampled
from twofold.entity.adapt import adapt
from twofold.features import Features
from twofold.federation.messages import encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.server.factorize import Server

COUNTS = {"feedback": "counts", "lower": 0.0, "bound": 5.0, "rank": 20, "seed": 4}
RATINGS = {"feedback": "ratings", "lower": 1.0, "bound": 5.0, "rank": 3, "seed": 4}


def same(learnt, rows, adapted):
    assert (learnt.candidate.kind, learnt.candidate.strength) == (adapted.kind, adapted.strength)
    assert np.array_equal(learnt.scorer.scores(rows[:50]), adapted.scorer.scores(rows[:50]))


@pytest.mark.parametrize("noise", ["none", "noise only"])
def test_counts(noise):
    setting = read_frontier("tiny").of("hospitals-middle")
    case = load_case(setting.case, seed=4)
    gram = Release(name="gram", mechanism="gram", noises=("secure",))
    sums = Sums(case=case, base=plan_of(case, setting), release=gram, honest_share=0.9)
    shared = statistic_factors(sums, noise, 1.0 if noise == "noise only" else float("inf"), seed=1)
    rows = case.rows[sampled(case.sizes, setting.sample)[0]]
    learner = Learner(rows=rows, **COUNTS)
    same(learner.alone(), rows, adapt(rows, None, **COUNTS, threads=1))
    same(learner.adapted(shared)[0], rows, adapt(rows, shared, **COUNTS, threads=1))


def ratings(users: int, rng: np.random.Generator) -> sparse.csr_array:
    taste = rng.standard_normal((users, 2)) @ rng.standard_normal((2, 24))
    stars = np.clip(np.rint(3 + taste), 1, 5) * (rng.random((users, 24)) < 0.5)
    return sparse.csr_array(stars.astype(np.float32))


def test_ratings_with_public_features():
    rng = np.random.default_rng(0)
    genres = Features(matrix=rng.integers(0, 2, (24, 3)), names=("a", "b", "c"))
    plan = Plan(
        catalog=CatalogKey(hash="0" * 64, n_items=24), feedback="ratings", lower=1, bound=5, max_items=24, rank=3,
        epsilon=50, mechanism="features", features=genres, n_users=60, simulation=True,
    )  # fmt: skip
    parts = [ratings(60, rng) for _ in range(3)]
    messages = [
        encode_release(plan.release_mechanism.release(rows, plan.parameters, rng=at).value, entity=f"e{at}", plan=plan)
        for at, rows in enumerate(parts)
    ]
    shared = Server(plan).factorize(messages)
    learner = Learner(rows=parts[0], **RATINGS, features=genres)
    same(learner.alone(), parts[0], adapt(parts[0], None, **RATINGS, threads=1))
    same(learner.alone(features=True), parts[0], adapt(parts[0], None, **RATINGS, threads=1, features=genres))
    best, as_sent = learner.adapted(shared, features=True)
    same(best, parts[0], adapt(parts[0], shared, **RATINGS, threads=1, features=genres))
    same(as_sent, parts[0], adapt(parts[0], shared, **RATINGS, threads=1, strength="shared"))
