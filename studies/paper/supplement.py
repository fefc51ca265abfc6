"""The claims of the supplement's Experiments 1 and 2 and of its number of entities."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from studies.as_published import printed_constants
from studies.paper.results import Order, Point, Results, compare
from studies.paper.verdicts import COMPARABLE, PLACES, SAME, Judge, Judgement, all_of, gaps, limit, line, near, said

__all__ = ["JUDGES"]

RATIO: Final = "objective_ratio"
_AT_MOST: Final = 1.0  # as far as the recorded runs went
_HALF: Final = 50


def _ratios(results: Results, name: str) -> str:
    points = zip(results.x, results.over(name, RATIO), strict=True)
    return f"{name}: " + ", ".join(f"{point.mean:.3f} at ε = {x:g}" for x, point in points)


def _falls(results: Results) -> Judgement:
    lines = {k: results.over(f"sound, k = {k}", RATIO) for k in (10, 100)}
    ends = [compare(points[-1], points[0]) for points in lines.values()]
    rising = [f"k = {k} after ε = {x:g}" for k, points in lines.items() for x in _rises(results.x, points)]
    apart = [
        points[-1].mean / results.at(f"k-means, k = {k}", results.x[-1], RATIO).mean - 1 for k, points in lines.items()
    ]
    told = set(ends) == {"lower"} and not rising and bool(near(apart, COMPARABLE, below=True))
    return Judgement(
        holds=said(None if "unknown" in ends else told),
        ours="; ".join(_ratios(results, f"sound, k = {k}") for k in (10, 100))
        + f"; k-means: {results.at('k-means, k = 10', results.x[0], RATIO)} and "
        f"{results.at('k-means, k = 100', results.x[0], RATIO)}; in numbers, one exact mean "
        f"{results.at('one exact mean', results.x[0], 'objective').mean:.4g}",
        rule="lower at the largest ε than at the smallest for k = 10 and 100, no step up between, and near k-means in "
        f"the end, {limit(apart, COMPARABLE, below=True)}",
        why=(f"It rises for {', '.join(rising)}. " if rising else "It never rises. ")
        + "The numbers are multiples of the objective of one exact mean.",
    )


def _rises(x: Sequence[float], points: Sequence[Point]) -> list[float]:
    """The values of ε after which a line goes up."""
    return [at for at, (a, b) in zip(x, pairwise(points), strict=False) if compare(b, a) == "higher"]


def _caption(results: Results) -> Judgement:
    first, last = (results.at("sound, k = 10", x, RATIO) for x in (results.x[0], results.x[-1]))
    return Judgement(
        holds=said(all_of([compare(first, last)], ("lower",))),
        ours=f"sound, k = 10: {first} at ε = {results.x[0]:g}, {last} at ε = {results.x[-1]:g}",
        rule="lower at the smallest ε than at the largest, for k = 10",
        why="The text beside the caption says the opposite; only one of the two can be right.",
    )


def _is_private(results: Results) -> Judgement:
    told = 0.1
    spent = printed_constants(100_000, 100, told).really_spent
    return Judgement(
        holds=said(spent <= told),
        ours=f"the printed steps add up to ε = {spent:.2f} for a stated {told:g}, on the most charitable reading",
        rule="the steps of the printed algorithm cost no more than the stated ε; arithmetic, nothing was run",
        why="Its scales and divisors also hold sizes of clusters, which are private, so that strictly it has no ε. Our "
        f"sound form costs the stated ε; its lines here are {_ratios(results, 'sound, k = 10')}.",
    )


def _larger_k(results: Results) -> Judgement:
    pairs = [(results.at("sound, k = 100", x, RATIO), results.at("sound, k = 10", x, RATIO)) for x in results.x]
    at = [x for x, (many, few) in zip(results.x, pairs, strict=True) if compare(many, few) != "lower"]
    return Judgement(
        holds=said(bool(at)),
        ours="; ".join(
            f"ε = {x:g}: {few.mean:.3f} and {many.mean:.3f}" for x, (many, few) in zip(results.x, pairs, strict=True)
        )
        + " for k = 10 and 100",
        rule="k = 100 not lower than k = 10 for at least one ε",
        why=f"k = 100 is no better at ε = {', '.join(f'{x:g}' for x in at) or 'none'}. A larger k means fewer people "
        "to a centre and more noise on each.",
    )


def _repeats(results: Results) -> Judgement:
    near_zero = [x for x in results.x if x <= _AT_MOST]
    names = ("as published, k = 100", "sound, k = 100")
    used = {name: [results.at(name, x, "centres_used").mean for x in near_zero] for name in names}
    lowest = min(results.at(name, x, RATIO).mean for name in names for x in near_zero)
    exact = results.at("k-means, k = 100", results.x[0], RATIO).mean
    told = all(count < _HALF for counts in used.values() for count in counts) and lowest >= 1 - SAME
    return Judgement(
        holds=said(told),
        ours="; ".join(
            f"{name}: {', '.join(f'{c:.0f}' for c in counts)} of 100 centres have anybody"
            for name, counts in used.items()
        )
        + f" at ε = {', '.join(f'{x:g}' for x in near_zero)}; lowest objective {lowest:.3f} times that of one mean",
        rule="for ε up to 1, as recorded, fewer than half of 100 centres have anybody, and the objective is no more "
        f"than 2% below that of a single mean, where exact k-means is {100 * (1 - exact):.0f}% below; both limits are "
        "our choice",
        why="An observation, not a virtue: a centre that nobody is near describes nobody.",
    )


GROWING: Final = "MF + k-means"
SAME_USERS: Final = "MF + k-means, same users"
NOISE: Final = "MF + uniform noise"
TABLE: Final = "rmse_table"
FRESH: Final = "rmse_fresh"
LINES: Final = ("MF", GROWING, SAME_USERS, NOISE)


def _better(results: Results) -> Judgement:
    orders = {metric: _change(results, GROWING, metric) for metric in (TABLE, FRESH)}
    return Judgement(
        holds=said(_agreed([*orders.values()])),
        ours=f"fitted table: {line(results, LINES, TABLE)}. Fresh draw: {line(results, LINES, FRESH)}",
        rule="exact prototypes of the most entities lower than those of one entity, on the fitted table and on a fresh "
        "draw: the paper speaks of a test set and describes none, so both are asked, and where they differ it cannot "
        "be told",
        why=f"With more entities the error is {orders[TABLE]} on the fitted table and {orders[FRESH]} on a fresh draw.",
    )


def _change(results: Results, name: str, metric: str) -> Order:
    first, last = (results.at(name, x, metric) for x in (results.x[0], results.x[-1]))
    return compare(last, first)


def _agreed(orders: list[Order]) -> bool | None:
    """Whether all say lower; None unless they agree."""
    if set(orders) == {"lower"}:
        return True
    return None if "lower" in orders or "unknown" in orders else False


def _observations(results: Results) -> Judgement:
    change = {name: _difference(results, name) for name in (GROWING, SAME_USERS, NOISE)}
    told = change[GROWING] < 0 and change[GROWING] < 2 * min(change[SAME_USERS], change[NOISE], 0.0)
    return Judgement(
        holds=said(told),
        ours="fresh draw, change from the fewest to the most entities: "
        + "; ".join(f"{name} {number:+.4f}" for name, number in change.items()),
        rule="on a fresh draw, which tells whether V got better, new users lower the error, and by more than twice "
        "what cutting the same users into more entities does, and than noise; the factor two is our choice",
        why="More entities also send more prototypes; the line of the same users shows the effect of that alone.",
    )


def _difference(results: Results, name: str) -> float:
    return results.at(name, results.x[-1], FRESH).mean - results.at(name, results.x[0], FRESH).mean


RANKS: Final = ("small ℓ", "large ℓ")


def _random_beats(results: Results) -> Judgement:
    last = results.x[-1]
    orders = [results.order(f"k-random, {part}", f"k-means, {part}", last, TABLE) for part in RANKS]
    names = tuple(f"{who}, {part}" for part in RANKS for who in ("k-random", "k-means"))
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=line(results, names, TABLE),
        rule="k-random lower than k-means at the largest k, for a small and a large ℓ",
        why=f"It is {orders[0]} at the small and {orders[1]} at the large ℓ.",
    )


def _good_over_k(results: Results) -> Judgement:
    apart = [gap for part in RANKS for gap in gaps(results, f"private, ε = 5, {part}", f"MF, {part}", TABLE)]
    noise = gaps(results, "uniform noise, large ℓ", "MF, large ℓ", TABLE)
    return Judgement(
        holds=said(near(apart, COMPARABLE, below=True)),
        ours=line(
            results,
            ("MF, large ℓ", "private, ε = 0.005, large ℓ", "private, ε = 5, large ℓ", "uniform noise, large ℓ"),
            TABLE,
        ),
        rule=f"ε = 5, the largest, no worse than MF at every k; {limit(apart, COMPARABLE, below=True)}",
        why=f"Uniform noise for prototypes is at most {100 * max(noise):.1f}% above MF.",
    )


def _converge(results: Results) -> Judgement:
    last = (results.x[-1],)
    apart = [
        gap
        for part in RANKS
        for gap in gaps(results, f"private, ε = 0.005, {part}", f"private, ε = 5, {part}", TABLE, at=last)
    ]
    names = tuple(f"private, ε = {e}, {part}" for part in RANKS for e in ("0.005", "5"))
    return Judgement(
        holds=said(near(apart, SAME)),
        ours=line(results, names, TABLE),
        rule=f"ε = 0.005 and ε = 5 near each other at the largest k; {limit(apart, SAME)}",
        why=f"Next to ε = 5 the smallest ε is off by {100 * min(apart):+.1f}% to {100 * max(apart):+.1f}%.",
    )


def _similar(results: Results) -> Judgement:
    last = results.x[-1]
    order = {part: [results.order(f"{a}, {part}", f"{b}, {part}", last, TABLE) for a, b in _PAIRS] for part in RANKS}
    return Judgement(
        holds=said(None if any("unknown" in words for words in order.values()) else _alike(order)),
        ours="; ".join(
            f"{part}: " + ", ".join(f"{a} {PLACES[word]} {b}" for (a, b), word in zip(_PAIRS, words, strict=True))
            for part, words in order.items()
        ),
        rule="at the largest k, the same order of MF, k-random, k-means and private at a small and a large ℓ; what "
        "looks alike is our choice",
        why="Only the order is asked here, not whether private exemplars are any good.",
    )


def _alike(order: dict[str, list[Order]]) -> bool:
    return order[RANKS[0]] == order[RANKS[1]]


_PAIRS: Final = (("MF", "k-random"), ("k-random", "k-means"), ("private, ε = 5", "k-means"))


def _competitive(results: Results) -> Judgement:
    last = (results.x[-1],)
    apart = {
        name: gaps(results, f"{name}, large ℓ", "MF, large ℓ", TABLE, at=last)[0]
        for name in ("k-random", "private, ε = 5")
    }
    return Judgement(
        holds=said(near([*apart.values()], COMPARABLE, below=True)),
        ours="above MF at the largest k and ℓ: " + "; ".join(f"{who} {100 * gap:+.1f}%" for who, gap in apart.items()),
        rule=f"both no worse than MF at the largest k and ℓ; {limit([*apart.values()], COMPARABLE, below=True)}",
        why="ε = 5 is the largest ε shown; smaller ones have their lines in the table.",
    )


def _clearer(results: Results) -> Judgement:
    x = results.x[-1]
    spans = {}
    for k in ("small k", "large k"):
        errors = [
            results.at(name, x, TABLE).mean
            for name in ("MF", f"k-means, {k}", f"k-random, {k}", f"private, ε = 0.5, {k}")
        ]
        spans[k] = max(errors) - min(errors)
    return Judgement(
        holds=said(spans["small k"] > (1 + SAME) * spans["large k"]),
        ours=f"ℓ = {x:g}, largest less smallest error: small k {spans['small k']:.3f}, large k {spans['large k']:.3f}",
        rule="the range of errors of MF, k-means, k-random and private at ε = 0.5 is larger by more than 2% at the "
        "small k, at the largest ℓ",
        why="The range is mostly that between MF and private exemplars, and those hardly depend on k."
        if spans["small k"] <= (1 + SAME) * spans["large k"]
        else "The methods lie further apart at the small k.",
    )


def _approaches(results: Results) -> Judgement:
    x = results.x[-1]
    mf = results.at("MF", x, TABLE).mean
    apart = {name: results.at(name, x, TABLE).mean / mf - 1 for name in _LARGE}
    return Judgement(
        holds=said(near([*apart.values()], SAME, below=True)),
        ours=f"ℓ = {x:g}, above MF: "
        + "; ".join(f"{name} {100 * value:.1f}%" for name, value in apart.items())
        + f"; uniform noise {100 * (results.at('uniform noise, large k', x, TABLE).mean / mf - 1):.1f}%",
        rule=f"k-random and private at ε = 0.5 near MF at the large k and the largest ℓ; "
        f"{limit([*apart.values()], SAME, below=True)}",
        why="Uniform noise, which has never seen the data, is the last number.",
    )


_LARGE: Final = ("k-random, large k", "private, ε = 0.5, large k")


def _large_rank(results: Results) -> Judgement:
    x = results.x[-1]
    order = results.order("private, ε = 0.5, large k", "k-means, large k", x, TABLE)
    return Judgement(
        holds=said(all_of([order], ("lower",))),
        ours=line(results, ("private, ε = 0.5, large k", "k-means, large k", "uniform noise, large k"), TABLE),
        rule="private at ε = 0.5 lower than k-means at the largest ℓ and the large k",
        why=f"It is {order}. Noise that has never seen the data is the last line.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "objective-falls-with-epsilon": _falls,
    "objective-falls-as-epsilon-decreases": _caption,
    "algorithm-is-private": _is_private,
    "larger-k-not-better": _larger_k,
    "centres-repeat": _repeats,
    "more-entities-better": _better,
    "because-more-observations": _observations,
    "random-beats-kmeans-all-ranks": _random_beats,
    "private-good-over-k": _good_over_k,
    "epsilons-converge": _converge,
    "behaviour-similar": _similar,
    "stays-competitive": _competitive,
    "clearer-for-small-k": _clearer,
    "large-k-approaches-mf": _approaches,
    "private-better-large-rank": _large_rank,
}
