"""Claims about the related work: private coresets, the choice of Balcan et al., federated tensor factorization."""

from __future__ import annotations

from typing import Final

from studies.paper.results import Results
from studies.paper.verdicts import PLACES, SAME, Judge, Judgement, all_of, limit, line, near, said

__all__ = ["JUDGES"]

RATIO: Final = "objective_ratio"
BALCAN: Final = "balcan"
#: Others with a pure promise, and with a δ.
PURE: Final = ("sulq", "buckets", "coreset")
APPROXIMATE: Final = ("sulq, δ", "buckets, δ", "coreset, δ", "sample and aggregate, δ")
#: Share of what k-means gains over one mean that counts as nothing.
TENTH: Final = 0.1


def _scales(results: Results) -> Judgement:
    first = {
        name: next((x for x in results.x if results.at(name, x, RATIO).mean < 1), None)
        for name in ("coreset", "coreset, δ", BALCAN)
    }
    words = "; ".join(f"{name} from {'no ε' if x is None else f'ε = {x:g}'}" for name, x in first.items())
    worked = first["coreset, δ"] is not None or first["coreset"] is not None
    return Judgement(
        holds=said(not worked),
        ours=f"better than one exact mean: {words}; {line(results, ('coreset, δ',), RATIO)}",
        rule="the coreset runs on all users of this size, and at some ε its centres beat one exact mean; then the "
        "claim does not hold",
        why="A tree of sign hashes reads every row twice, whatever k is."
        if worked
        else "It ran, but its centres are nowhere better than one mean.",
    )


def _best(results: Results) -> Judgement:
    gained = abs(1 - results.at("k-means", results.x[-1], RATIO).mean)
    orders = {name: results.orders(name, BALCAN, RATIO, within=TENTH * gained) for name in PURE}
    lower = {
        name: [x for x, how in zip(results.x, told, strict=True) if how == "lower"] for name, told in orders.items()
    }
    words = [f"{name} is lower at ε = {', '.join(f'{x:g}' for x in xs)}" for name, xs in lower.items() if xs]
    words += [f"{name} is alike at every ε" for name, told in orders.items() if set(told) == {"alike"}]
    unknown = any("unknown" in told for told in orders.values())
    return Judgement(
        holds=said(False if words else None if unknown else True),
        ours=line(results, (BALCAN, *PURE, *APPROXIMATE, "k-means"), RATIO),
        rule="no other mechanism with the same pure ε has a lower objective at any ε shown, or the same at all of "
        "them; a tenth of what k-means gains over one mean counts as the same",
        why=f"Other mechanisms do as well: {'; '.join(words)}." if words else "None is lower at any ε.",
    )


RANK: Final = "mean_rank"
ADMM: Final = "tensor, ADMM"
TENSOR: Final = "tensor, raw data pooled"
TWO: Final = "best private model, ε = 1"
EXACT: Final = "two messages, exact"


def _same_solution(results: Results) -> Judgement:
    last = results.x[-1]
    own, other = results.at(ADMM, last, RANK), results.at(TENSOR, last, RANK)
    apart = own.mean / other.mean - 1
    return Judgement(
        holds=said(near([abs(apart)], SAME)),
        ours=line(results, (ADMM, TENSOR), RANK),
        rule=f"mean rank after {last:g} iterations near that of all raw data in one place; {limit([abs(apart)], SAME)}",
        why=f"After {last:g} iterations it is off by {100 * apart:+.1f}%.",
    )


def _needs_more(results: Results) -> Judgement:
    first, last = results.x[0], results.x[-1]
    sent = {name: results.at(name, first, "megabytes").mean for name in (ADMM, EXACT, TWO)}
    ends = results.at(ADMM, last, "megabytes").mean, results.at(ADMM, last, "rounds").mean
    return Judgement(
        holds=said(sent[ADMM] > max(sent[EXACT], sent[TWO])),
        ours=f"{ADMM}: {sent[ADMM]:.1f} MB after {first:g} iterations, {ends[0]:.1f} MB in {ends[1]:.0f} rounds after "
        f"{last:g}; {EXACT}: {sent[EXACT]:.1f} MB; {TWO}: {sent[TWO]:.1f} MB, two rounds each; mean rank: "
        + line(results, (ADMM, EXACT, TWO), RANK),
        rule=f"more megabytes after {first:g} iterations, the fewest shown, than exact prototypes and than the best "
        "private model",
        why="Rounds are more by construction. The best private model sends all pairs of items, once.",
    )


def _ranks_better(results: Results) -> Judgement:
    last = results.x[-1]
    order = results.order(ADMM, TWO, last, RANK)
    return Judgement(
        holds=said(all_of([order], ("lower",))),
        ours=line(results, (ADMM, TENSOR, EXACT, TWO, "pooled MF", "individual MF"), RANK),
        rule=f"mean rank lower after {last:g} iterations",
        why=f"It is {PLACES[order]} the two private messages. Stays without a lab or without a drug are empty slices, "
        "for which the tensor gives item means.",
    )


ROWS: Final = "synthetic rows"
PROTOTYPES: Final = "private prototypes"
ALL_PAIRS: Final = "best private model"


def _unsuited(results: Results) -> Judgement:
    if not results.frame.filter(line=ROWS).height:
        return Judgement(holds="cannot be told", ours="–", rule="not asked", why="The synthesizer is not installed.")
    x = results.x[-1]
    orders = results.orders(ROWS, PROTOTYPES, RANK)
    sent = {name: results.at(name, x, "megabytes").mean for name in (ROWS, PROTOTYPES, ALL_PAIRS)}
    told = all_of(list(orders), ("higher",))
    return Judgement(
        holds=said(None if told is None else told and sent[ROWS] > sent[PROTOTYPES]),
        ours=line(results, (ROWS, PROTOTYPES, ALL_PAIRS, "exact prototypes", "pooled MF"), RANK)
        + "; megabytes: "
        + ", ".join(f"{name} {number:.2f}" for name, number in sent.items()),
        rule="synthetic rows rank worse than private prototypes at every ε, and are more megabytes",
        why=f"Next to prototypes: {', '.join(orders)}, for ε = {', '.join(f'{one:g}' for one in results.x)}. All pairs "
        "are measured for the rows; the best private model uses such pairs themselves.",
    )


JUDGES: Final[dict[str, Judge]] = {
    "coresets-do-not-scale": _scales,
    "balcan-is-the-one": _best,
    "synthesis-unsuited": _unsuited,
    "tensor-same-solution": _same_solution,
    "tensor-needs-more": _needs_more,
    "tensor-ranks-better": _ranks_better,
}
