"""What `twofold plan explain` says of a bilinear statistic: whether it can rise above its noise, by public numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold.privacy.budget import best_guess
from twofold.privacy.card_words import percent
from twofold.protocol.plan import Plan
from twofold.prototypes.bilinear.moments import Kind
from twofold.prototypes.bilinear.worth import Worth, clear_share, worth

__all__ = ["EPSILONS", "show_worth", "worth_record"]

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
    >>> from twofold.protocol.plan import CatalogKey
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


def _at(plan: Plan, kind: Kind, epsilon: float, *, own: bool = False) -> Worth:
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
