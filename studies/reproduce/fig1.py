"""Fig. 1a and 1b, synthetic counts without privacy: what holds of section 5.3; the private half is beside it."""

from __future__ import annotations

from typing import Final

from studies.reproduce.fig1_private import PRIVATE_JUDGES
from studies.reproduce.judge import Judge
from studies.reproduce.results import Results, compare
from studies.reproduce.rules import COMPARABLE, LOWER, gaps, limit, near
from studies.reproduce.synthetic_lines import FRESH, KMEANS, MEANS, MF, NOISE, RANDOM, TABLE, fresh_words
from studies.reproduce.told import PLACES, line
from studies.reproduce.verdicts import Judgement, all_of, said

__all__ = ["JUDGES"]


def _mf_lowest(results: Results) -> Judgement:
    orders = [order for other in (KMEANS, RANDOM) for order in results.orders(MF, other, TABLE)]
    return Judgement(
        holds=said(all_of(list(orders), ("lower",))),
        ours=line(results, (MF, KMEANS, RANDOM, NOISE), TABLE),
        rule=f"MF {LOWER} than k-means and k-random, on the table that was fitted",
        why="It is the only one of them whose V is fitted to this very table. On a fresh draw of the same rates, at "
        f"the last point: {fresh_words(results, (MF, KMEANS, RANDOM, NOISE, MEANS))}.",
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
        f"{fresh_words(results, (KMEANS, RANDOM, MF, MEANS))}",
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


JUDGES: Final[dict[str, Judge]] = {
    "mf-lowest": _mf_lowest,
    "random-second": _random_second,
    "differences-small": _differences_small,
    "none-is-private": _not_private,
    "mf-lowest-over-k": _mf_lowest,
    "random-second-over-k": _random_second,
    "kmeans-falls-behind": _falls_behind,
    "kmeans-overfits": _overfits,
    **PRIVATE_JUDGES,
}
