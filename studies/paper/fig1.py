"""Fig. 1, synthetic counts without and with privacy: the claims of section 5.3."""

from __future__ import annotations

from typing import Final

from studies.paper.figures import read_settings
from studies.paper.results import Results, compare
from studies.paper.verdicts import (
    COMPARABLE,
    LOWER,
    PLACES,
    SAME,
    Judge,
    Judgement,
    all_of,
    gaps,
    limit,
    line,
    near,
    said,
)

__all__ = ["JUDGES"]

MF: Final = "MF"
KMEANS: Final = "MF + k-means"
RANDOM: Final = "MF + k-random"
NOISE: Final = "MF + uniform noise"
MEANS: Final = "item means"
_EPSILONS: Final = ("0.005", "0.05", "0.5", "5")
PRIVATE: Final = tuple(f"MF + private, ε = {epsilon}" for epsilon in _EPSILONS)
PUBLISHED: Final = tuple(f"as published, ε = {epsilon}, no DP" for epsilon in _EPSILONS)
TABLE: Final = "rmse_table"
FRESH: Final = "rmse_fresh"


def _fresh(results: Results, names: tuple[str, ...]) -> str:
    """Errors of some lines on a fresh draw at the last point."""
    last = results.x[-1]
    return ", ".join(f"{name} {results.at(name, last, FRESH)}" for name in names)


def _mf_lowest(results: Results) -> Judgement:
    orders = [order for other in (KMEANS, RANDOM) for order in results.orders(MF, other, TABLE)]
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=line(results, (MF, KMEANS, RANDOM, NOISE), TABLE),
        rule=f"MF {LOWER} than k-means and k-random, on the table that was fitted",
        why="It is the only one of them whose V is fitted to this very table. On a fresh draw of the same rates, at "
        f"the last point: {_fresh(results, (MF, KMEANS, RANDOM, NOISE, MEANS))}.",
    )


def _random_second(results: Results) -> Judgement:
    orders = [*results.orders(RANDOM, KMEANS, TABLE), *results.orders(MF, RANDOM, TABLE)]
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=line(results, (RANDOM, KMEANS, NOISE), TABLE),
        rule=f"k-random {LOWER} than k-means, and MF {LOWER} than k-random",
        why=f"k-random against k-means, point by point: {', '.join(results.orders(RANDOM, KMEANS, TABLE))}. Uniform "
        "noise in place of exemplars is the last line.",
    )


def _differences_small(results: Results) -> Judgement:
    apart = [gap for name in (KMEANS, RANDOM) for gap in gaps(results, name, MF, TABLE)]
    noise = max(gaps(results, NOISE, MF, TABLE))
    return Judgement(
        holds=said(near(apart, COMPARABLE)),
        ours=f"at most {100 * max(apart):.1f}% from MF; uniform noise {100 * noise:.1f}%",
        rule=f"k-means and k-random near MF at every point; {limit(apart, COMPARABLE)}",
        why="Noise that knows nothing of the data is within the same limit, so this says nothing for prototypes."
        if noise <= COMPARABLE
        else "Noise that knows nothing of the data is further away than that.",
    )


def _falls_behind(results: Results) -> Judgement:
    first, last = results.x[0], results.x[-1]
    start, end = gaps(results, KMEANS, RANDOM, TABLE, at=(first, last))
    order = results.order(KMEANS, RANDOM, last, TABLE)
    told = all_of([order], ("higher",)) if end > start else False
    return Judgement(
        holds=said(None if order == "unknown" else told),
        ours=line(results, (KMEANS, RANDOM), TABLE)
        + f"; k-means above k-random by {100 * start:+.2f}% at the smallest and {100 * end:+.2f}% at the largest k",
        rule="k-means higher than k-random at the largest k, and by more than at the smallest k",
        why=f"The gap {'grows' if end > start else 'shrinks'} with k; at the largest k k-means is {PLACES[order]} "
        "k-random.",
    )


def _overfits(results: Results) -> Judgement:
    first, last = (results.at(RANDOM, x, TABLE) for x in (results.x[0], results.x[-1]))
    fresh = results.order(KMEANS, RANDOM, results.x[-1], FRESH)
    told = None if fresh == "unknown" else compare(last, first) == "lower" and fresh == "higher"
    best = min((MF, KMEANS, RANDOM, MEANS), key=lambda name: results.at(name, results.x[-1], FRESH).mean)
    return Judgement(
        holds=said(told),
        ours=f"k-random {first} to {last} on the table; fresh draw at the largest k: "
        f"{_fresh(results, (KMEANS, RANDOM, MF, MEANS))}",
        rule="at the largest k, k-means errs more than k-random on a fresh draw of the same rates, where overfitting "
        "shows; and k-random improves with k on the table",
        why=f"On a fresh draw k-means is {PLACES[fresh]} k-random, and the lowest error is that of {best}.",
    )


def _not_private(results: Results) -> Judgement:
    paid = results.frame.filter(metric="epsilon_paid")
    names = [name for name in (MF, KMEANS, RANDOM) if paid.filter(line=name).height]
    return Judgement(
        holds=said(not names),
        ours="no ε for " + ", ".join((MF, KMEANS, RANDOM)),
        rule="none of the three states an ε that it pays",
        why="Rows, means of few rows and chosen rows are sent as they are.",
    )


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
        ours=f"fresh draw, k = {last:g}: {_fresh(results, (KMEANS, RANDOM, PRIVATE[1], PUBLISHED[1], NOISE, MEANS))}",
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


JUDGES: Final[dict[str, Judge]] = {
    "mf-lowest": _mf_lowest,
    "random-second": _random_second,
    "differences-small": _differences_small,
    "none-is-private": _not_private,
    "mf-lowest-over-k": _mf_lowest,
    "random-second-over-k": _random_second,
    "kmeans-falls-behind": _falls_behind,
    "kmeans-overfits": _overfits,
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
