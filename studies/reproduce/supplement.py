"""Experiment 2, sweeps over k and ℓ: what holds of the supplement."""

from __future__ import annotations

from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Order, Results
from studies.reproduce.rules import COMPARABLE, SAME, gaps, limit, near
from studies.reproduce.told import PLACES, line
from studies.reproduce.verdicts import Judgement, all_of, said

__all__ = ["JUDGES"]

TABLE: Final = "rmse_table"
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
    "random-beats-kmeans-all-ranks": _random_beats,
    "private-good-over-k": _good_over_k,
    "epsilons-converge": _converge,
    "behaviour-similar": _similar,
    "stays-competitive": _competitive,
    "clearer-for-small-k": _clearer,
    "large-k-approaches-mf": _approaches,
    "private-better-large-rank": _large_rank,
}
