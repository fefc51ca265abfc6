"""Experiment 2, sweeps over k and ℓ: what holds of the supplement."""

from __future__ import annotations

from typing import Final

from twofold.experiments.reproduce.fig1 import SMALL, TINY
from twofold.experiments.reproduce.judge import Judge
from twofold.experiments.reproduce.results import Results
from twofold.experiments.reproduce.told import line
from twofold.experiments.reproduce.verdicts import Judgement, all_of, said

__all__ = ["JUDGES"]

TABLE: Final = "rmse_table"
RANKS: Final = ("small ℓ", "large ℓ")


def _random_beats(results: Results) -> Judgement:
    last = results.x[-1]
    orders = [results.order(f"k-random, {part}", f"k-means, {part}", last, TABLE, within=TINY) for part in RANKS]
    names = tuple(f"{who}, {part}" for part in RANKS for who in ("k-random", "k-means"))
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))), ours=line(results, names, TABLE), why="At the largest k."
    )


def _good_over_k(results: Results) -> Judgement:
    orders = [
        order for part in RANKS for order in results.orders(f"private, ε = 5, {part}", f"MF, {part}", TABLE, within=0.1)
    ]
    return Judgement(
        holds=said(all_of(list(orders), ("alike", "lower"))),
        ours=line(
            results,
            ("MF, large ℓ", "private, ε = 0.005, large ℓ", "private, ε = 5, large ℓ", "uniform noise, large ℓ"),
            TABLE,
        ),
        why="Asked as: within a tenth of the full factorization at every k. Uniform noise shows what that is worth.",
    )


def _converge(results: Results) -> Judgement:
    last = results.x[-1]
    orders = [
        results.order(f"private, ε = 0.005, {part}", f"private, ε = 5, {part}", last, TABLE, within=SMALL)
        for part in RANKS
    ]
    names = tuple(f"private, ε = {e}, {part}" for part in RANKS for e in ("0.005", "5"))
    return Judgement(
        holds=said(all(order == "alike" for order in orders)),
        ours=line(results, names, TABLE),
        why="Within 1% at the largest k. Equal errors mean that neither prototype says anything about the data.",
    )


def _similar(results: Results) -> Judgement:
    last = results.x[-1]
    order = {
        part: [results.order(f"{a}, {part}", f"{b}, {part}", last, TABLE, within=TINY) for a, b in _PAIRS]
        for part in RANKS
    }
    names = tuple(f"{who}, {part}" for part in RANKS for who in ("MF", "k-random", "private, ε = 5"))
    return Judgement(
        holds=said(order[RANKS[0]] == order[RANKS[1]]),
        ours=line(results, names, TABLE),
        why="Asked as: the same order of MF, k-random, k-means and private at a small and a large number of factors.",
    )


_PAIRS: Final = (("MF", "k-random"), ("k-random", "k-means"), ("private, ε = 5", "k-means"))


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
        holds=said(spans["small k"] > spans["large k"]),
        ours=f"ℓ = {x:g}, largest less smallest error: small k {spans['small k']:.3f}, large k {spans['large k']:.3f}",
        why="Full factorization, k-means, k-random and private at ε = 0.5.",
    )


def _approaches(results: Results) -> Judgement:
    x = results.x[-1]
    mf = results.at("MF", x, TABLE).mean
    gap = {name: results.at(name, x, TABLE).mean / mf - 1 for name in _LARGE}
    told = all(value <= 0.03 for value in gap.values())
    return Judgement(
        holds=said(told),
        ours=f"ℓ = {x:g}, above MF: "
        + "; ".join(f"{name} {100 * value:.1f}%" for name, value in gap.items())
        + f"; uniform noise {100 * (results.at('uniform noise, large k', x, TABLE).mean / mf - 1):.1f}%",
        why="Asked as: within 3% of the full factorization.",
    )


_LARGE: Final = ("k-random, large k", "private, ε = 0.5, large k")


def _large_rank(results: Results) -> Judgement:
    x = results.x[-1]
    order = results.order("private, ε = 0.5, large k", "k-means, large k", x, TABLE)
    return Judgement(
        holds=said(None if order in ("alike", "unknown") else order == "lower"),
        ours=line(results, ("private, ε = 0.5, large k", "k-means, large k", "uniform noise, large k"), TABLE),
        why="Against k-means at the largest ℓ. Noise that has never seen the data is the last line.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "random-beats-kmeans-all-ranks": _random_beats,
    "private-good-over-k": _good_over_k,
    "epsilons-converge": _converge,
    "behaviour-similar": _similar,
    "clearer-for-small-k": _clearer,
    "large-k-approaches-mf": _approaches,
    "private-better-large-rank": _large_rank,
}
