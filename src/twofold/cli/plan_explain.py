r"""What the verbs of `twofold plan` say, apart from the table of `explain`.

What `twofold plan explain` says of a bilinear statistic: whether it can rise above its noise, by public numbers.

The bare numbers `twofold plan explain` takes when there is no plan yet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold.errors import BadPrivacyParameter, Set
from twofold.federation.leaving import Leaving
from twofold.federation.plan import Plan
from twofold.privacy.budget import ApproxDP, PureDP, best_guess
from twofold.privacy.card import percent
from twofold.privacy.explain import PublicNumbers
from twofold.release.content import Kind
from twofold.release.usefulness import Usefulness, clear_share, worth

__all__ = [
    "EPSILONS",
    "check_fit",
    "check_numbers",
    "leaving_lines",
    "plan_lines",
    "plan_numbers",
    "promise",
    "rounded_up",
    "show_worth",
    "worth_record",
]


def promise(guarantee: PureDP | ApproxDP) -> str:
    """A guarantee in symbols, with three digits, rounded up as on the card.

    Examples
    --------
    >>> promise(PureDP(epsilon="0.1")), promise(PureDP(epsilon="2.111"))
    ('ε = 0.1', 'ε = 2.12')
    """
    delta = Fraction(getattr(guarantee, "delta", 0))
    return f"ε = {rounded_up(guarantee.epsilon)}" + (f", δ = {rounded_up(delta)}" if delta else "")


def rounded_up(amount: Fraction | float) -> str:
    """Three digits, never less than it is: a promise may be kept better than said, and not worse.

    Examples
    --------
    >>> rounded_up(2.111), rounded_up(Fraction(1, 10)), rounded_up(1234)
    ('2.12', '0.1', '1240')
    """
    if not amount:
        return "0"
    exact = Fraction(str(amount))  # of a float what it is written as: 0.1 is no more than 0.1
    step = Fraction(10) ** (math.floor(math.log10(exact)) - 2)
    return f"{float(math.ceil(exact / step) * step):.10g}"


def leaving_lines(plan: Plan, found: Leaving) -> list[str]:
    """What would leave, from which mechanism, and at what price."""
    holder = {"person": "a person with everything recorded about them", "visit": "one visit"}[plan.unit.holder]
    lines = [f"Mechanism: {found.mechanism}" + (f", chosen by auto.\n  {found.reason}" if found.reason else ".")]
    if found.arrays is None:
        lines.append("What would leave, once: as many rows as private data decide. NOT private.")
    else:
        shapes = ", ".join(f"{name} {' x '.join(f'{one:,}' for one in shape)}" for name, shape in found.arrays.items())
        lines.append(f"What would leave an entity, once: {shapes}, whole numbers, {found.bytes:,} bytes,")
        lines.append(f"  and a header of public text; never more than {found.most_bytes:,} bytes.")
    if not found.private:
        return [*lines, "Price: infinite. This mechanism has no proof; for simulations only."]
    noise, law = found.noise, found.noise.law.capitalize()
    extra = f", {noise.observed:,.4g} on a number of observations" if noise.observed else ""
    whose = "Noise of one entity's share" if found.honest else "Noise"
    lines.append(
        f"{whose}: {law}, standard deviation {noise.values:,.4g} on a sum, {noise.counts:,.4g} on a count{extra}."
    )
    if found.honest:
        values, counts = (math.sqrt(plan.n_entities) * one for one in (noise.values, noise.counts))
        where = f"  In the sum of all {plan.n_entities:,}, which the server sees"
        lines.append(f"{where}: {values:,.4g} on a sum, {counts:,.4g} on a count.")
    lines.append(f"Hidden: {holder}; price {promise(found.guarantee)} when one is added or removed,")
    lines.append(f"  {promise(found.replace_one)} when one is replaced by another.")
    if found.honest and found.alone is not None:
        lines.append(
            f"Secure sum: the server sees only the sum; the noise is shared among {found.honest} honest entities."
        )
        lines.append(
            f"  One message alone, should all others collude with the server: ε = {rounded_up(found.alone)}."
            if math.isfinite(found.alone)
            else "  One message alone, should all others collude with the server: nothing is promised."
        )
    if plan.unit.entities > 1:
        lines.append(f"  Found in up to {plan.unit.entities} entities: {promise(found.across)} in all.")
    if plan.simulation:
        lines.append("Simulation: seeds are allowed and everything is marked not private.")
    return lines


def plan_lines(plan: Plan) -> list[str]:
    """Every field of a plan, one a line."""
    record = plan.as_dict() | {"epsilon": f"{plan.epsilon}", "delta": f"{float(plan.delta):g}"}
    record["catalog"] = f"{plan.n_items:,} items, hash {plan.catalog.hash[:12]}"
    where = "one entity only" if plan.unit.entities == 1 else f"up to {plan.unit.entities} entities"
    record["unit"] = f"{plan.unit.holder}, found in {where}, {plan.unit.adjacency}"
    record["entities"] = ", ".join(plan.entities) or "any"
    if plan.features is not None:
        record["features"] = f"{plan.features.n_features} public features, hash {plan.features.hash[:12]}"
    if plan.secure is not None:
        given = {name: value for name, value in plan.secure.as_dict().items() if value not in (None, "")}
        record["secure"] = ", ".join(f"{name} {str(value)[:12]}" for name, value in given.items())
    wide = max(map(len, record))
    return [f"{name:<{wide}}  {'-' if value is None else value}" for name, value in record.items()]


#: Shown by default, with the plan's own: those of docs/results/frontier.md.
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
_WHERE: Final = "What was gained at each ε, on simulated and open data: docs/results/frontier.md."


def show_worth(plan: Plan, kind: Kind, epsilons: Sequence[float] | None = None) -> None:
    """Print the table, what its columns mean, and the verdict on the plan's own ε."""
    typer.echo("\n".join(_title(plan, kind)))
    Console().print(_table(plan, kind, _asked(plan, epsilons)))
    typer.echo("\n".join(_legend(plan, kind)))


