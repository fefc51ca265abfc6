"""The contract of a mechanism, for all three kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from tests.refused import refused
from twofold.errors import BadNumber, BadParameter, BadShape, TwofoldError
from twofold.features import Features
from twofold.privacy.accountant import price
from twofold.privacy.audit.exact_checks import differing_parameters
from twofold.privacy.budget import NotPrivate
from twofold.privacy.events import Released, is_seeded
from twofold.privacy.rng import Source
from twofold.release import ReleaseParameters, mechanism
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.bilinear.records import exact_sums
from twofold.release.choose import BILINEAR
from twofold.release.contract import check_rows

TABLE = Features(matrix=np.arange(24).reshape(12, 2) % 5, names=("a", "b"))
COUNTS = ReleaseParameters(
    n_items=12, n_users=10**4, max_items=6, bound=4, n_prototypes=3, epsilon=1, delta=1e-6, features=TABLE
)
RATINGS = COUNTS.with_(feedback="ratings", lower=1, bound=5, centre=3)
PUBLICS = {
    "counts": COUNTS,
    "counts, pure": COUNTS.with_(delta=0),
    "counts, shares": COUNTS.with_(honest=4),
    "counts, pure shares": COUNTS.with_(delta=0, honest=4),
    "ratings": RATINGS,
    "ratings, pure": RATINGS.with_(delta=0),
}
each = pytest.mark.parametrize("public", PUBLICS.values(), ids=PUBLICS.keys())
each_name = pytest.mark.parametrize("name", BILINEAR)


def people(number: int, public: ReleaseParameters, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 5, (number, public.n_items)) * (rng.random((number, public.n_items)) < 0.4)
    return sp.csr_array(table.astype(float))


@each
@each_name
def test_the_event_is_the_price_and_seeds_are_marked(name: str, public: ReleaseParameters) -> None:
    chosen, rows = mechanism(name), people(30, public)
    real, seeded = chosen.release(rows, public), chosen.release(rows, public, rng=7)
    spec = chosen.spec(public)
    assert (chosen.name, spec.private, spec.rows, spec.sum.length) == (name, True, 1, real.value.numbers.size)
    assert real.event == chosen.spec(public).event
    assert seeded.event == chosen.spec(public).event_for(seeded=True)
    assert not real.value.seeded
    assert seeded.value.seeded
    assert is_seeded(seeded.event)
    assert isinstance(price(seeded.event), NotPrivate)
    assert seeded.value.digest() == chosen.release(rows, public, rng=7).value.digest()
    assert real.value.digest() != chosen.release(rows, public).value.digest()


@each
@each_name
def test_neighbours_have_the_same_parameters_and_shapes(name: str, public: ReleaseParameters) -> None:
    rows = people(40, public).toarray()
    extreme = np.concatenate([rows, np.full((1, 12), 1e6)])

    def numbers(data: Any, noise: Source) -> Released[Any]:
        released = mechanism(name).release(data, public, rng=noise)
        return Released(value=released.value.numbers, event=released.event)

    assert differing_parameters(numbers, rows, extreme) == ()
    one, two = (mechanism(name).release(data, public, rng=0).value for data in (rows, extreme))
    assert (one.deviation, one.law, one.note, one.entities) == (two.deviation, two.law, two.note, two.entities)


@each
@each_name
def test_what_is_added_to_the_exact_sums_is_noise_of_the_stated_size(name: str, public: ReleaseParameters) -> None:
    chosen, rows = Bilinear(kind=name), people(30, public)  # type: ignore[arg-type]
    exact = exact_sums(check_rows(rows, public), public, chosen.layout(public))
    draws = [chosen.release(rows, public, rng=seed).value for seed in range(60)]
    noise = np.concatenate([(draw.numbers - exact) / draw.deviation for draw in draws])
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    # a share of Laplace noise has far heavier tails, and with them a wider spread of its spread
    assert noise.std() == pytest.approx(1, rel=0.12 if public.law == "laplace" and public.honest else 0.06)


@each_name
def test_in_the_limit_of_no_noise_the_message_is_the_exact_sums(name: str) -> None:
    public = COUNTS.with_(epsilon=10**12)
    chosen, rows = Bilinear(kind=name), people(50, public)  # type: ignore[arg-type]
    exact = exact_sums(check_rows(rows, public), public, chosen.layout(public))
    noisy = chosen.release(rows, public).value
    assert noisy.deviation < 1000
    assert np.abs(noisy.numbers - exact).max() < 10 * noisy.deviation
    assert np.abs(exact).max() > 1000 * noisy.deviation


ODD: dict[str, Any] = {
    "empty entity": sp.csr_array((0, 12)),
    "all-zero rows": sp.csr_array((5, 12)),
    "dense integers": np.ones((4, 12), dtype=int),
    "never bounded": np.full((3, 12), 1e300),
}


@each
@each_name
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_odd_entities_give_a_whole_message(name: str, odd: Any, public: ReleaseParameters) -> None:
    chosen = mechanism(name)
    message = chosen.release(odd, public).value
    moments = chosen.combine([message, message], public)
    assert np.isfinite(moments.pairs).all()
    assert np.isfinite(moments.sums).all()


class Untouched:
    """A source that fails when it is asked for anything: what is refused must be refused before a draw."""

    seeded = False

    def words(self, count: int) -> Any:
        raise AssertionError(f"{count} words of noise were drawn")

    def bits(self, count: int) -> int:
        raise AssertionError(f"{count} bits of noise were drawn")


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        (np.ones((2, 11)), BadShape),
        (np.ones(12), BadShape),
        (np.array([["a"] * 12]), BadNumber),
        (np.ones((2, 12), dtype=complex), BadNumber),
    ],
)
@each_name
def test_bad_rows_are_refused_before_anything_is_drawn(name: str, rows: Any, error: type[TwofoldError]) -> None:
    with pytest.raises(error):
        mechanism(name).release(rows, COUNTS, rng=Untouched())  # type: ignore[arg-type]


def test_features_without_a_table_are_refused_before_anything_is_drawn() -> None:
    public = COUNTS.with_(features=None)
    for step in (
        lambda: mechanism("features").spec(public).event,
        lambda: mechanism("features").release(people(3, public), public, rng=Untouched()),  # type: ignore[arg-type]
    ):
        with refused(BadParameter, "features", "'features'", found="none"):
            step()


@each
@each_name
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_number_is_the_centre_and_changes_no_other_row(name: str, public: ReleaseParameters, bad: float) -> None:
    rows = people(10, public).toarray()
    place = tuple(np.argwhere(rows)[5])
    rows[place] = public.centre
    clean = sp.csr_array(rows) if public.feedback == "counts" else check_rows(rows, public)
    rows[place] = bad
    one, two = (mechanism(name).release(data, public, rng=3).value for data in (rows, clean))
    np.testing.assert_array_equal(one.numbers, two.numbers)


def test_options_are_checked() -> None:
    with pytest.raises(BadParameter):
        Bilinear(kind="cells")  # type: ignore[arg-type]
    with refused(BadParameter, "options", "'gram'", found="magic"):
        mechanism("gram", magic=1)
    assert mechanism("gram", base_share="1/4").spec(COUNTS).event != mechanism("gram").spec(COUNTS).event
