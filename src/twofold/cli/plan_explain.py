"""`twofold plan explain`: explain what a plan would release and whether it can be useful, from public numbers only."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold.cli.options import missing_features, prediction_lines
from twofold.cli.render import say
from twofold.entity.account import describe
from twofold.errors import BadPrivacyParameter, Set
from twofold.federation.messages import array_bytes, message_limit
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.plan_file import parse_plan, read_toml, with_tables
from twofold.privacy.budget import best_guess, positive, weak_promise
from twofold.privacy.ledger import cost_of
from twofold.privacy.printed import brief, percent, rounded_up
from twofold.privacy.trust import Operated, needed, trust_paragraph
from twofold.release.cells import cells_usefulness
from twofold.release.contract import ReleaseParameters
from twofold.release.usefulness import Range, Usefulness, predict, reconstruction_bound

__all__ = [
    "EPSILONS",
    "explain_plan",
    "note_features",
    "plan_lines",
    "release_lines",
    "release_record",
]

#: Shown by default, with the plan's own: those of docs/results/frontier.md.
EPSILONS: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
#: What has to be known where there is no plan.
_NEEDED: Final = ("n_items", "n_users", "bound", "max_items", "n_prototypes")
_USUAL_DELTA: Final = 1e-6
_WHERE: Final = "What was gained at each ε, on simulated and open data: docs/results/frontier.md."
_PRICES: Final = "The noise above is this plan's own. The table compares prices, each spent on one release."


Judge = Callable[[ReleaseParameters], Usefulness]


def explain_plan(
    file: Annotated[Path | None, typer.Argument(help="A plan file, or a TOML file with the numbers below.")] = None,
    n_items: Annotated[int | None, typer.Option(help="Length of the public catalog.")] = None,
    n_users: Annotated[int | None, typer.Option(help="Promised users per entity; agreed, never counted.")] = None,
    bound: Annotated[float | None, typer.Option(help="Largest value of one entry.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Most items one user may have.")] = None,
    n_prototypes: Annotated[int | None, typer.Option(help="Prototypes per entity.")] = None,
    n_entities: Annotated[int | None, typer.Option(help="Number of entities that take part; 1 by default.")] = None,
    delta: Annotated[float | None, typer.Option(help="The δ of Gaussian noise; 1e-6 by default.")] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Repeat for more; 0.1, 0.3, 1, 3 and 10 by default.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Show what would leave, how large the noise is next to a public signal, and whether that can be useful.

    Touches no data and spends nothing. Options ask "what if" and change no file.

    Examples
    --------
    twofold plan explain plan.toml
    twofold plan explain --n-items 457 --n-users 900 --bound 1 --max-items 60 --n-prototypes 10
    """
    given = read_toml(file) if file else {}
    named = {"n_items": n_items, "n_users": n_users, "bound": bound, "max_items": max_items}
    named |= {"n_prototypes": n_prototypes, "n_entities": n_entities, "delta": delta}
    changes = {key: value for key, value in named.items() if value is not None}
    if file is None or "schema" not in given:
        _explain_numbers(_numbers({**given, **changes}), _epsilons(given.get("epsilon"), epsilon), json=json)
        return
    note_features(file)
    plan = _changed(with_tables(parse_plan(given), given, file.parent), changes, epsilon)
    shown = _epsilons(float(plan.epsilon), epsilon)
    record = _statistic_record(plan, shown) if plan.spec.sum else _prototype_record(plan, shown)
    if json:
        size = {"numbers": plan.spec.numbers, "bytes": None if plan.spec.rows is None else array_bytes(plan)}
        record |= {"leaves": size, "plan": {"hash": plan.hash, **release_record(plan)}}
        record["prediction"] = asdict(plan.prediction) if plan.spec.private else None
        typer.echo(json_module.dumps(record, indent=2))
        return
    say("\n".join([*release_lines(plan), *([] if plan.spec.sum else [_PRICES]), ""]))
    if plan.spec.sum:
        _show_statistic(plan, shown)
    elif plan.spec.private:
        _show_prototypes(plan.parameters, _rows(plan.parameters, plan.release_mechanism.usefulness, shown))
    if plan.spec.private and (lines := prediction_lines(plan)):
        say("\n".join(["", *lines]))


