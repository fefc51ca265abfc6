"""ε at the edges of data, quickly; and proof that the audit would see a fault (audit M1 and M2)."""

from __future__ import annotations

import numpy as np
import pytest

from studies.trust.edges import EDGES, Case, cases, people, print_edges, refusing_after_noise, refusing_nobody, shown
from twofold.entity.agent import bounded
from twofold.privacy.rng import source

QUICK = [
    Case("gram", "nobody", masked=False, epsilon=3),
    Case("popularity", "nobody", masked=False, epsilon=3),
    Case("gram", "nobody", masked=True, epsilon=3),
    Case("gram", "beyond the promise", masked=True, epsilon=3),
]


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_no_more_is_shown_than_claimed(case: Case) -> None:
    found = shown(case, runs=300, rng=3)
    assert found.epsilon <= case.epsilon
    assert found.epsilon > (0.3 if case.edge == "nobody" else -1)  # the attack is not blind


def test_a_refused_empty_table_is_caught() -> None:
    case = QUICK[0]
    assert shown(case, runs=500, rng=3, release=refusing_nobody).epsilon > case.epsilon


def test_a_refusal_after_a_share_of_the_noise_is_caught() -> None:
    case = Case("gram", "beyond the promise", masked=True, epsilon=0.5)
    assert shown(case, runs=400, rng=3, release=refusing_after_noise(43)).epsilon > 4 * case.epsilon


def test_the_attacker_sees_the_sum_of_the_honest_ones_without_masks() -> None:
    case = Case("gram", "at the cap", masked=True)
    words, chosen, public = source(5), case.plan.release_mechanism, case.plan.parameters
    parts = [chosen.release(bounded(people(n), case.plan).matrix, public, rng=words).value.numbers for n in (7, 0)]
    assert (case.released(people(7), source(5)) == parts[0] + parts[1]).all()
    assert public.honest == len(parts)


def test_beyond_the_promise_the_sums_are_cut() -> None:
    case = Case("gram", "beyond the promise", masked=True)
    limit = case.plan.spec.sum.limit
    near, over = (case.exact(people(case.users + more)) for more in (0, 2))
    assert np.abs(near).max() <= limit == np.abs(over).max()


def test_every_mechanism_meets_every_edge() -> None:
    seen = {(case.mechanism, case.edge, case.masked) for case in cases()}
    for mechanism in ("gram", "sketch", "features"):
        assert {(mechanism, edge, masked) for edge in EDGES for masked in (False, True)} <= seen
    assert {("popularity", edge, False) for edge in EDGES} <= seen


@pytest.mark.slow
def test_the_table_is_printed_and_nothing_exceeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_edges(runs=400, chosen=QUICK) == 0
    assert "caught" in capsys.readouterr().out
