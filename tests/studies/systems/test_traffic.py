"""Rounds and bytes, counted by hand on two entities of three and two people over four items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from studies.systems import Traffic, system
from studies.systems.exchange import Release, exchange
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.simulation import simulate

ITEMS = Catalog(list("abcd"))


def entity(rows: list[list[float]], first: int) -> Ratings:
    matrix = sparse.csr_array(np.array(rows))
    return Ratings(matrix, Identifiers(range(first, first + len(rows))), ITEMS, "counts")


@pytest.fixture
def federation() -> Federation:
    """Six and three entries."""
    return Federation(
        {
            "north": entity([[1, 2, 0, 0], [0, 1, 1, 0], [3, 0, 0, 1]], 0),
            "south": entity([[0, 0, 2, 1], [1, 0, 0, 0]], 10),
        }
    )


FACTORS = 4 * 4 * 2  # four items, rank two, four bytes each
COUNTED = {
    # values and columns of nine entries, four bytes each; four and three row starts of eight bytes
    "pooled": (2, {"rank": 2}, 9 * 8 + (4 + 3) * 8, 2 * FACTORS),
    "individual": (0, {"rank": 2}, 0, 0),
    # V goes down before each of three steps and after the last, to two entities; gradients come up three times
    "federated-als": (7, {"rank": 2, "iterations": 3}, 3 * 2 * FACTORS, 4 * 2 * FACTORS),
    # the same, and once the weights of four items from each entity
    "fedavg": (7, {"rank": 2, "iterations": 3}, 3 * 2 * FACTORS + 2 * 4 * 4, 4 * 2 * FACTORS),
    "public-factors": (1, {"rank": 2, "share": 0.5}, 0, 2 * FACTORS),
    # five rows of noise or prototypes of four items from each of two entities
    "pure-noise": (2, {"rank": 2, "n_prototypes": 5}, 2 * 5 * 4 * 4, 2 * FACTORS),
    "as-published": (2, {"rank": 2, "n_prototypes": 5}, 2 * 5 * 4 * 4, 2 * FACTORS),
    # factors to the first entity, and from the first to the second
    "notebook-noise": (3, {"rank": 2, "n_prototypes": 5}, 2 * 5 * 4 * 4 + FACTORS, FACTORS),
    "popularity-own": (0, {}, 0, 0),
    "popularity-pooled": (2, {}, 2 * 8 * (4 + 1), 2 * 4 * 4),
}


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_rounds_and_bytes_by_hand(name: str, federation: Federation) -> None:
    rounds, options, up, down = COUNTED[name]
    fitted = system(name, **options).fit(federation, feedback="counts", seed=0)
    assert fitted.traffic == Traffic(rounds=rounds, bytes_up=up, bytes_down=down)


@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_private_covariance_by_hand(feedback: Any, federation: Federation) -> None:
    """Item sums and one count (and counts of ratings), then three items' six products (and six pairs), int64."""
    options: dict[str, Any] = {"epsilon": 10**6, "items": 3, "rank": 1, "max_items": 4}
    fitted = system("mcsherry-mironov", **options).fit(federation, feedback=feedback, seed=0)
    sent = 4 + 1 + 6 if feedback == "counts" else 2 * 4 + 1 + 2 * 6
    directions = int(fitted.note.split()[0])
    assert fitted.bytes_up == 2 * 8 * sent
    assert fitted.bytes_down == 2 * 4 * (4 + 3 + 3 * directions + 1)
    assert fitted.rounds == 4


@pytest.mark.parametrize("mechanism", ["popularity", "kmeans"])
def test_prototypes_cost_what_the_protocol_sends(mechanism: str, federation: Federation) -> None:
    """The same bytes as the simulator counts, which runs the same plan by another way."""
    release = Release(mechanism=mechanism, max_items=4, n_prototypes=2)
    plan = release.plan(federation, feedback="counts", rank=2)
    fitted = system(f"prototypes-{mechanism}", rank=2, max_items=4, n_prototypes=2).fit(
        federation, feedback="counts", seed=0
    )
    other = simulate(federation, plan, rng=0, local="factors", strength="shared")
    assert fitted.traffic == exchange(federation, plan, seed=0).traffic
    assert (fitted.rounds, fitted.bytes_up) == (2, sum(other.sent.values()))
    assert abs(fitted.bytes_down - 2 * other.received) <= 2 * 512  # words and numbers of another draw differ in length