def _explain_numbers(public: ReleaseParameters, epsilons: Sequence[float], *, json: bool) -> None:
    """Explain the requested number of prototypes, with the whole budget on them, when there is no plan yet."""
    rows = _rows(public, cells_usefulness, epsilons)
    numbers = public.n_prototypes * (public.n_items + 1)
    if json:
        record = _public_record(public) | {"leaves": {"numbers": numbers, "bytes": 8 * numbers}}
        typer.echo(json_module.dumps(record | {"rows": [_row_record(row) for row in rows]}, indent=2))
        return
    whom = "the entity" if public.n_entities == 1 else f"each of {public.n_entities} entities"
    say(f"What would leave {whom}, once: {numbers:,} numbers, {8 * numbers:,} bytes.")
    say(f"For each of {public.n_prototypes} prototypes a noisy sum per item ({public.n_items:,}) and a noisy count.")
    _show_prototypes(public, rows)


def _numbers(given: Mapping[str, Any]) -> ReleaseParameters:
    """Read the public numbers from a file that is not a plan, and from options."""
    known = sorted({one.name for one in fields(ReleaseParameters)} | set(Plan.model_fields))
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            raise BadPrivacyParameter(
                "the file has an unknown field.",
                found=f"{name:.40}",
                expected=f"perhaps {near[0]}" if near else f"{', '.join(_NEEDED)}, ...",
                parameter=f"{name:.40}",
            )
    if missing := [name for name in _NEEDED if given.get(name) is None]:
        raise BadPrivacyParameter(
            "the public numbers are incomplete.",
            found=f"missing {', '.join(missing)}",
            expected=", ".join(_NEEDED),
            fix="add them to the file, or give them as options",
            parameter=missing[0],
        )
    chosen = {name: given[name] for name in (*_NEEDED, "n_entities", "delta") if given.get(name) is not None}
    public = ReleaseParameters(**{"delta": _USUAL_DELTA, **chosen})
    if public.max_items > public.n_items:
        raise BadPrivacyParameter(
            "a user cannot have more items than the catalog.",
            found=f"max_items = {public.max_items}, n_items = {public.n_items}",
            expected=f"max_items of at most {public.n_items}",
            fix=Set("max_items", public.n_items),
            parameter="max_items",
        )
    return public


def _epsilons(own: Any, asked: Sequence[float] | None) -> list[float]:
    """Give the requested ε; by default the plan's own among the usual ones."""
    if asked:
        return list(asked)
    extra = own if isinstance(own, list) else [] if own is None else [own]
    numbers = [float(positive(one, name="epsilon")) for one in extra]
    return numbers if len(numbers) > 1 else sorted({*EPSILONS, *numbers})


def note_features(file: Path) -> None:
    """Note that the plan's table of features is missing; commands that need it refuse, others continue."""
    if (name := missing_features(file)) is not None:
        say(f"note: the plan's table of features is missing: no {name} beside {file.name}", err=True)


def _changed(plan: Plan, changes: dict[str, Any], epsilons: list[float] | None) -> Plan:
    """Give the plan with the options applied; one ε replaces the plan's, several are only for the table."""
    if "n_items" in changes:
        changes = {**changes, "catalog": CatalogKey(hash=plan.catalog.hash, n_items=changes["n_items"])}
        del changes["n_items"]
    if epsilons and len(epsilons) == 1:
        changes = {**changes, "epsilon": epsilons[0]}
    return plan.with_(**changes) if changes else plan


