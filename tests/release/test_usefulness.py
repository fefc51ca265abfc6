"""Whether a statistic can rise above its noise."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from twofold.entity.models.others import MAX_ITEMS
from twofold.features import Features
from twofold.release import ReleaseParameters
from twofold.release.bilinear.combine import combine_bilinear
from twofold.release.bilinear.layout import MOST_PAIRED
from twofold.release.bilinear.mechanism import Bilinear, clear_share
from twofold.release.choose import GRAM_ITEMS, bilinear_choice, possible_kinds
from twofold.release.usefulness import LEAST_USE, SPECTRUM, directions, predict

TABLE = Features(matrix=np.arange(360).reshape(120, 3) % 4, names=("a", "b", "c"))
PUBLIC = ReleaseParameters(
    n_items=120, n_users=500, max_items=20, bound=1, n_prototypes=6, delta=1e-6, n_entities=3, features=TABLE
)


@pytest.mark.parametrize("honest", [0, 3])
@pytest.mark.parametrize("kind", ["gram", "sketch", "features"])
def test_the_share_is_the_norm_of_noise_that_is_really_drawn(kind: str, honest: int) -> None:
    public = PUBLIC.with_(honest=honest)
    made = Bilinear(kind=kind)  # type: ignore[arg-type]
    nobody = sp.csr_array((0, 120))
    sent = [made.release(nobody, public, rng=seed).value for seed in range(3)]
    # added up as they are: nobody has no size to weigh by
    moments = combine_bilinear(sent, public.with_(honest=3))
    largest = np.linalg.norm(moments.pairs, 2) / (moments.cap**2 if kind == "gram" else moments.cap)
    assert largest / 1500 == pytest.approx(Bilinear(kind=kind).noise_share(public), rel=0.15)  # type: ignore[arg-type]


def test_more_users_entities_and_budget_make_it_smaller() -> None:
    base = Bilinear(kind="gram").noise_share(PUBLIC)
    assert Bilinear(kind="gram").noise_share(PUBLIC.with_(n_users=1000)) == pytest.approx(base / 2)
    assert Bilinear(kind="gram").noise_share(PUBLIC.with_(n_entities=12)) == pytest.approx(base / 2)
    assert Bilinear(kind="gram").noise_share(PUBLIC.with_(epsilon=10)) < base / 4
    assert Bilinear(kind="gram").noise_share(PUBLIC.with_(honest=3)) == pytest.approx(base / 3**0.5, rel=1e-3)


def test_kinds_that_cannot_be_made_are_not_possible() -> None:
    assert possible_kinds(PUBLIC) == ["gram", "features"]
    assert possible_kinds(PUBLIC.with_(feedback="ratings")) == ["features", "gram"]
    assert possible_kinds(PUBLIC.with_(features=None, n_items=5000)) == ["gram"]
    assert possible_kinds(PUBLIC.with_(features=None, n_items=6001)) == ["sketch"]
    assert possible_kinds(PUBLIC.with_(features=None, n_items=5000, feedback="ratings")) == ["sketch"]
    assert possible_kinds(PUBLIC.with_(features=None, n_items=50_000, n_prototypes=1000)) == []
    assert bilinear_choice(PUBLIC.with_(features=None, n_items=50_000, n_prototypes=1000, honest=3)) is None


def test_one_limit_for_what_is_sent_and_what_an_entity_can_use() -> None:
    assert GRAM_ITEMS["counts"] == MAX_ITEMS == MOST_PAIRED
    public = PUBLIC.with_(features=None, n_items=MOST_PAIRED)
    assert possible_kinds(public) == ["gram"]
    assert Bilinear(kind="gram").spec(public).numbers
    assert possible_kinds(public.with_(n_items=MOST_PAIRED + 1)) == ["sketch"]


def test_a_table_too_wide_for_a_message_is_not_chosen() -> None:
    wide = Features(matrix=np.ones((340_000, 99), dtype=np.int8), names=tuple(map(str, range(99))))
    long = PUBLIC.with_(n_items=340_000, features=wide)
    assert possible_kinds(long) == ["sketch"]
    assert (
        possible_kinds(long.with_(features=Features(matrix=wide.matrix[:, :9], names=wide.names[:9])))[0] == "features"
    )
    for kind in possible_kinds(long):
        assert Bilinear(kind=kind).spec(long).sum is not None


def test_a_catalog_of_a_few_items_is_left_to_prototypes_unless_the_sum_is_secure() -> None:
    tiny = PUBLIC.with_(features=None, n_items=15, n_users=10**6)
    assert bilinear_choice(tiny) is None
    assert bilinear_choice(tiny.with_(n_items=16)) is not None
    assert bilinear_choice(tiny.with_(honest=3)) is not None


@pytest.mark.parametrize("honest", [0, 3])
@pytest.mark.parametrize("kind", ["gram", "sketch", "features"])
@pytest.mark.parametrize("feedback", ["counts", "ratings"])
def test_the_users_needed_are_those_from_which_it_is_clear(kind: str, honest: int, feedback: str) -> None:
    public = PUBLIC.with_(honest=honest, feedback=feedback, epsilon="0.3")
    found = Bilinear(kind=kind).usefulness(public)  # type: ignore[arg-type]
    enough, short = found.users_needed, found.users_needed - 1
    assert Bilinear(kind=kind).usefulness(public.with_(n_users=enough)).clear  # type: ignore[arg-type]
    assert short == 0 or not Bilinear(kind=kind).usefulness(public.with_(n_users=short)).clear  # type: ignore[arg-type]


def test_the_verdict_is_by_the_limit_of_auto() -> None:
    found = [Bilinear(kind="gram").usefulness(PUBLIC.with_(n_users=users)) for users in (10, 150, 3000)]
    assert [one.verdict for one in found] == ["no", "hardly", "perhaps"]
    for users, one in zip((10, 150, 3000), found, strict=True):
        chosen = bilinear_choice(PUBLIC.with_(n_users=users, features=None))
        assert (chosen is not None) == one.clear
    assert found[0].share > 1 > found[1].share > clear_share("gram", "counts") >= found[2].share


def test_the_prediction_rises_with_people_and_price() -> None:
    words = ["nothing", "a little", "half", "most"]
    found = [
        predict(one, Bilinear(kind="gram").usefulness(one), pairs=True)
        for one in (PUBLIC.with_(n_users=users, features=None) for users in (10, 100, 1_000, 10_000, 10**5, 10**6))
    ]
    order = [words.index(one.word or "") for one in found]
    assert order == sorted(order)
    assert (order[0], order[-1]) == (0, 3)
    shares = [one.share or 0.0 for one in found]
    assert shares == sorted(shares)
    assert all((one.low or 0) <= (one.share or 0) <= (one.high or 0) for one in found[1:] if one.word != "nothing")


def test_nothing_is_said_exactly_where_even_use_is_hidden() -> None:
    for users in (10, 60, 200, 300, 400, 1_000):
        public = PUBLIC.with_(n_users=users, features=None)
        judged = Bilinear(kind="gram").usefulness(public)
        assert (predict(public, judged, pairs=True).word == "nothing") == (judged.share >= 2 * LEAST_USE)


def test_what_was_not_measured_is_not_predicted() -> None:
    for kind, feedback in (("sketch", "counts"), ("features", "counts"), ("gram", "ratings")):
        public = PUBLIC.with_(feedback=feedback, n_users=10**5)
        judged = Bilinear(kind=kind).usefulness(public)  # type: ignore[arg-type]
        made = predict(public, judged, pairs=kind == "gram")
        assert (made.word, made.share) == (None, None)
        few = Bilinear(kind=kind).usefulness(public.with_(n_users=1))  # type: ignore[arg-type]
        assert predict(public, few, pairs=kind == "gram").word == "nothing"


def test_directions_are_counted_in_parts() -> None:
    first, power = SPECTRUM
    second = first * 2**-power
    assert directions(2 * second, n_items=99) == 0
    assert directions(second, n_items=2) == pytest.approx(0.75)
    assert directions(0.0, n_items=99) == 98