def worth_record(plan: Plan, kind: Kind, epsilons: Sequence[float] | None = None) -> dict[str, Any]:
    """Give the same as plain JSON; ``own_noise`` is None where the table has no such column.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(
    ...     catalog=CatalogKey(hash="0" * 64, n_items=40), feedback="counts", bound=1, max_items=10, mechanism="gram",
    ... )
    >>> record = worth_record(plan, "gram", [1.0])
    >>> record["rows"][0]["verdict"], record["rows"][0]["of_the_plan"]
    ('perhaps', True)
    """
    rows = [_row_record(plan, kind, epsilon) for epsilon in _asked(plan, epsilons)]
    public = {name: getattr(plan, name) for name in ("n_items", "n_users", "max_items", "n_prototypes", "n_entities")}
    public |= {"bound": plan.public.value_cap, "delta": float(plan.delta), "honest": plan.public.honest}
    return {"public": public, "rows": rows, "verdict": " ".join(_verdict(plan, kind))}


def _asked(plan: Plan, epsilons: Sequence[float] | None) -> list[float]:
    return list(epsilons) if epsilons else sorted({*EPSILONS, float(plan.epsilon)})


def _at(plan: Plan, kind: Kind, epsilon: float, *, own: bool = False) -> Usefulness:
    """Judge at some ε; with `own`, as if every entity added the whole noise."""
    public = plan.public if epsilon == float(plan.epsilon) else plan.public.with_(epsilon=epsilon)
    return worth(public.with_(honest=0) if own else public, kind)


def _row_record(plan: Plan, kind: Kind, epsilon: float) -> dict[str, Any]:
    found = _at(plan, kind, epsilon)
    own = asdict(_at(plan, kind, epsilon, own=True)) if plan.public.honest else None
    return {
        **asdict(found),
        "delta": float(plan.delta),
        "mechanism": kind,
        "guess": best_guess(epsilon, float(plan.delta)),
        "verdict": found.verdict,
        "of_the_plan": epsilon == float(plan.epsilon),
        "own_noise": own and own["share"],
    }


def _table(plan: Plan, kind: Kind, epsilons: Sequence[float]) -> Table:
    secure = bool(plan.public.honest)
    names = ["", "ε", "best\nguess", "hidden\nbelow", *(["with own\nnoise"] if secure else []), "clear from\nusers"]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("useful?", no_wrap=True)
    for epsilon in epsilons:
        table.add_row(*_cells(plan, kind, epsilon))
    return table