def release_lines(plan: Plan) -> list[str]:
    """Describe what would leave, by which mechanism, and at what price."""
    spec, honest = plan.spec, plan.parameters.honest
    holder = {"person": "a person with everything recorded about them", "visit": "one visit"}[plan.unit.holder]
    lines = [f"Mechanism: {spec.mechanism}" + (f", chosen by auto.\n  {spec.reason}" if spec.reason else ".")]
    if spec.rows is None:
        lines.append("What would leave, once: a number of rows that private data decide. NOT private.")
    else:
        shapes = ", ".join(f"{one.name} {' x '.join(f'{size:,}' for size in one.shape)}" for one in spec.arrays)
        lines.append(f"What would leave an entity, once: {shapes}, whole numbers, {array_bytes(plan):,} bytes,")
        lines.append(f"  and a header of public text; never more than {message_limit(plan):,} bytes.")
    if not spec.private:
        return [*lines, "Price: infinite. This mechanism has no proof; for simulations only."]
    noise, law = spec.noise, spec.noise.law.capitalize()
    extra = f", {noise.observed:,.4g} on a number of observations" if noise.observed else ""
    operated = plan.parameters.operators
    whose = "Noise of each operator" if operated else "Noise of one entity's share" if honest else "Noise"
    lines.append(
        f"{whose}: {law}, standard deviation {noise.values:,.4g} on a sum, {noise.counts:,.4g} on a count{extra}."
    )
    if operated and spec.sum is not None:
        total = spec.sum.total_deviation(plan.n_entities) / spec.sum.operator_deviation
        lines.append(f"  In the published sum, with all noise in it: {total * noise.values:,.4g} on a sum.")
        lines.append("  An entity adds no noise." if not honest else "  An entity adds its share of one more.")
    elif honest:
        values, counts = (math.sqrt(plan.n_entities) * one for one in (noise.values, noise.counts))
        sees = "the server sees" if plan.operators is None else "the operators see"
        where = f"  In the sum of all {plan.n_entities:,}, which {sees}"
        lines.append(f"{where}: {values:,.4g} on a sum, {counts:,.4g} on a count.")
        counted = math.sqrt(honest) * noise.values
        lines.append(f"  Of the {honest:,} shares that the price and the card count on: {counted:,.4g} on a sum.")
    lines.append(f"Hidden: {holder}; price {brief(cost_of(plan.budget))} when one is added or removed,")
    lines.append(f"  {brief(cost_of(plan.budget.replace_one()))} when one is replaced by another.")
    if plan.operators is not None:
        lines += _operator_lines(plan)
    elif honest and spec.sum is not None:
        enough = needed(honest) if honest == 1 else f"{needed(honest)}, suffices"
        lines.append(f"Secure sum: the server sees only the sum. The noise of {enough}.")
        lines.append(f"  {_colluders_sentence(plan.secure.colluders if plan.secure else 0)}")
        alone = spec.sum.alone_epsilon
        said = f"ε = {rounded_up(Fraction(str(alone)))}." if math.isfinite(alone) else "nothing is promised."
        lines.append(f"  One message alone, if all others collude with the server: {said}")
    lines.append(f"What this rests on: {trust_of(plan)}")
    lines += [f"WEAK: {reason}" for reason in weak_promise(plan.epsilon, plan.delta, plan.counted_users)]
    if plan.unit.entities > 1:
        lines.append(f"  Found in up to {plan.unit.entities} entities: {brief(cost_of(plan.across))} in all.")
    if plan.simulation:
        lines.append("Simulation: seeds are allowed and everything is marked not private.")
    return lines


def trust_of(plan: Plan) -> str:
    """Say in one paragraph what the promise of a plan rests on."""
    if plan.secure is None or plan.spec.sum is None:
        return trust_paragraph()
    alone = plan.spec.sum.alone_epsilon
    said: dict[str, Any] = {
        "entities": plan.expected_entities,
        "honest": plan.parameters.honest,
        "colluders": plan.secure.colluders,
        "epsilon": rounded_up(Fraction(plan.epsilon)),
        "alone": rounded_up(Fraction(str(alone))) if math.isfinite(alone) else "infinite",
    }
    if plan.operators is not None:
        return Operated.of(describe(plan), [plan.spec.event]).paragraph(**said)
    return trust_paragraph(sharing="peers", **said)


def _operator_lines(plan: Plan) -> list[str]:
    """Describe a sum of two operators: its floor, and the ε that is left under every coalition."""
    assert plan.operators is not None
    lines = [f"Two operators: they publish one sum, of at least {plan.operators.floor:,} entities."]
    for one in plan.coalitions:
        said = f"ε = {rounded_up(one.epsilon)}" if one.kept else "nothing is promised, the exact sums are open"
        lines.append(f"  Against {one.who}: {said} ({one.why}).")
    if plan.people:
        lines.append("  That a person takes part is seen: ε hides what was sent, against a report of zeros.")
    return lines


def _colluders_sentence(colluders: int) -> str:
    who = {0: "the server", 1: "the server together with 1 dishonest participant"}.get(
        colluders, f"the server together with {colluders} dishonest participants"
    )
    return f"The price holds against {who}, whatever they do, and against any other who only reads."


