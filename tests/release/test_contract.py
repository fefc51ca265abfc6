"""What every mechanism promises, whatever its name."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.refused import refused
from twofold.errors import BadNumber, BadParameter, BadPrivacyParameter, BadShape, TwofoldError
from twofold.privacy.accountant import price, spent
from twofold.privacy.audit.exact_checks import differing_parameters
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP
from twofold.privacy.events import Event, NonPrivateEvent, Released, flatten, is_seeded
from twofold.privacy.rng import Source
from twofold.release import NOT_PRIVATE, PRIVATE, Prototypes, ReleaseParameters, mechanism
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.cells import CellNoise
from twofold.release.choose import resolve
from twofold.release.contract import Mechanism, check_rows
from twofold.release.records import RecordPlan

ALL = (*PRIVATE, "auto", *NOT_PRIVATE)
SOUND = (*PRIVATE, "auto")


def named(name: str, public: ReleaseParameters) -> Mechanism:
    return resolve(name, public).mechanism


PLAN = ReleaseParameters(n_items=12, n_users=50_000, max_items=6, bound=5, n_prototypes=3, epsilon=2)
RATED = PLAN.with_(feedback="ratings", lower=1, centre=3)
POOR = PLAN.with_(n_users=20, epsilon="0.1")
PUBLICS = {
    "counts": PLAN,
    "counts with delta": PLAN.with_(delta=1e-6),
    "ratings": RATED,
    "ratings with delta": RATED.with_(delta=1e-6),
    "hopeless": POOR,
}
each_public = pytest.mark.parametrize("public", PUBLICS.values(), ids=PUBLICS.keys())


def people(n_users: int, public: ReleaseParameters, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = np.zeros((n_users, public.n_items))
    for row in dense:
        row[rng.choice(public.n_items, public.row_items, replace=False)] = rng.integers(1, 6, public.row_items)
    return sp.csr_array(dense)


def unseeded(event: Event) -> list[Event]:
    return [dataclasses.replace(one, seeded=False) for one in flatten(event)]


@each_public
@pytest.mark.parametrize("name", SOUND)
def test_price_is_the_sum_of_the_events_and_exactly_the_budget(name: str, public: ReleaseParameters) -> None:
    chosen = named(name, public)
    planned = chosen.spec(public).event
    released = chosen.release(people(30, public), public)
    assert released.event == planned
    assert not released.not_private
    cost = price(planned)
    if isinstance(cost, PureDP):
        assert cost.epsilon == public.epsilon
    else:
        assert cost == public.budget
        assert cost.rho > ZCDP.within(ApproxDP(epsilon=public.epsilon, delta=public.delta)).rho
    assert spent(planned, delta=public.delta).epsilon <= public.epsilon


@pytest.mark.parametrize("name", NOT_PRIVATE)
def test_what_is_not_private_says_so(name: str) -> None:
    chosen = mechanism(name)
    released = chosen.release(people(30, PLAN), PLAN)
    assert not chosen.spec(PLAN).private
    assert isinstance(released.event, NonPrivateEvent)
    assert isinstance(price(chosen.spec(PLAN).event), NotPrivate)
    assert released.not_private
    assert "not private" in released.value.note


@pytest.mark.parametrize("name", SOUND)
def test_seeded_noise_is_marked_and_repeats(name: str) -> None:
    one, two = (named(name, PLAN).release(people(30, PLAN), PLAN, rng=7) for _ in range(2))
    assert one.not_private
    assert unseeded(one.event) == list(flatten(named(name, PLAN).spec(PLAN).event))
    assert one.value.digest() == two.value.digest()


@each_public
@pytest.mark.parametrize("name", SOUND)
def test_neighbours_have_the_same_parameters_and_shapes(name: str, public: ReleaseParameters) -> None:
    rows = people(40, public).toarray()
    extreme = np.zeros((1, public.n_items))
    extreme[0, :3] = 1e6

    def sums(data: Any, noise: Source) -> Released[Any]:
        released = named(name, public).release(data, public, rng=noise)
        return Released(value=released.value.sums, event=released.event)

    assert differing_parameters(sums, rows, np.concatenate([rows, extreme])) == ()
    both = (rows, np.concatenate([rows, extreme]))
    messages = [named(name, public).release(data, public, rng=0).value for data in both]
    assert messages[0].noise == messages[1].noise
    assert messages[0].units == messages[1].units
    assert messages[0].note == messages[1].note
    assert messages[0].n_prototypes == named(name, public).spec(public).rows


@pytest.mark.parametrize("name", [*SOUND, "kmeans"])
@pytest.mark.parametrize("public", [PLAN, PLAN.with_(delta=1e-6), RATED], ids=["counts", "delta", "ratings"])
def test_in_the_limit_of_no_noise_the_sums_are_those_of_the_rows(name: str, public: ReleaseParameters) -> None:
    rows = people(60, public)
    loose = public.with_(epsilon=10**9)
    message = named(name, loose).release(rows, loose).value
    stored = rows.copy()
    stored.data = stored.data - public.centre
    np.testing.assert_allclose(message.value_sums().sum(axis=0), stored.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(message.user_counts().sum(), 60, rtol=1e-9)
    if public.feedback == "ratings":
        np.testing.assert_allclose(message.observation_counts().sum(axis=0), (rows != 0).sum(axis=0), rtol=1e-9)


ODD: dict[str, Callable[[ReleaseParameters], Any]] = {
    "empty entity": lambda public: sp.csr_array((0, public.n_items)),
    "all-zero rows": lambda public: sp.csr_array((5, public.n_items)),
    "one user, fewer than prototypes": lambda public: people(1, public),
    "dense integers": lambda public: people(4, public).toarray().astype(int),
    "never bounded": lambda public: np.full((3, public.n_items), 1e300),
}


@each_public
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("name", ALL)
def test_odd_entities_give_a_whole_message_of_the_public_size(name: str, odd: Any, public: ReleaseParameters) -> None:
    chosen = named(name, public)
    message = chosen.release(odd(public), public).value
    size = chosen.spec(public).rows
    assert size in (None, message.n_prototypes)
    assert (message.observed is None) == (public.feedback == "counts")
    rows = chosen.combine([message, message], public)
    assert np.isfinite(rows.values).all()
    assert np.isfinite(rows.row_weights).all()
    assert (rows.row_weights >= 0).all()


BAD = [
    (np.ones((2, 11)), BadShape),
    (np.ones(12), BadShape),
    (np.array([["a"] * 12]), BadNumber),
    (np.ones((2, 12), dtype=complex), BadNumber),
]


class Untouched:
    """A source that fails when it is asked for anything: what is refused must be refused before a draw."""

    seeded = False

    def words(self, count: int) -> Any:
        raise AssertionError(f"{count} words of noise were drawn")

    def bits(self, count: int) -> int:
        raise AssertionError(f"{count} bits of noise were drawn")


@pytest.mark.parametrize(("rows", "error"), BAD)
@pytest.mark.parametrize("name", ALL)
def test_bad_rows_are_refused_before_anything_is_drawn(name: str, rows: Any, error: type[TwofoldError]) -> None:
    with pytest.raises(error):
        named(name, PLAN).release(rows, PLAN, rng=Untouched())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("public", [PLAN, RATED], ids=["counts", "ratings"])
@pytest.mark.parametrize("name", ALL)
def test_a_bad_number_in_one_row_is_nothing_and_changes_no_other_row(
    name: str, public: ReleaseParameters, bad: float
) -> None:
    rows = people(30, public).toarray()
    place = tuple(np.argwhere(rows)[5])
    rows[place] = public.centre  # for counts an absent entry, for ratings one whose centred value is 0
    clean = check_rows(rows, public)
    rows[place] = bad
    found = check_rows(rows, public)
    np.testing.assert_array_equal(found.toarray(), clean.toarray())
    one, two = (named(name, public).release(data, public, rng=3) for data in (rows, clean))
    assert one.value.digest() == two.value.digest()
    assert one.event == two.event


@each_public
@pytest.mark.parametrize("name", ALL)
def test_a_seed_marks_the_message_the_event_and_what_is_combined(name: str, public: ReleaseParameters) -> None:
    chosen, rows = named(name, public), people(30, public)
    seeded, real = chosen.release(rows, public, rng=7), chosen.release(rows, public)
    assert seeded.value.seeded
    assert is_seeded(seeded.event)
    assert seeded.event == chosen.spec(public).event_for(seeded=True)
    assert isinstance(price(seeded.event), NotPrivate)
    assert not real.value.seeded
    assert not is_seeded(real.event)
    assert real.event == chosen.spec(public).event
    assert dataclasses.replace(seeded.value, seeded=False).digest() != seeded.value.digest()
    assert not chosen.combine([real.value], public).seeded
    for mixed in ([real.value, seeded.value], [seeded.value, real.value]):
        assert chosen.combine(mixed, public).seeded


@pytest.mark.parametrize("name", ALL)
def test_combining_does_not_depend_on_the_order(name: str) -> None:
    chosen = named(name, PLAN)
    messages = [chosen.release(people(20 + seed, PLAN, seed), PLAN, rng=seed).value for seed in range(4)]
    one, two = chosen.combine(messages, PLAN), chosen.combine(iter(messages[::-1]), PLAN)
    assert one.values.tobytes() == two.values.tobytes()
    assert one.row_weights.tobytes() == two.row_weights.tobytes()
    assert one.noise.tobytes() == two.noise.tobytes()


@pytest.mark.parametrize("name", ALL)
def test_combining_weighs_by_noise_and_refuses_what_does_not_fit(name: str) -> None:
    chosen = named(name, PLAN)
    message = chosen.release(people(5000, PLAN), PLAN).value
    louder = dataclasses.replace(message, noise=dataclasses.replace(message.noise, values=message.noise.values + 1e3))
    calm, loud = chosen.combine([message], PLAN), chosen.combine([louder], PLAN)
    seen = calm.row_weights > 0
    assert (loud.row_weights[seen] < calm.row_weights[seen]).all()
    assert (loud.noise > calm.noise).all()
    with pytest.raises(BadParameter):
        chosen.combine([], PLAN)
    with pytest.raises(BadShape):
        chosen.combine([message], PLAN.with_(n_items=13))
    with refused(BadParameter, "feedback", expected="ratings"):
        chosen.combine([message], RATED)


def test_ratings_come_back_as_means_with_weights_in_observations() -> None:
    rows = np.array([[5.0, 0, 0], [5, 1, 0], [5, 3, 0]])
    public = ReleaseParameters(
        n_items=3, n_users=10**6, max_items=3, bound=5, lower=1, centre=3, feedback="ratings", epsilon=10**9
    )
    chosen = mechanism("popularity")
    combined = chosen.combine([chosen.release(rows, public).value], public)
    np.testing.assert_allclose(combined.values, [[5, 2, 3]])
    assert combined.entry_weights is not None
    np.testing.assert_allclose(combined.entry_weights, [[3, 2, 0]], atol=1e-9)


def test_entities_that_are_added_up_gain_on_the_noise() -> None:
    chosen = mechanism("popularity")
    message = chosen.release(people(5000, PLAN), PLAN).value
    one, many = chosen.combine([message], PLAN), chosen.combine([message] * 16, PLAN)
    np.testing.assert_allclose(many.noise, one.noise / 4, rtol=1e-9)


def test_noise_alone_has_the_standard_deviation_it_states() -> None:
    for public in (PLAN.with_(n_items=4000), PLAN.with_(n_items=4000, delta=1e-6)):
        message = mechanism("popularity").release(sp.csr_array((0, 4000)), public).value
        assert math.isclose(message.value_sums().std(), message.noise.values, rel_tol=0.1)


def test_noise_control_prototypes_of_nobody_carry_no_direction() -> None:
    """The rows that come out of an empty federation must not resemble the people of another one."""
    chosen = mechanism("buckets", cells_per_prototype=1)
    nobody = chosen.combine([chosen.release(sp.csr_array((0, 12)), PLAN, rng=s).value for s in range(40)], PLAN)
    somebody = people(2000, PLAN).mean(axis=0)
    alike = nobody.values @ somebody / np.linalg.norm(nobody.values, axis=1) / np.linalg.norm(somebody)
    assert np.abs(alike).max() < 0.95
    assert nobody.row_weights.sum() < 1000


def test_unknown_names_and_options_are_refused_in_words() -> None:
    with refused(BadParameter, "mechanism", found="'wishart'", expected="sulq"):
        mechanism("wishart")
    with refused(BadParameter, "options", "'sulq'", found="magic"):
        mechanism("sulq", magic=1)
    with pytest.raises(BadParameter):
        mechanism("sulq", steps=0)
    with pytest.raises(BadParameter):
        mechanism("buckets", cells_per_prototype=0)


@pytest.mark.parametrize(
    "change",
    [
        {"n_items": 0},
        {"n_users": 2.5},
        {"max_items": True},
        {"feedback": "clicks"},
        {"centre": 1.0},
        {"lower": 9.0},
        {"seed": -1},
        {"unit": "person"},
    ],
)
def test_bad_public_numbers_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(TwofoldError):
        PLAN.with_(**change)


@pytest.mark.parametrize(
    "change", [{"epsilon": 0}, {"epsilon": math.nan}, {"delta": 1}, {"l2_cap": -1}, {"bound": math.inf}]
)
def test_bad_privacy_numbers_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadPrivacyParameter):
        PLAN.with_(**change)


def test_a_message_refuses_parts_that_do_not_fit() -> None:
    message = mechanism("popularity").release(people(3, PLAN), PLAN).value
    with pytest.raises(BadShape):
        dataclasses.replace(message, counts=np.zeros(2, dtype=np.int64))
    with pytest.raises(BadNumber):
        dataclasses.replace(message, sums=message.sums.astype(float))
    with pytest.raises(BadParameter):
        message.observation_counts()
    with refused(BadParameter, "seeded", found="NoneType"):
        dataclasses.replace(message, seeded=None)
    assert isinstance(message, Prototypes)


@given(
    st.floats(1e-3, 1e6),
    st.none() | st.floats(1e-3, 1e6),
    st.integers(1, 60),
    st.sampled_from(("counts", "ratings")),
    st.sampled_from((0.01, 1, 30, 1000)),
)
@settings(max_examples=60, deadline=None)
def test_no_noise_has_a_smaller_sensitivity_than_the_budget_counts_on(
    bound: float, cap: float | None, items: int, feedback: Any, epsilon: float
) -> None:
    """Coarse records too: a cap far below the largest entry leaves few grid steps, and the budget must know."""
    public = ReleaseParameters(
        n_items=60, n_users=9, max_items=items, bound=bound, l2_cap=cap, feedback=feedback, epsilon=epsilon, delta=1e-6
    )
    for observed in (None, False):
        assert RecordPlan.of(public, observed=observed).sensitivity >= public.least_sensitivity
    for kind in ("gram", "sketch"):
        layout = BilinearLayout.of(public.with_(l2_cap=None), kind)  # type: ignore[arg-type]
        assert layout.sensitivity >= public.least_sensitivity
    event = CellNoise(public=public, budget=public.budget, cells=3).event()
    assert spent(event, delta=public.delta).epsilon <= public.epsilon
