"""A real plan of two operators in one process: agreements travel with it, and nothing is spent twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulation.test_secure import FEDERATION, plan
from twofold.federation.secure import OperatorSum
from twofold.simulation import simulate


@pytest.mark.parametrize("noise", ["operators", "entities", "both"])
def test_a_real_plan_runs_and_runs_again_on_the_same_ledgers(tmp_path: Path, noise: Any) -> None:
    made = plan(secure=OperatorSum(floor=3, noise=noise))
    first = simulate(FEDERATION, made, ledgers=tmp_path, new_ledgers=True, local="factors", threads=1)
    assert first.private
    assert first.factors.entities == 4
    again = simulate(FEDERATION, made, ledgers=tmp_path, new_ledgers=False, local="factors", threads=1)
    assert again.published == first.published
    assert again.sent == first.sent


def test_every_entity_sends_one_message_of_the_same_size(tmp_path: Path) -> None:
    made = plan(secure=OperatorSum(floor=3))
    done = simulate(FEDERATION, made, ledgers=tmp_path, new_ledgers=True, local="factors", threads=1)
    (size,) = set(done.sent.values())
    assert size < 2 * 8 * made.spec.sum.length + 2_000  # nothing but one report: no agreement, no keys
    assert set(done.seconds) == {"round 1", "server", "round 2"}