def release_record(plan: Plan) -> dict[str, Any]:
    """Give the same as plain JSON.

    Examples
    --------
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=457), feedback="counts", bound=5, max_items=60)
    >>> record = release_record(plan)
    >>> record["mechanism"], record["arrays"], record["bytes"]
    ('gram', {'numbers': (105111,)}, 840888)
    """
    spec, honest = plan.spec, plan.parameters.honest
    sized = spec.rows is not None
    record: dict[str, Any] = {name: getattr(spec, name) for name in ("mechanism", "reason", "private")}
    record["arrays"] = {one.name: one.shape for one in spec.arrays} if sized else None
    record |= {"numbers": spec.numbers, "bytes": array_bytes(plan) if sized else None}
    record["most_bytes"] = message_limit(plan)
    prices = {"guarantee": plan.budget, "replace_one": plan.budget.replace_one(), "across": plan.across}
    for name, price in prices.items():
        delta = float(getattr(price, "delta", 0))
        record[name] = {"epsilon": float(price.epsilon), "delta": delta} if spec.private else None
    alone = spec.sum.alone_epsilon if plan.parameters.summed and spec.sum else None
    record |= {"alone": "infinite" if alone == math.inf else alone, "honest": honest}
    record["colluders"] = None if plan.secure is None else plan.secure.colluders
    record["coalitions"] = [
        {"who": one.who, "epsilon": float(one.epsilon) if one.kept else "infinite", "noise": one.why}
        for one in (plan.coalitions if spec.private else ())
    ]
    record["trust"] = trust_of(plan) if spec.private else None
    record["weak"] = list(weak_promise(plan.epsilon, plan.delta, plan.counted_users)) if spec.private else []
    return record | {"units": asdict(spec.units), "noise": asdict(spec.noise)}


def plan_lines(plan: Plan) -> list[str]:
    """Give every field of a plan, one per line."""
    record = plan.as_dict() | {"epsilon": f"{plan.epsilon}", "delta": f"{float(plan.delta):g}"}
    record["catalog"] = f"{plan.n_items:,} items, hash {plan.catalog.hash[:12]}"
    where = "one entity only" if plan.unit.entities == 1 else f"up to {plan.unit.entities} entities"
    record["unit"] = f"{plan.unit.holder}, found in {where}, {plan.unit.adjacency}"
    record["entities"] = ", ".join(plan.entities) or "any"
    if plan.features is not None:
        record["features"] = f"{plan.features.n_features} public features, hash {plan.features.hash[:12]}"
    if plan.secure is not None:
        given = {name: value for name, value in plan.secure.as_dict().items() if value not in (None, "", False)}
        record["secure"] = ", ".join(f"{name} {str(value)[:12]}" for name, value in given.items())
    if plan.roster is not None:
        count = plan.roster.n_operators
        operators = f" and {count} operator{'' if count == 1 else 's'}" if count else ""
        named = f"public keys of {plan.roster.n_entities:,} entities{operators}"
        record["roster"] = f"{named}, hash {plan.roster.hash[:12]}"
    record["quorum"] = _quorum(plan)
    wide = max(map(len, record))
    words = {None: "-", True: "yes", False: "no"}
    told = {name: words[one] if one is None or isinstance(one, bool) else one for name, one in record.items()}
    return [f"{name:<{wide}}  {one}" for name, one in told.items()]


def _quorum(plan: Plan) -> str:
    """Say how many messages are needed, and where a secure sum needs more than the quorum."""
    messages = "message" if plan.quorum == 1 else "messages"
    said = f"{plan.quorum:,} {messages} or more"
    for kind, name, least in (
        (plan.operators, "floor", 0 if plan.operators is None else plan.operators.floor),
        (plan.peers, "survivors", 0 if plan.peers is None else plan.peers.survivors),
    ):
        if kind is not None and least > plan.quorum:
            return f"{said}; the secure sum needs {least:,} ({name}), and that decides"
    return said


# --- prototypes: signal over noise, both laws ---


def _rows(public: ReleaseParameters, judge: Judge, epsilons: Sequence[float]) -> list[Usefulness]:
    deltas = (0, public.delta or _USUAL_DELTA)
    return [judge(public.with_(epsilon=epsilon, delta=delta)) for epsilon in epsilons for delta in deltas]


