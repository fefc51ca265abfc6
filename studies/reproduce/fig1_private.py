"""Fig. 1c and 1d, synthetic counts with privacy: what holds of section 5.3."""

from __future__ import annotations

from typing import Final

from studies.reproduce.judge import Judge
from studies.reproduce.results import Results, compare
from studies.reproduce.rules import COMPARABLE, SAME, gaps, limit, near
from studies.reproduce.settings import read_settings
from studies.reproduce.synthetic_lines import (
    FRESH,
    KMEANS,
    MEANS,
    NOISE,
    PRIVATE,
    PUBLISHED,
    RANDOM,
    TABLE,
    fresh_words,
)
from studies.reproduce.told import line
from studies.reproduce.verdicts import Judgement, all_of, said

__all__ = ["PRIVATE_JUDGES"]

HUNDREDTH: Final = "MF + private, ε = 0.01"
#: Counts are cut to this before random exemplars could be released.
_BOUND: Final = 5


def _larger_epsilon(results: Results) -> Judgement:
    steps = [order for a, b in zip(PRIVATE[1:], PRIVATE, strict=False) for order in results.orders(a, b, TABLE)]
    ends = compare(results.mean(PRIVATE[-1], TABLE), results.mean(PRIVATE[0], TABLE))
    told = None if "unknown" in (ends, *steps) else False if "higher" in steps else all_of([ends], ("lower",))
    return Judgement(
        holds=said(told),
        ours=line(results, PRIVATE, TABLE),
        rule="the largest ε lower than the smallest, averaged over ℓ, and no step up from one ε to the next at any ℓ",
        why="Sound prototypes, item factors frozen. As published at the last point: "
        + ", ".join(str(results.at(name, results.x[-1], TABLE)) for name in PUBLISHED)
        + " for ε = 0.005, 0.05, 0.5 and 5.",
    )


def _like_nonprivate(results: Results) -> Judgement:
    apart = [gap for name in PRIVATE for gap in gaps(results, name, KMEANS, TABLE)]
    published = [gap for name in PUBLISHED for gap in gaps(results, name, KMEANS, TABLE)]
    return Judgement(
        holds=said(near(apart, COMPARABLE)),
        ours=line(results, (KMEANS, PRIVATE[0], PRIVATE[-1]), TABLE),
        rule=f"every ε near k-means at every point; {limit(apart, COMPARABLE)}",
        why=f"The published variant, which is not private, is at most {100 * max(map(abs, published)):.1f}% away. "
        "Where nothing stands out from the noise, our server lowers the number of factors instead of fitting noise.",
    )


def _beats_kmeans(results: Results) -> Judgement:
    last = results.x[-1]
    orders = [results.order(name, KMEANS, last, TABLE) for name in PRIVATE]
    published = results.order(PUBLISHED[1], KMEANS, last, TABLE)
    noise = results.order(NOISE, KMEANS, last, TABLE)
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=f"k = {last:g}: k-means {results.at(KMEANS, last, TABLE)}; private "
        + ", ".join(str(results.at(name, last, TABLE)) for name in PRIVATE)
        + f"; as published at ε = .05 {results.at(PUBLISHED[1], last, TABLE)}; noise {results.at(NOISE, last, TABLE)}",
        rule="every ε lower than k-means at the largest k",
        why=f"Next to k-means the published variant, which is not private, is {published}, and uniform noise {noise}.",
    )


def _regularizes(results: Results) -> Judgement:
    last = results.x[-1]
    random = results.order(RANDOM, KMEANS, last, FRESH)
    private = [results.order(name, KMEANS, last, FRESH) for name in (PRIVATE[1], PUBLISHED[1])]
    told = None if "unknown" in (random, *private) else random == "lower" and "lower" in private
    return Judgement(
        holds=said(told),
        ours=f"fresh draw, k = {last:g}: "
        f"{fresh_words(results, (KMEANS, RANDOM, PRIVATE[1], PUBLISHED[1], NOISE, MEANS))}",
        rule="at the largest k, on a fresh draw of the same rates, k-random errs less than k-means, and so do private "
        "exemplars at ε = 0.05, ours or the published ones: a regularizer helps on data that was not fitted",
        why=f"Next to k-means, on a fresh draw: k-random {random}, ours {private[0]}, as published {private[1]}.",
    )


def _excessive(results: Results) -> Judgement:
    items = int(read_settings("fig1")["size"][results.size]["data"]["n_items"])
    scale = items * _BOUND / 0.5
    return Judgement(
        holds=said(scale > _BOUND),
        ours=f"one row of {items} counts up to {_BOUND} ranges over {items * _BOUND:,}: at ε = 0.5 the noise of every "
        f"count has scale {scale:,.0f}",
        rule="the scale of the noise on one count is above the largest count; arithmetic, nothing was run",
        why="A person is a whole exemplar, so all of its counts can change at once.",
    )


def _hardly_matters(results: Results) -> Judgement:
    apart = gaps(results, PRIVATE[0], PRIVATE[-1], TABLE)
    noise = gaps(results, PRIVATE[0], NOISE, TABLE)
    return Judgement(
        holds=said(near(apart, SAME, below=True)),
        ours=line(results, (PRIVATE[0], PRIVATE[-1], PUBLISHED[0], PUBLISHED[-1], NOISE), TABLE),
        rule=f"ε = 0.005 no worse than ε = 5 at every point; {limit(apart, SAME, below=True)}",
        why="With uniform noise in place of prototypes the error is the last line, "
        f"{'that' if near(noise, SAME) else 'not that'} of the smallest ε.",
    )


def _smallest_equal(results: Results) -> Judgement:
    last = results.x[-1]
    apart = gaps(results, PRIVATE[0], PRIVATE[-1], TABLE, at=(last,))
    return Judgement(
        holds=said(near(apart, SAME, below=True)),
        ours=f"k = {last:g}: " + ", ".join(str(results.at(name, last, TABLE)) for name in PRIVATE),
        rule=f"ε = 0.005 no worse than ε = 5 at the largest k; {limit(apart, SAME, below=True)}",
        why="For ε = 0.005, 0.05, 0.5, 5. At a larger k a prototype averages over fewer people, not more. On a fresh "
        f"draw: {', '.join(str(results.at(name, last, FRESH)) for name in PRIVATE)}.",
    )


def _hundredth(results: Results) -> Judgement:
    last = results.x[-1]
    apart = gaps(results, HUNDREDTH, PRIVATE[2], TABLE, at=(last,))
    return Judgement(
        holds=said(near(apart, SAME, below=True)),
        ours=f"k = {last:g}: ε = 0.01 {results.at(HUNDREDTH, last, TABLE)}, ε = 0.5 "
        f"{results.at(PRIVATE[2], last, TABLE)}, item means {results.at(MEANS, last, TABLE)}",
        rule=f"ε = 0.01 no worse than ε = 0.5 at the largest k; {limit(apart, SAME, below=True)}",
        why="Compare with item means, which need one number per item.",
    )


PRIVATE_JUDGES: Final[dict[str, Judge]] = {
    "larger-epsilon-better": _larger_epsilon,
    "private-like-nonprivate": _like_nonprivate,
    "epsilon-hardly-matters-over-factors": _hardly_matters,
    "private-beats-kmeans": _beats_kmeans,
    "noise-regularizes": _regularizes,
    "random-needs-more-noise": _excessive,
    "epsilon-hardly-matters": _hardly_matters,
    "smallest-epsilon-equal": _smallest_equal,
    "hundredth-for-half": _hundredth,
}
