"""What the protocol expects of a message is what every mechanism really makes."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress

import numpy as np
import pytest

from twofold.errors import BadPlan
from twofold.federation.plan import CatalogKey, Plan


def plan_of(**changes: object) -> Plan:
    start = {"catalog": CatalogKey(hash="0" * 64, n_items=6), "feedback": "counts", "bound": 5, "max_items": 2}
    return Plan(**{**start, "simulation": True, **changes})


@pytest.mark.parametrize("name", ["auto", "balcan", "sulq", "buckets", "popularity", "kmeans", "exact", "random"])
def test_every_mechanism_makes_what_is_expected(name):
    rows, sizes, laws = np.ones((3, 6)), set(), set()
    for users, epsilon, delta, feedback, k in itertools.product(
        (50, 10**7), (0.1, 20), (0, 1e-6), ("counts", "ratings"), (1, 5)
    ):
        plan = plan_of(
            mechanism=name, n_users=users, epsilon=epsilon, delta=delta, feedback=feedback, n_prototypes=k, bound=3
        )
        wanted, made = plan.spec, plan.release_mechanism.release(rows, plan.parameters, rng=0).value
        assert (made.mechanism, made.noise.law) == (wanted.mechanism, wanted.noise.law)
        assert made.n_prototypes == (wanted.rows or made.n_prototypes) <= wanted.most_rows
        assert {name: array.shape for name, array in made.arrays().items()} == {
            one.name: one.sized(made.n_prototypes) for one in wanted.arrays
        }
        for part in ("values", "observed", "counts"):
            assert math.isclose(getattr(made.units, part), getattr(wanted.units, part), rel_tol=1e-12)
            assert math.isclose(getattr(made.noise, part), getattr(wanted.noise, part), rel_tol=1e-12)
        sizes.add(wanted.rows)
        laws.add(wanted.noise.law)
    if name in ("auto", "balcan", "sulq", "buckets"):  # both with a fallback and without
        assert len(sizes) > 1
    assert laws == {"balcan": {"laplace"}}.get(name, {"none"} if not wanted.private else {"laplace", "gaussian"})


def test_the_chain_of_the_paper_is_among_them():
    plan = plan_of(mechanism="balcan", n_users=10**7, epsilon=20, n_prototypes=5)
    assert plan.release_mechanism.spec(plan.parameters).event.kind == "sequential/1"
    assert plan.spec.units.counts == 1.0


def test_a_plan_whose_messages_could_overflow_is_refused_before_anything_is_spent():
    with pytest.raises(BadPlan, match=r"noise below 3e\+13"):
        assert plan_of(mechanism="popularity", epsilon="1e-10", delta=0).spec
    for delta in (0, 1e-6):
        with pytest.raises(BadPlan):
            assert plan_of(mechanism="popularity", epsilon="1e-60", delta=delta).spec


def test_numbers_at_the_ends_of_their_ranges_never_raise_anything_but_our_error():
    for bound, users, epsilon, name in itertools.product(
        (1e-99, 1e99), (1, 10**15), ("1e-100", "1e-9", "1e9", "1e100"), ("auto", "balcan", "sulq", "buckets")
    ):
        with suppress(BadPlan):
            assert plan_of(mechanism=name, bound=bound, n_users=users, epsilon=epsilon, n_prototypes=3).spec