def _public_record(public: ReleaseParameters) -> dict[str, Any]:
    numbers = {name: getattr(public, name) for name in (*_NEEDED, "n_entities")}
    return {"public": numbers | {"bound": public.value_cap, "delta": float(public.delta), "honest": public.honest}}


def _row_record(row: Usefulness) -> dict[str, Any]:
    return asdict(row) | {"mechanism": row.law.capitalize(), "guess": best_guess(row.epsilon, row.delta)}


def _prototype_record(plan: Plan, epsilons: Sequence[float]) -> dict[str, Any]:
    rows = _rows(plan.parameters, plan.release_mechanism.usefulness, epsilons) if plan.spec.private else []
    return _public_record(plan.parameters) | {"rows": [_row_record(row) for row in rows]}


def _show_prototypes(public: ReleaseParameters, rows: Sequence[Usefulness]) -> None:
    title = "Noise against signal, from public numbers only"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("ε", "best\nguess", "noise", "on a\nsum", "on a\nmean", "one\nnumber", "patterns", "profile"):
        table.add_column(name, justify="left" if name == "noise" else "right", no_wrap=True)
    table.add_column("useful?")
    for index, row in enumerate(rows):
        ratios = [_range(one) for one in (row.number, row.patterns, row.profile)]
        sizes = [_short(row.noise), _short(row.noise_on_mean)]
        guess = percent(best_guess(row.epsilon, row.delta))
        cells = [f"{row.epsilon:.3g}", guess, row.law.capitalize(), *sizes, *ratios, row.verdict]
        table.add_row(*cells, end_section=index % 2 == 1)
    console = Console()
    console.print(table)
    console.print(_prototype_legend(public, rows), highlight=False)


def _range(ratio: Range | None) -> str:
    return "-" if ratio is None else f"{_thousands(ratio.low)}-{_thousands(ratio.high)}"


def _thousands(number: float) -> str:
    """Shorten a number for a table of nine columns; beyond a thousand, digits say nothing."""
    return _short(number) if number < 999.5 else f"{number / 1000:,.2g}k" if number < 99_500 else f"{number:.0e}"


