"""What the figures say, in words: when to federate and when not. Every sentence is made from the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from studies._frontier_summary import CLEAR_GAP, Harm, Results
from studies._frontier_tables import NAMES

__all__ = ["HALF", "advice", "verdict", "worth_from"]

#: Federation is called worth it from this share of the gap on.
HALF = 0.5
#: Group of entities that words speak of: they have the most to gain.
GROUP = "smaller half"


def worth_from(results: Results, mechanism: str, noise: str, *, group: str = GROUP) -> float | None:
    """The least ε from which at least half of the gap is closed, at it and at every larger one; None if there is none.

    A share counts only when it is more than two standard errors above what the entity reaches without anybody: alone,
    with public features, and with noise in place of the statistic.
    """
    found = None
    for epsilon in reversed([one for one in results.epsilons if results.metric(mechanism, noise, one)]):
        share = results.share(mechanism, noise, epsilon, group=group)
        error = 0.0 if math.isnan(share.error) else share.error
        if not (share.mean >= HALF and share.mean - _for_nothing(results, mechanism, group) > 2 * error):
            break
        found = epsilon
    return found


def _for_nothing(results: Results, mechanism: str, group: str) -> float:
    """Share of the gap that needs no other entity."""
    cells = [("public features", "none", math.inf), *(one for one in results.noise_only if one[0] == mechanism)]
    shares = [results.share(*cell, group=group).mean for cell in cells]
    return max((share for share in shares if not math.isnan(share)), default=0.0)


def verdict(results: Results) -> str:
    """One paragraph on one data set.

    Examples
    --------
    >>> import polars as pl
    >>> from studies._frontier_settings import read_frontier
    >>> from studies._frontier_store import SCHEMA
    >>> verdict(Results(pl.DataFrame(schema=SCHEMA), read_frontier("full").of("jester")))
    'Jester in 50 entities, ratings: not run.'
    """
    setting, gap = results.setting, results.gap(GROUP)
    title = setting.title[0].upper() + setting.title[1:]
    if not gap.seeds:
        return f"{title}: not run."
    alone, best = results.figure("alone", group=GROUP), results.figure(results.reference(GROUP), group=GROUP)
    name = "nDCG@10" if setting.metric == "ndcg" else "RMSE"
    start = f"{title}: in the smaller half of the entities {name} is {alone.mean:.4f} alone and {best.mean:.4f}"
    start += " federated without noise."
    if gap.mean <= 0 or gap.mean < CLEAR_GAP * gap.error:
        return f"{start} There is no clear gap, so there is nothing to federate for, at any ε."
    return " ".join([start, *(_noise(results, noise) for noise in ("secure", "own")), _public(results)]).strip()


def advice(all_results: Sequence[Results]) -> list[str]:
    """General statements, each counted over the data sets that were run.

    Examples
    --------
    >>> advice([])
    []
    """
    run = [one for one in all_results if one.gap(GROUP).seeds]
    if not run:
        return []
    gaps = [one for one in run if not math.isnan(one.share(one.reference(GROUP), "none", math.inf, group=GROUP).mean)]
    said = [f"Something to gain: {len(gaps)} of {len(run)} data sets have a clear gap between alone and federated."]
    said += [
        text
        for noise, limit in (("secure", 0.1), ("secure", 1.0), ("own", 1.0), ("own", 10.0))
        if (text := _counted(gaps, noise, limit))
    ]
    said += [text for text in (_prototypes(gaps), _noise_only(gaps), _harmed(run)) if text]
    return said


def _noise(results: Results, noise: str) -> str:
    headline = results.setting.headline
    known = [one for one in results.epsilons if results.metric(headline, noise, one)]
    if not known:
        return f"With {NAMES[noise]}: not run."
    start = f"With {'a ' if noise == 'secure' else ''}{NAMES[noise]}, {headline}"
    least = worth_from(results, headline, noise)
    at = {one: results.share(headline, noise, one, group=GROUP).mean for one in known}
    listed = ", ".join(f"{100 * share:.0f} % at {one:g}" for one, share in at.items())
    if least is None and at[known[-1]] >= HALF:
        free = 100 * _for_nothing(results, headline, GROUP)
        return f"{start} closes no clearly larger part of the gap than what needs nobody else, {free:.0f} % ({listed})."
    if least is None:
        return f"{start} closes half of the gap at no ε that was run: do not federate for it ({listed})."
    if least == known[0]:
        return f"{start} closes at least half of the gap at every ε: federate ({listed})."
    return f"{start} closes at least half of the gap from ε = {least:g} on: federate from there, not below ({listed})."


def _public(results: Results) -> str:
    share = results.share("public features", "none", math.inf, group=GROUP)
    if math.isnan(share.mean):
        return ""
    return (
        f"Public features alone, without anybody else, close {100 * share.mean:.0f} %: what lies above is federation."
    )


def _counted(gaps: Sequence[Results], noise: str, limit: float) -> str:
    there = [one for one in gaps if one.metric(one.setting.headline, noise, limit)]
    good = [one for one in there if (least := worth_from(one, one.setting.headline, noise)) and least <= limit]
    if not there:
        return ""
    names = f": {'; '.join(one.setting.title for one in good)}" if good else ""
    start = f"{NAMES[noise].capitalize()}, ε = {limit:g}"
    return f"{start}: at least half of the gap is closed on {len(good)} of {len(there)} data sets{names}."


def _prototypes(gaps: Sequence[Results]) -> str:
    shares = [
        (
            one.share("buckets", "own", epsilon, group=GROUP).mean,
            one.share(one.setting.headline, "own", epsilon, group=GROUP).mean,
        )
        for one in gaps
        for epsilon in one.epsilons
    ]
    known = [(low, high) for low, high in shares if not math.isnan(low) and not math.isnan(high)]
    if not known:
        return ""
    behind = sum(low < high for low, high in known)
    return f"Prototypes (buckets) close less of the gap than the bilinear statistic in {behind} of {len(known)} cells."


def _noise_only(gaps: Sequence[Results]) -> str:
    found = [one.share(*cell, group=GROUP).mean for one in gaps for cell in one.noise_only]
    known = [share for share in found if not math.isnan(share)]
    if not known:
        return ""
    return (
        f"Noise with nothing under it closes {100 * min(known):.0f} % to {100 * max(known):.0f} % of the gap: "
        "what a share has to exceed before it says anything about federation."
    )


def _harmed(run: Sequence[Results]) -> str:
    """Over all private cells, those that help apart from those that do not."""
    cells: dict[bool, list[Harm]] = {True: [], False: []}
    for one in run:
        for mechanism, noise in one.privates:
            for epsilon in one.epsilons:
                if one.metric(mechanism, noise, epsilon):
                    share = one.share(mechanism, noise, epsilon)
                    cells[share.mean > 2 * share.error].append(one.harm(mechanism, noise, epsilon))
    if not any(cells.values()):
        return ""
    return (
        "Harm, entities that took anything shared and did worse than alone by more than one standard error (two): "
        f"{_told(cells[True])} where federation clearly helps on the whole, {_told(cells[False])} where it does not. "
        "Chance alone makes it 16 % (2 %) where what is shared is worth exactly nothing."
    )


def _told(cells: Sequence[Harm]) -> str:
    moved, worse, far = (sum(getattr(cell, name) for cell in cells) for name in ("moved", "worse", "far_worse"))
    return f"{worse:,} ({far:,}) of {moved:,}"
