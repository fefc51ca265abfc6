"""What every system has to do, whatever it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from studies.systems import NAMES, Fitted, System, system
from studies.systems.peers import Peer
from tests.refused import refused
from twofold.data.federation import Federation
from twofold.data.ratings import Ratings
from twofold.data.sources import hospitals
from twofold.errors import BadParameter, DataError, TwofoldError

RANK = 3
SMALL: dict[str, dict[str, Any]] = {
    "popularity-own": {},
    "popularity-pooled": {},
    "popularity-private": {},
    "ladder-secure": {},
    "federated-als": {"rank": RANK, "iterations": 4},
    "fedavg": {"rank": RANK, "iterations": 3},
    "mcsherry-mironov": {"rank": RANK, "items": 12},
    "as-published": {"rank": RANK, "n_prototypes": 4},
}


#: Made of counts: a tensor of labs and medications, and rows of presence.
COUNTS_ONLY = ("tensor-admm", "tensor-pooled", "synthetic-rows")


@pytest.fixture(scope="module")
def federation() -> Federation:
    """Three small hospitals, one of them tiny, over forty items."""
    whole = hospitals.simulate(n_patients=160, n_hospitals=3, rng=0).federation
    kept = {
        name: one.take(np.arange(min(one.n_users, size)))
        for (name, one), size in zip(whole.items(), (70, 40, 2), strict=True)
    }
    return Federation(kept)


def small(name: str) -> System:
    if name == "synthetic-rows":
        pytest.skip("minutes, in an environment of its own: tests/studies/related/test_marginals.py")
    options = SMALL.get(name, {"rank": RANK})
    made = system(name, **options)
    if made.private:  # at a useful ε nothing of so few people rises above the noise, and all scores are zero
        made = system(name, **options, epsilon=10**5)
    if isinstance(made, Peer) and not made.installed:
        pytest.skip(f"{made.library} is not installed")
    return made


def blocks(federation: Federation, fitted: Fitted) -> dict[Any, np.ndarray]:
    return {label: fitted.scores(label, one.matrix[:5]) for label, one in federation.items()}


@pytest.mark.parametrize("name", COUNTS_ONLY)
def test_what_is_made_of_counts_refuses_ratings(name: str, federation: Federation) -> None:
    with pytest.raises(BadParameter):
        system(name).fit(federation, feedback="ratings", seed=0)


@pytest.mark.parametrize(
    ("name", "feedback"),
    [(name, kind) for name in NAMES for kind in ("counts", "ratings") if kind == "counts" or name not in COUNTS_ONLY],
)
def test_every_system_scores_every_entity_and_repeats_itself(name: str, feedback: Any, federation: Federation) -> None:
    one = small(name)
    assert isinstance(one, System)
    first, again = (one.fit(federation, feedback=feedback, seed=3) for _ in range(2))
    scores = blocks(federation, first)
    for label, found in scores.items():
        assert found.dtype == np.float32
        assert found.shape == (min(5, federation[label].n_users), len(federation.catalog))
        assert np.isfinite(found).all()
    assert any(found.any() for found in scores.values())
    for label, found in blocks(federation, again).items():
        np.testing.assert_array_equal(found, scores[label])
    assert first.traffic == again.traffic
    assert (first.epsilon is not None) == one.private == first.private


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("popularity-own", "popularity-pooled")])
def test_a_new_person_is_scored_by_their_own_history(name: str, federation: Federation) -> None:
    """Histories that were not in the fit, an empty one among them."""
    fitted = small(name).fit(federation, feedback="counts", seed=0)
    label = next(iter(federation))
    rows = sparse.csr_array(
        np.vstack([np.zeros(len(federation.catalog)), 2.0 * (np.arange(len(federation.catalog)) < 6)])
    )
    found = fitted.scores(label, rows)
    assert np.isfinite(found).all()
    assert fitted.scores(label, rows[:0]).shape == (0, len(federation.catalog))


@pytest.mark.parametrize("name", ["prototypes-random", "pure-noise", "popularity-private", "mcsherry-mironov"])
def test_another_seed_is_another_draw(name: str, federation: Federation) -> None:
    one, two = (small(name).fit(federation, feedback="counts", seed=seed) for seed in (0, 1))
    label = next(iter(federation))
    rows = federation[label].matrix[:5]
    assert not np.array_equal(one.scores(label, rows), two.scores(label, rows))


def test_what_cannot_be_is_refused(federation: Federation) -> None:
    with pytest.raises(BadParameter):
        system("no-such-system")
    with pytest.raises(BadParameter):
        system("pooled", epsilon=1)  # nothing there has a price
    fitted = system("popularity-own").fit(federation, feedback="counts", seed=0)
    with pytest.raises(DataError):
        fitted.scores("nobody", next(iter(federation.values())).matrix)
    with pytest.raises(BadParameter):
        system("popularity-own").fit(federation, feedback="counts", seed=-1)
    ratings: Ratings = next(iter(federation.values()))
    with pytest.raises(DataError):
        system("popularity-own").fit(ratings, feedback="counts", seed=0)  # type: ignore[arg-type]


def test_options_reach_the_group_they_belong_to() -> None:
    made: Any = system("prototypes-sulq", epsilon=3, rank=7, n_users=50)
    assert (made.release.mechanism, made.release.epsilon, made.factorization.rank) == ("sulq", 3, 7)
    assert made.release.n_users == 50
    assert system("adapted-kmeans", rank=4).rank == 4  # type: ignore[attr-defined]


def test_a_missing_peer_says_what_to_install(federation: Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.systems.peers.installed", lambda _: False)
    with refused(TwofoldError, None, "implicit", "twofold[bench]"):
        Peer(library="implicit").fit(federation, feedback="counts", seed=0)