def _cells(plan: Plan, kind: Kind, epsilon: float) -> list[str]:
    found, mark = _at(plan, kind, epsilon), "plan >" if epsilon == float(plan.epsilon) else ""
    own = [_share(_at(plan, kind, epsilon, own=True).share)] if plan.public.honest else []
    guess = percent(best_guess(epsilon, float(plan.delta)))
    return [mark, f"{epsilon:.3g}", guess, _share(found.share), *own, f"{found.users_needed:,}", found.verdict]


def _share(share: float) -> str:
    """A share in percent, as far as it says something: from 1 on nothing at all is seen."""
    return "all" if share >= 1 else f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def _title(plan: Plan, kind: Kind) -> list[str]:
    whose = "of the secure sum" if plan.public.honest else "that every entity adds, in all of them together"
    users = f"{plan.n_users:,} promised users in each of {plan.n_entities:,} {_entities(plan)}"
    return [f"{kind}: the noise {whose}, against", f"{users}, from public numbers only"]


def _entities(plan: Plan) -> str:
    return "entity" if plan.n_entities == 1 else "entities"


def _legend(plan: Plan, kind: Kind) -> list[str]:
    limit = f"{100 * clear_share(kind, plan.feedback):g} %"
    return [
        f"best guess: how often an attacker is right about one person, from even odds; δ = {float(plan.delta):g}.",
        "hidden below: a pattern drowns when less than this share of all users' squared length lies along it.",
        *(["with own noise: the same without the secure sum."] if plan.public.honest else []),
        f"clear from users: promised users of an entity from which on at most {limit} is hidden.",
        f"useful? perhaps: at most {limit} is hidden, up to which auto calls {kind} of {plan.feedback} clear",
        "  of its noise; hardly: more; no: everything.",
        "",
        *_verdict(plan, kind),
    ]


def _verdict(plan: Plan, kind: Kind) -> list[str]:
    found = _at(plan, kind, float(plan.epsilon))
    price, limit, share = f"At ε = {float(plan.epsilon):g}", f"{100 * found.limit:g} %", _share(found.share)
    if found.clear:
        said = [
            f"{price} patterns above {share} can be seen: clear of the noise by the limit of auto ({limit}).",
            "That is needed and not enough; whether the data have such patterns, public numbers cannot say.",
        ]
    else:
        seen = "no pattern can be seen" if found.share >= 1 else f"only patterns above {share} can be seen"
        said = [
            f"{price} {seen}: not clear of the noise by the limit of auto ({limit}).",
            f"It would be from {found.users_needed:,} users per entity, or with more entities, or at a larger ε.",
        ]
    return [*said, _WHERE]


def check_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse a name in a file of numbers that means nothing here; fields of a plan may stand in it.

    Examples
    --------
    >>> check_numbers({"n_item": 5})
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: the file has a number that is not known.
      Found: n_item
      Expected: perhaps n_items
      More: twofold errors bad-privacy-parameter
    """
    known = sorted({one.name for one in fields(PublicNumbers)} | {one.name for one in fields(Plan)})
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise BadPrivacyParameter(
                "the file has a number that is not known.",
                found=f"{name:.40}",
                expected=f"perhaps {near[0]}" if near else "n_items, n_users, bound, max_items, n_prototypes, ...",
                parameter=f"{name:.40}",
            )
    return dict(given)


def check_fit(public: PublicNumbers) -> None:
    """Refuse more items of one user than there are.

    Examples
    --------
    >>> check_fit(PublicNumbers(n_items=5, n_users=9, bound=1, max_items=6, n_prototypes=2))
    Traceback (most recent call last):
    twofold.errors.BadPrivacyParameter: a user cannot have more items than the catalog...
    """
    if public.max_items > public.n_items:
        raise BadPrivacyParameter(
            "a user cannot have more items than the catalog.",
            found=f"{public.max_items} of {public.n_items}",
            expected=f"at most {public.n_items}",
            fix=Set("max_items", public.n_items),
            parameter="max_items",
        )


def plan_numbers(plan: Plan) -> dict[str, Any]:
    """Take the numbers out of a plan; ratings count from their centre. Without a δ, Gaussian rows get the usual one."""
    public = plan.public
    return {
        "n_items": plan.n_items,
        "n_users": plan.n_users,
        "bound": public.value_cap,
        "max_items": plan.max_items,
        "n_prototypes": plan.n_prototypes,
        "n_entities": plan.n_entities,
        "epsilon": float(plan.epsilon),
        **({"delta": float(plan.delta)} if plan.delta else {}),
    }
