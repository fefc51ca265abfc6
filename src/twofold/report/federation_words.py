"""The sentences of a federation's report: what was gained, said plainly, also when it is nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from twofold.privacy.budget import best_guess
from twofold.privacy.card_words import brief, percent, protects
from twofold.privacy.ledger import cost_of
from twofold.protocol.expected import expected
from twofold.protocol.leaving import leaving
from twofold.protocol.plan import Plan
from twofold.report.comparison import Difference, Group, difference, mean_and_spread, size_groups
from twofold.report.federation import BASE, PRIVATE, FederationRun
from twofold.report.words import number

__all__ = ["budget_words", "headline", "kept_of_the_gain", "plan_words", "verdict"]


def verdict(run: FederationRun, members: Sequence[int] | None = None, *, key: str = PRIVATE, base: str = BASE) -> str:
    """Say how one system does against another at some entities, in one sentence with its uncertainty.

    A difference of less than two standard errors over entities is called no difference.
    """
    chosen = run.everyone if members is None else members
    one, other = run.system(key), run.system(base)
    gap = difference(one.ndcg, other.ndcg, chosen)
    numbers = (
        f"nDCG@10 {number(mean_and_spread(one.ndcg, chosen)[0])} against "
        f"{number(mean_and_spread(other.ndcg, chosen)[0])}, a difference of {number(gap.mean, 4)} with a standard "
        f"error of {number(gap.error, 4)}; better at {gap.better} of {gap.entities} {run.nouns.entities}, worse at "
        f"{gap.worse}."
    )
    return f"{_claim(gap, one.name, other.name)}: {numbers}"


def _claim(gap: Difference, one: str, other: str) -> str:
    claims = {
        "better": f"{one} is better than {other.lower()}",
        "worse": f"{one} is WORSE than {other.lower()}",
        "no different": f"{one} is not measurably different from {other.lower()}",
        "unknown": f"{one} cannot be compared with {other.lower()} here, too little was held out",
    }
    return claims[gap.verdict]


def headline(run: FederationRun) -> tuple[str, tuple[str, ...]]:
    """Give the sentence in the box and those that explain it: all entities, the smallest, and by mean rank."""
    first = _plainly(run)
    groups = size_groups(run.sizes)
    more = [f"All {run.nouns.entities}. {verdict(run)}"]
    if len(groups) > 1:
        more.append(f"{_capital(groups[0].name)}. {verdict(run, groups[0].members)}")
    by_rank = difference(
        run.system(PRIVATE).mean_rank, run.system(BASE).mean_rank, run.everyone, higher_is_better=False
    )
    more.append(f"By mean rank, {_claim(by_rank, 'joining', 'staying alone')}: {_rank_words(by_rank)}")
    return first, tuple(more)


def _plainly(run: FederationRun) -> str:
    gap = difference(run.system(PRIVATE).ndcg, run.system(BASE).ndcg, run.everyone)
    smallest = size_groups(run.sizes)[0]
    price = budget_words(run.plan)
    claims = {
        "better": f"Joining helped: at {price}, the private federation recommends better than staying alone.",
        "worse": f"Joining HURT here: at {price}, the private federation recommends worse than staying alone.",
        "no different": f"Joining did not measurably help: at {price}, the private federation does not beat "
        "staying alone.",
        "unknown": "Too little was held out to say whether joining helped.",
    }
    return claims[gap.verdict] + _but(run, gap, smallest)


def _but(run: FederationRun, gap: Difference, smallest: Group) -> str:
    """Add what the smallest entities see when it is another story."""
    there = difference(run.system(PRIVATE).ndcg, run.system(BASE).ndcg, smallest.members)
    if there.verdict == gap.verdict or there.verdict == "unknown":
        return ""
    whom = f" For the {smallest.name} of the {run.nouns.entities} it "
    return (
        whom
        + {
            "better": "did help.",
            "worse": "made things worse.",
            "no different": "made no measurable difference.",
        }[there.verdict]
    )


def kept_of_the_gain(run: FederationRun, key: str) -> str:
    """Say which share of the gain of a federation without privacy the private one keeps; empty when there was none."""
    everyone, alone = run.everyone, run.system(BASE)
    without = difference(run.system(key).ndcg, alone.ndcg, everyone)
    private = difference(run.system(PRIVATE).ndcg, alone.ndcg, everyone)
    if without.verdict != "better":
        return (
            f"Over all {run.nouns.entities}, sharing without privacy does not measurably beat staying alone either, so "
            "there is nothing that privacy could cost."
        )
    if private.verdict != "better":
        return (
            f"Without privacy, sharing would add {number(without.mean, 4)} to the nDCG@10 of staying alone. Of that "
            "the private federation keeps nothing that can be measured."
        )
    return (
        f"Without privacy, sharing would add {number(without.mean, 4)} to the nDCG@10 of staying alone; the private "
        f"federation adds {number(private.mean, 4)}, {private.mean / without.mean:.0%} of it."
    )


def budget_words(plan: Plan) -> str:
    """Write ε and δ of a plan.

    Examples
    --------
    >>> from twofold.protocol.plan import CatalogKey
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> budget_words(Plan(catalog=key, feedback="counts", bound=5, max_items=60))
    'ε = 1, δ = 1e-6'
    """
    return brief(cost_of(plan.budget))


def plan_words(run: FederationRun) -> tuple[tuple[str, str], ...]:
    """Say what was agreed, a name and a sentence each."""
    plan, nouns = run.plan, run.nouns
    guess = best_guess(float(plan.epsilon), float(plan.delta))
    cut = (
        f"at most {plan.max_items} {nouns.items} of one {nouns.user}, each value from {plan.lower:g} to {plan.bound:g}"
    )
    return (
        ("Price", f"{budget_words(plan)} for the one release"),
        ("Protects", protects(plan.unit) if run.private else "nobody: this run is marked NOT PRIVATE"),
        *_secure_words(plan, nouns.entities),
        (
            "Meaning",
            f"whoever sees {'a message' if plan.secure is None else 'the sum'} and must say whether one {nouns.user} "
            "was in the data is right at most "
            f"{percent(guess)} of the time; a coin is right 50%",
        ),
        ("Item list", f"{plan.n_items:,} {nouns.items}, public"),
        ("Cut before release", cut),
        _released(run),
        ("Shared factors", f"rank {plan.rank}"),
        ("Promised", f"about {plan.n_users:,} {nouns.users} each, {plan.n_entities} {nouns.entities}; never counted"),
        ("Plan SHA-256", plan.hash),
        ("Item list SHA-256", plan.catalog.hash),
    )


def _secure_words(plan: Plan, entities: str) -> tuple[tuple[str, str], ...]:
    """Say what a secure sum adds to the promise, and what is left of it when all others collude."""
    if plan.secure is None:
        return ()
    left = leaving(plan)
    alone = "nothing" if left.alone is None or math.isinf(left.alone) else f"ε = {left.alone:.3g}"
    words = (
        f"the server sees only the sum of at least {plan.secure.survivors} messages; the noise is shared among "
        f"{left.honest} honest {entities}. Should all others collude with the server, one message alone has {alone}"
    )
    return (("Secure sum", words),)


def _released(run: FederationRun) -> tuple[str, str]:
    plan, numbers = run.plan, leaving(run.plan).numbers
    if expected(plan).length:
        return ("Released", f"{numbers:,} numbers; {run.choice or plan.mechanism}")
    return ("Prototypes", f"{plan.n_prototypes} asked for, {_rows(plan)} leave; {run.choice or plan.mechanism}")


def _rows(plan: Plan) -> str:
    """How many rows of sums leave an entity: cells, or one profile, where the mechanism does not cluster."""
    size = plan.release_mechanism.size(plan.public)
    return "as many as it has users" if size is None else f"{size:,}"


def _rank_words(gap: Difference) -> str:
    """A positive difference means higher in the list."""
    if not math.isfinite(gap.mean):
        return "–"
    where = "higher" if gap.mean >= 0 else "lower"
    return (
        f"held-out entries stand {abs(gap.mean):.2%} of the list {where} on average, with a standard error of "
        f"{gap.error:.2%}."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