def _short(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if number >= 99.5 else f"{number:.{1 if number < 0.0995 else 2}g}"


def _prototype_legend(public: ReleaseParameters, rows: Sequence[Usefulness]) -> str:
    reasons = dict.fromkeys(f"  {row.verdict}: {row.reason}." for row in rows)
    near = min(rows, key=lambda row: (abs(row.epsilon - 1), row.users_needed))
    delta = max(row.delta for row in rows)
    return "\n".join(
        [
            f"best guess: how often an attacker is right about one person, from even odds; Gaussian at δ = {delta:g}.",
            f"on a sum, on a mean: standard deviation of the noise; an entry is at most {public.value_cap:g}.",
            "Signal over noise, users of a prototype with little in common - exactly alike; below 1, noise hides it:",
            "  one number: a single released sum; patterns: the prototypes, all entities factorized together;",
            "  profile: everything added up, that is, which items are frequent.",
            *reasons,
            f"At ε = {near.epsilon:g} ({near.law.capitalize()}), noise hides patterns below {near.users_needed:,} "
            "users per entity.",
        ]
    )


# --- statistics: the share that the noise hides ---


def _at(plan: Plan, epsilon: float, *, own: bool = False) -> Usefulness:
    """Judge at some ε; with `own`, as if every entity added the whole noise."""
    public = plan.parameters if epsilon == float(plan.epsilon) else plan.parameters.with_(epsilon=epsilon)
    return plan.release_mechanism.usefulness(public.with_(honest=0, operators=0) if own else public)


def _statistic_record(plan: Plan, epsilons: Sequence[float]) -> dict[str, Any]:
    rows = []
    for epsilon in epsilons:
        own = _at(plan, epsilon, own=True).share if plan.parameters.summed else None
        judged = _at(plan, epsilon)
        row = {name: getattr(judged, name) for name in ("epsilon", "delta", "share", "limit", "users_needed")}
        row |= {
            "verdict": _useful(plan, judged),
            "mechanism": plan.spec.mechanism,
            "own_noise": own,
            "reconstruction_bound": _bound(plan, judged),
        }
        guess = best_guess(epsilon, float(plan.delta))
        rows.append(row | {"guess": guess, "of_the_plan": epsilon == float(plan.epsilon)})
    return _public_record(plan.parameters) | {"rows": rows, "verdict": " ".join(_statistic_verdict(plan))}


def _useful(plan: Plan, found: Usefulness) -> str:
    """The verdict on one ε; where the prediction is nothing, the table says so too."""
    public = plan.parameters.with_(epsilon=found.epsilon)
    nothing = predict(public, found, pairs=plan.spec.mechanism == "gram").word == "nothing"
    return "no" if nothing else found.verdict


def _show_statistic(plan: Plan, epsilons: Sequence[float]) -> None:
    """Print the table, what its columns mean, and the verdict on the plan's own ε."""
    secure, name = plan.parameters.summed, plan.spec.mechanism
    whose = "of the secure sum" if secure else "that every entity adds, in all of them together"
    entities = "entity" if plan.n_entities == 1 else "entities"
    say(f"{name}: the noise {whose}, against")
    say(f"{plan.n_users:,} promised users in each of {plan.n_entities:,} {entities}, from public numbers only")
    names = ["", "ε", "best\nguess", "hidden\nbelow", *(["with own\nnoise"] if secure else []), "clear from\nusers"]
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in names:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("useful?", no_wrap=True)
    for epsilon in epsilons:
        found, mark = _at(plan, epsilon), "plan >" if epsilon == float(plan.epsilon) else ""
        own = [_share(_at(plan, epsilon, own=True).share)] if secure else []
        guess = percent(best_guess(epsilon, float(plan.delta)))
        needed = f"{found.users_needed:,}"
        table.add_row(mark, f"{epsilon:.3g}", guess, _share(found.share), *own, needed, _useful(plan, found))
    Console().print(table)
    limit = f"{100 * _at(plan, float(plan.epsilon)).limit:g} %"
    lines = [
        f"best guess: how often an attacker is right about one person, from even odds; δ = {float(plan.delta):g}.",
        "hidden below: patterns that explain less than this share of users' total variation cannot be detected.",
        *(["with own noise: the same without the secure sum."] if secure else []),
        f"clear from users: promised users of an entity from which on at most {limit} is hidden.",
        f"useful? perhaps: at most {limit} is hidden, up to which auto calls {name} of {plan.feedback} clear",
        "  of its noise; hardly: more; no: even which items are frequent.",
        "",
        *_statistic_verdict(plan),
    ]
    say("\n".join(lines))


def _bound(plan: Plan, judged: Usefulness) -> float | None:
    """Part of rows' squared length that noise costs the plan's directions at most; None where nothing is proved.

    Messages that each have their own noise are weighted by noisy sizes, which public numbers do not tell.
    """
    proved = plan.spec.mechanism == "gram" and plan.feedback == "counts" and judged.law == "gaussian"
    proved &= plan.parameters.summed or plan.n_entities == 1
    return reconstruction_bound(judged.share, plan.rank, n_items=plan.n_items) if proved else None


def _bound_lines(plan: Plan, judged: Usefulness) -> list[str]:
    found = _bound(plan, judged)
    if found is None:
        return []
    if found >= 1:
        return [
            f"Bound: noise may cost {plan.rank} shared directions everything; there is no useful bound for this plan."
        ]
    cost = f"at most {rounded_up(Fraction(100 * found))} % of rows' squared length"
    return [f"Bound: noise costs {plan.rank} shared directions {cost}, with 95 % certainty."]


def _share(share: float) -> str:
    """Give a share in percent; from 1 on, nothing can be seen."""
    return "all" if share >= 1 else f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def _statistic_verdict(plan: Plan) -> list[str]:
    found = _at(plan, float(plan.epsilon))
    price, limit, share = f"At ε = {float(plan.epsilon):g}", f"{100 * found.limit:g} %", _share(found.share)
    if found.clear:
        said = [
            f"{price} patterns above {share} can be seen: clear of the noise by the limit of auto ({limit}).",
            "That is necessary, not sufficient: public numbers cannot say whether the data have such patterns.",
        ]
    else:
        seen = "no pattern can be seen" if found.share >= 1 else f"only patterns above {share} can be seen"
        more = f"from {found.users_needed:,} users per entity, or with more entities"
        said = [
            f"{price} {seen}: not clear of the noise by the limit of auto ({limit}).",
            f"It would be {'with more people' if plan.people else more}, or at a larger ε.",
        ]
    return [*said, *_bound_lines(plan, found), _WHERE]
