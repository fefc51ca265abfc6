"""Terms of a secure sum: the same at all sides, and a modulus that no honest sum leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.refused import refused
from twofold.errors import BadPlan, PlanMismatch
from twofold.federation.key_messages import secure_terms
from twofold.federation.messages import modulus_bits
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.identity.roster import Roster
from twofold.privacy.rng import source
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.mechanism import BilinearNoise

ROSTER, _ = Roster.new([f"site-{number}" for number in range(5)])


def plan(**changes: Any) -> Plan:
    given = {
        "catalog": CatalogKey(hash="0" * 64, n_items=12),
        "feedback": "counts",
        "bound": 5,
        "max_items": 4,
        "mechanism": "gram",
        "secure": SecureSum(survivors=4),
        "roster": ROSTER,
    }
    return Plan(**(given | changes))


def test_every_field_of_the_plan_is_in_the_terms():
    digests = {
        secure_terms(one).digest
        for one in (
            plan(),
            plan(rank=3),
            plan(secure=SecureSum(survivors=5)),
            plan(name="other"),
        )
    }
    assert len(digests) == 4
    assert secure_terms(plan()).digest == secure_terms(plan()).digest
    assert secure_terms(plan()).least_survivors == 4
    assert secure_terms(plan()).least_present == 5


def test_without_a_sum_or_its_keys():
    with refused(PlanMismatch, "secure"):
        secure_terms(plan(secure=None))
    with refused(PlanMismatch, "roster", expected="a roster"):
        secure_terms(plan(secure=SecureSum(survivors=4), n_entities=5, roster=None))
    with refused(PlanMismatch, "roster", expected=ROSTER.hash[:12]):
        secure_terms(Plan.from_dict(plan(rank=2).as_dict()))


@pytest.mark.parametrize("delta", ["1/1000000", 0])
@pytest.mark.parametrize("kind", ["gram", "sketch"])
def test_the_largest_promised_sum_and_far_noise_fit(delta: Any, kind: str):
    """A thousand times the promised users, all at the bound, plus the farthest of many draws of the noise."""
    made = plan(delta=delta, mechanism=kind, n_users=1, epsilon="0.1")
    terms, public = secure_terms(made), made.parameters
    layout = BilinearLayout.of(public, kind)
    noise = BilinearNoise(public=public, layout=layout)
    drawn = [noise.release(np.zeros(layout.length, dtype=np.int64), rng=source(seed)).value for seed in range(20)]
    farthest = int(np.abs(np.stack(drawn)).max())
    largest = max(layout.norm**2 if kind == "gram" else layout.norm * layout.profile_norm, layout.count_weight)
    assert 1_000 * made.n_users * largest + 3 * farthest < terms.limit


def test_laplace_shares_have_room_for_their_whole_tail():
    """A share's own deviation says little of its tail: that is as long as the tail of all shares together."""
    gaussian, laplace = (plan(delta=delta, n_users=1, epsilon="0.001", n_entities=5) for delta in ("1/1000000", 0))
    scale = float(
        BilinearNoise(public=laplace.parameters, layout=BilinearLayout.of(laplace.parameters, "gram")).mechanism.scale
    )
    assert secure_terms(laplace).limit > 200 * scale
    assert modulus_bits(gaussian) <= 64


def test_too_large_for_any_modulus():
    with refused(BadPlan, "n_users", found="88 bits"):
        modulus_bits(plan(n_users=10**15))
