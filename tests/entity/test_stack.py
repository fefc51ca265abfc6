"""Stacks: weights are the optimum of a concave problem, scores come apart into reasons, artefacts are checked."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, sparse

from twofold.entity.artefact import rebuilt
from twofold.entity.models.confidence import confident_factors
from twofold.entity.models.ials import IalsFit
from twofold.entity.models.item_item import ItemItemScorer
from twofold.entity.models.ridge import weights_from_gram
from twofold.entity.models.sparse_items import SparseItemFit
from twofold.entity.models.stack import FLOOR, Hidden, StackScorer, taste, weigh
from twofold.errors import BadModel, BadShape, TwofoldError

USERS, ITEMS = 30, 12


def hidden(seed: int = 0) -> Hidden:
    rng = np.random.default_rng(seed)
    history = (rng.random((USERS, ITEMS)) < 0.3).astype(float)
    held = (rng.random((USERS, ITEMS)) < 0.2) * (1 - history)
    held[np.arange(USERS), np.argmin(history, axis=1)] = 1.0
    return Hidden(history=sparse.csr_array(history), held=sparse.csr_array(held))


def parts(seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=ITEMS), rng.normal(size=(USERS, ITEMS))]


def worth(weights: np.ndarray, given: list[np.ndarray], asked: Hidden, centre: list[float], spread: float) -> float:
    """The same, entry by entry."""
    history, held = asked.history.toarray(), asked.held.toarray()
    total = -0.5 * sum(((one - middle) / spread) ** 2 for one, middle in zip(weights, centre, strict=True))
    for user in range(USERS):
        z = sum(one * np.broadcast_to(part, (USERS, ITEMS))[user] for one, part in zip(weights, given, strict=True))
        whole = np.log(np.exp(z[history[user] == 0]).sum())
        total += sum(z[item] - whole for item in np.flatnonzero(held[user]))
    return float(total)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("spread", [0.3, 1.0, 10.0])
def test_weights_are_those_another_solver_finds(seed, spread):
    given, asked, centre = parts(seed), hidden(seed), [0.5, 1.0]
    found = weigh(given, asked, centre=centre, spread=spread)
    other = optimize.minimize(
        lambda w: -worth(w, given, asked, centre, spread), [0.3, 0.3], bounds=[(0, None)] * 2, method="L-BFGS-B"
    )
    assert found.worth == pytest.approx(worth(found.weights, given, asked, centre, spread))
    assert found.worth == pytest.approx(-other.fun, abs=1e-3)
    np.testing.assert_allclose(found.weights, other.x, atol=0.02)


def test_no_weights_nearby_or_far_away_are_better():
    given, asked, rng = parts(), hidden(), np.random.default_rng(5)
    found = weigh(given, asked, centre=[0.5, 1.0])
    tried = np.vstack([rng.gamma(1.0, 1.0, (40, 2)), np.abs(found.weights + 0.05 * rng.normal(size=(40, 2)))])
    assert max(worth(one, given, asked, [0.5, 1.0], 1.0) for one in tried) <= found.worth + 1e-4


def test_the_problem_is_concave():
    given, asked, rng = parts(), hidden(), np.random.default_rng(6)
    for _ in range(20):
        one, other = rng.gamma(1.0, 2.0, (2, 2))
        middle, *ends = (worth(w, given, asked, [0.5, 1.0], 1.0) for w in ((one + other) / 2, one, other))
        assert middle >= np.mean(ends) - 1e-9


def test_what_tells_the_opposite_gets_no_weight():
    asked = hidden()
    good = 2.0 * asked.held.toarray()
    found = weigh([-good, good], asked, centre=[0.5, 1.0], spread=5.0)
    assert found.weights[0] == 0
    assert found.weights[1] > 1
    assert (weigh([-good], asked, centre=[0.0]).weights == 0).all()


def test_nobody_to_ask_leaves_the_prior():
    nobody = Hidden(history=sparse.csr_array((0, ITEMS)), held=sparse.csr_array((0, ITEMS)))
    found = weigh([np.zeros(ITEMS)], nobody, centre=[0.7])
    assert (found.weights.tolist(), found.worth) == ([0.7], 0.0)


def test_enormous_parts_do_not_overflow():
    found = weigh([1e6 * parts()[0], 1e6 * parts()[1]], hidden(), centre=[0.5, 1.0])
    assert np.isfinite([*found.weights, found.worth]).all()


# The scorer


def rows() -> sparse.csr_array:
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.gamma(0.5, 1.0, (1, ITEMS)), (USERS, ITEMS)).astype(np.float32)
    counts[counts.sum(axis=1) == 0, :3] = 1
    counts[:, :3] += rng.random((USERS, 3)) < 0.5
    return sparse.csr_array(counts)


def item_item() -> ItemItemScorer:
    x = rows().toarray()
    return ItemItemScorer(weights_from_gram(x.T @ x, np.full(ITEMS, 2.0)), means=np.zeros(ITEMS), feedback="counts")


INNER = {
    "item-item": item_item,
    "ials": lambda: IalsFit(rows(), threads=1).scorer(rank=3),
    "confidence": lambda: confident_factors(rows(), rank=3, threads=1),
    "sparse-item-item": lambda: SparseItemFit(rows(), threads=1).scorer(ridge=1.0, neighbours=5),
    "use": lambda: None,
}
USE = np.log(np.arange(1.0, ITEMS + 1) / 78)


@pytest.fixture(params=INNER)
def stack(request: pytest.FixtureRequest) -> StackScorer:
    return StackScorer(USE, inner=INNER[request.param](), weights=(0.5, 1.25))


def test_the_score_is_the_sum_of_logarithms():
    inner = item_item()
    scores = StackScorer(USE, inner=inner, weights=(0.5, 1.25)).scores(rows())
    said = inner.scores(rows()).astype(float)
    some = said.std(axis=1) > 0
    expected = 0.5 * USE + 1.25 * np.log(np.maximum(said[some], 0) / said[some].std(axis=1, keepdims=True) + FLOOR)
    assert some.sum() > USERS / 2
    np.testing.assert_allclose(scores[some], expected, atol=1e-4)


def test_reasons_and_a_constant_add_up_to_the_score(stack):
    for row in rows()[:10]:
        given = sparse.csr_array(row.reshape(1, -1))
        columns, values = given.indices, given.data
        scores = stack.one(columns, values)
        np.testing.assert_array_equal(scores, stack.scores(given)[0])
        for item in range(ITEMS):
            told = stack.reasons(columns, values, item)
            assert told.shape == columns.shape
            # Sparse weights break ties by a trace of popularity, which is in no entry's part.
            near = 0.05 if stack.settings().get("inner") == "sparse-item-item" else 1e-4
            assert told.sum() + stack.constant(item) == pytest.approx(scores[item], abs=near)


def test_without_a_history_use_decides(stack):
    nothing = stack.one(np.zeros(0, int), np.zeros(0))
    assert np.argsort(-nothing).tolist() == list(range(ITEMS))[::-1]


def test_no_item_is_similar_to_itself(stack):
    alike = stack.similar(4)
    assert alike[4] == -np.inf
    assert (alike <= 1 + 1e-6).all()


def test_it_comes_back_from_its_parts(stack):
    same = rebuilt(stack.kind, stack.arrays(), stack.settings())
    assert (same.kind, same.settings()) == (stack.kind, stack.settings())
    np.testing.assert_array_equal(same.scores(rows()), stack.scores(rows()))


SETTINGS = {
    "no weights": lambda settings: settings.pop("weights"),
    "three weights": lambda settings: settings.update(weights=[1.0, 1.0, 1.0]),
    "a negative weight": lambda settings: settings.update(weights=[-1.0, 1.0]),
    "a weight of infinity": lambda settings: settings.update(weights=[1.0, float("inf")]),
    "an unknown model inside": lambda settings: settings.update(inner="trees"),
    "a number inside": lambda settings: settings.update(inner=5),
    "no settings inside": lambda settings: settings.pop("inner_settings"),
}
ARRAYS = {
    "no use": lambda arrays: arrays.pop("use"),
    "use of other items": lambda arrays: arrays.update(use=np.zeros(ITEMS + 1)),
    "use in two dimensions": lambda arrays: arrays.update(use=np.zeros((ITEMS, 1))),
    "nothing inside": lambda arrays: [arrays.pop(name) for name in list(arrays) if name != "use"],
}


@pytest.mark.parametrize("name", [*SETTINGS, *ARRAYS])
def test_broken_parts_are_refused(name):
    made = StackScorer(USE, inner=item_item(), weights=(0.5, 1.25))
    arrays, settings = made.arrays(), made.settings()
    if name in SETTINGS:
        SETTINGS[name](settings)
    else:
        ARRAYS[name](arrays)
    with pytest.raises(TwofoldError):
        rebuilt("stack", arrays, settings)


def test_parts_of_different_length_are_refused():
    with pytest.raises(BadShape):
        StackScorer(USE[:-1], inner=item_item(), weights=(1.0, 1.0))
    with pytest.raises(BadModel):
        StackScorer(USE, inner=item_item(), weights=(1.0, np.nan))


def test_taste_knows_neither_unit_nor_sign():
    scores = np.random.default_rng(0).normal(size=(4, ITEMS))
    np.testing.assert_allclose(taste(1e3 * scores), taste(scores))
    assert taste(scores).min() == pytest.approx(np.log(FLOOR))
    assert np.isfinite(taste(np.zeros((2, ITEMS)))).all()
