r"""What `twofold plan new` refuses at once or remarks on, before a plan is made: options that do not go together.

`twofold plan new`: a commented plan file for a catalog.

`twofold plan`: what a plan would release and whether it can be useful, before any data is touched.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from twofold.cli.options import CatalogFile, Json, Separator, listed, missing_features, refuse_output
from twofold.cli.plan_explain import (
    check_fit,
    check_numbers,
    leaving_lines,
    plan_lines,
    plan_numbers,
    show_worth,
    worth_record,
)
from twofold.errors import BadPlan
from twofold.federation.leaving import Leaving, leaving
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.plan_file import parse_plan, read_plan, read_toml, with_tables
from twofold.privacy.card import percent
from twofold.privacy.explain import BYTES, EPSILONS, Explanation, PublicNumbers, Range, Row, explain
from twofold.privacy.unit import Unit
from twofold.release.content import Kind

if TYPE_CHECKING:
    from twofold.data.catalog import Catalog
    from twofold.features import Features
    from twofold.federation.plan import Plan
    from twofold.identity.roster import Roster

__all__ = ["app", "check_features", "check_names", "check_secure", "new_plan_file", "print_notes", "read_roster"]

_NO_KEYS = "a secure sum needs --public-key of every entity"


def read_roster(paths: Sequence[Path]) -> Roster:
    """Join the public keys of all entities; a key that is given twice, or alone, is a slip."""
    from twofold.identity.roster import Roster

    parts = [_public_keys(path) for path in paths]
    names = [name for part in parts for name in part]
    roster = Roster.joined(parts)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadPlan(
            "the public keys of an entity are given twice.",
            found=listed(twice),
            expected="--public-key once for every entity",
            fix="leave one out, or name the file of the entity that was meant",
        )
    if len(roster) < 2:
        raise BadPlan(
            "one entity alone has nobody to hide among.",
            found=f"the public keys of {listed(names)} only",
            expected=f"{_NO_KEYS}, two at least",
            fix="--public-key st-anna.pub --public-key st-bern.pub, and so on; twofold keys new makes them",
        )
    return roster


def _public_keys(path: Path) -> Roster:
    """Read one file of public keys, and name it where it is none."""
    from twofold.identity.roster import Roster

    try:
        return Roster.read(path)
    except BadPlan as error:
        raise error.as_(BadPlan, found=f"--public-key {path.name}") from None


def check_names(roster: Roster, entities: Sequence[str], n_entities: int | None) -> None:
    """Refuse names and numbers of entities that are not those of the keys."""
    if strangers := [name for name in entities if name not in roster]:
        raise BadPlan(
            "an entity has no public keys.",
            found=f"--entity {listed(strangers)}",
            expected=f"names among the keys: {listed(list(roster))}",
            fix="--public-key of that entity too, or no --entity: the keys name the entities",
        )
    if entities and (rest := [name for name in roster if name not in entities]):
        raise BadPlan(
            "the entities are not those of the public keys.",
            found=f"keys of {listed(rest)}, without --entity",
            fix="leave --entity out: the keys name the entities",
        )
    if n_entities is not None and n_entities != len(roster):
        raise BadPlan(
            "there are not as many public keys as entities.",
            found=f"--n-entities {n_entities}, and {len(roster)} keys",
            expected="the public keys of every entity, and no other",
            fix="--public-key of the others too, or leave --n-entities out: the keys are counted",
        )


def check_secure(options: Mapping[str, object], *, keys: bool, counted: bool) -> None:
    """Refuse options of a secure sum where no secure sum is asked for, or nobody is known to take part."""
    given = [name for name, value in options.items() if value]
    if keys or not given:
        return
    if "--survivors" not in given:
        raise BadPlan(
            "an option of a secure sum without one.", found=", ".join(given), expected=_NO_KEYS, fix="--public-key FILE"
        )
    if not counted:
        raise BadPlan(
            f"{_NO_KEYS}.",
            found="no key",
            fix="--public-key st-anna.pub --public-key st-bern.pub, and so on from twofold keys new; --n-entities "
            "in their place for a plan that is only to be explained or simulated",
        )


def check_features(mechanism: str | None, features: Path | None) -> None:
    """Refuse the mechanism that needs a table of features without one."""
    if mechanism == "features" and features is None:
        raise BadPlan(
            "--mechanism features needs a public table of what the items are.",
            found="no --features",
            fix="--features kinds.csv with a column of the item ids and one of classes, or another --mechanism",
        )


def print_notes(plan: Plan, table: Features | None) -> None:
    """Say what is allowed and probably not meant; beside the output, so that JSON stays JSON."""
    for note in _notes(plan, table):
        typer.echo(f"note: {note}", err=True)


def _notes(plan: Plan, table: Features | None) -> Iterable[str]:
    if table is not None and (bare := plan.n_items - table.described):
        yield (
            f"{bare:,} of {plan.n_items:,} items have no features: no line in the table, an empty class or only zeros. "
            "Allowed; fill them in if more is publicly known"
        )
    secure = plan.secure
    if secure is not None and not secure.roster:
        yield f"{_NO_KEYS}; without keys this plan can be explained and simulated, not run"
    times = {"--deadline": plan.deadline, "--share-deadline": None if secure is None else secure.share_deadline}
    for option, text in times.items():
        if text is not None and datetime.fromisoformat(text) <= datetime.now(UTC):
            yield f"{option} {text} is in the past: the server would wait for nobody once enough have come"


def new_plan_file(
    file: Annotated[Path, typer.Argument(help="The plan file to write, as plan.toml.")],
    catalog: CatalogFile,
    item: Annotated[str | None, typer.Option(help="Column of the item ids in the catalog.")] = None,
    separator: Separator = ",",
    feedback: Annotated[str, typer.Option(help="counts (absent is zero) or ratings (absent is unknown).")] = "counts",
    bound: Annotated[float | None, typer.Option(help="Largest value of an entry; 5 by default.")] = None,
    lower: Annotated[
        float | None, typer.Option(help="Smallest value; 0 for counts and 1 for ratings by default.")
    ] = None,
    centre: Annotated[float | None, typer.Option(help="Value ratings are centred at; the middle by default.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Most items of one user; from the catalog by default.")] = None,
    l1_cap: Annotated[float | None, typer.Option(help="Largest l1 norm of one user's values.")] = None,
    l2_cap: Annotated[float | None, typer.Option(help="Largest Euclidean norm of one user's values.")] = None,
    n_prototypes: Annotated[int | None, typer.Option(help="Prototypes per entity; 10 by default.")] = None,
    rank: Annotated[int | None, typer.Option(help="Most factors; 20 by default.")] = None,
    regularization: Annotated[float | None, typer.Option(help="Penalty of the factorization.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Price of the release; 1 by default. 0.1 or 1/3 are exact.")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="The δ beside it; 1e-6 by default, 0 for pure ε.")] = None,
    mechanism: Annotated[str | None, typer.Option(help="auto, or a name; see docs/reference/mechanisms.md.")] = None,
    n_users: Annotated[int | None, typer.Option(help="Promised users per entity; never count them for this.")] = None,
    n_entities: Annotated[int | None, typer.Option(help="Entities expected to answer; 1 by default.")] = None,
    quorum: Annotated[int | None, typer.Option(help="Fewest entities the server goes on with.")] = None,
    deadline: Annotated[str | None, typer.Option(help="As 2027-01-31T12:00:00Z.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Name that may take part; repeat for more.")] = None,
    name: Annotated[str | None, typer.Option(help="Public name of the federation.")] = None,
    unit: Annotated[str, typer.Option(help="Whose presence is hidden: person or visit.")] = "person",
    unit_entities: Annotated[int, typer.Option(help="In how many entities the same one may be found.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Public seed of projections; never of noise.")] = None,
    features: Annotated[
        Path | None,
        typer.Option(help="Public table of what the items are: an item column and classes."),
    ] = None,
    public_key: Annotated[
        list[Path] | None,
        typer.Option(help="Public keys of an entity (twofold keys new), for a secure sum; repeat for all."),
    ] = None,
    survivors: Annotated[
        int | None, typer.Option(help="Secure sum: fewest messages in it; all but a tenth by default.")
    ] = None,
    present: Annotated[int, typer.Option(help="Secure sum: entities that must have shared keys; 0 for all.")] = 0,
    colluders: Annotated[int, typer.Option(help="Secure sum: entities that may work with the server.")] = 0,
    threshold: Annotated[int, typer.Option(help="Secure sum: answers that take masks off; 0 for survivors.")] = 0,
    most_alone: Annotated[str | None, typer.Option(help="Secure sum: largest ε of one message seen alone.")] = None,
    share_deadline: Annotated[str | None, typer.Option(help="Secure sum: as 2027-01-15T12:00:00Z.")] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="Seeds allowed, nothing private.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Write a commented plan file for a catalog, with sane defaults. Touches no data but the public item list."""
    from twofold.data.catalog import Catalog
    from twofold.federation.plan import new_plan
    from twofold.federation.plan_file import write_plan
    from twofold.federation.secure import SecureSum
    from twofold.federation.tables import save_features

    if file.exists() and not force:
        raise BadPlan("there is a file already.", found=file.name, fix="another name, or --force to write over it")
    check_features(mechanism, features)
    items = Catalog.read(catalog, item=item, separator=separator)
    table = None if features is None else _features(features, items, separator)
    asked: dict[str, object] = {"--survivors": survivors, "--present": present, "--colluders": colluders}
    asked |= {"--threshold": threshold, "--most-alone": most_alone, "--share-deadline": share_deadline}
    check_secure(asked, keys=bool(public_key), counted=bool(n_entities or entity))
    roster = None if not public_key else read_roster(public_key)
    if roster is not None:
        check_names(roster, entity or (), n_entities)
    secure = None
    if roster is not None or survivors is not None:
        number = len(roster) if roster is not None else n_entities or 1
        secure = SecureSum(
            survivors=survivors or number - number // 10,
            present=present,
            colluders=colluders,
            threshold=threshold,
            most_alone=most_alone,
            share_deadline=share_deadline,
            roster=roster or "",
        )
    made = new_plan(
        items,
        features=table,
        secure=secure,
        feedback=feedback,
        bound=bound,
        lower=lower,
        centre=centre,
        max_items=max_items,
        l1_cap=l1_cap,
        l2_cap=l2_cap,
        n_prototypes=n_prototypes,
        rank=rank,
        regularization=regularization,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        n_users=n_users,
        n_entities=n_entities or len(roster or entity or ()) or None,
        quorum=quorum,
        deadline=deadline,
        entities=tuple(entity or ()),
        name=name,
        unit=Unit(holder=unit, entities=unit_entities),  # type: ignore[arg-type]
        seed=seed,
        simulation=simulation,
    )
    # Not .keys, which is how secret ones are called.
    beside = {"features_file": file.with_suffix(".features"), "keys_file": file.with_suffix(".roster")}
    named = {key: path for key, path in beside.items() if _asked(key, table, roster)}
    for path in named.values():
        refuse_output(path, (file, catalog, features, *(public_key or ())))
        if path.exists() and not force:
            raise BadPlan("there is a file already.", found=path.name, fix="another name, or --force to write over it")
    if table is not None:
        save_features(table, beside["features_file"])
    if roster is not None:
        roster.write(beside["keys_file"])
    write_plan(made, file, catalog_file=catalog, **named)
    print_notes(made, table)
    if json:
        typer.echo(json_module.dumps({"file": file.name, "hash": made.hash, "plan": made.as_dict()}, indent=2))
    else:
        typer.echo(f"Wrote {file.name}: {made.n_items:,} items, plan {made.hash[:12]}.")
        if named:
            typer.echo(f"Beside it, for all sides as well: {', '.join(path.name for path in named.values())}.")
        typer.echo(f"Next: read it, agree on it, and see what it means: twofold plan explain {file.name}")


def _asked(key: str, table: object, roster: object) -> bool:
    return (table if key == "features_file" else roster) is not None


def _features(path: Path, items: Catalog, separator: str) -> Features:
    from twofold.data.features import read_features

    return read_features(path, items, separator=separator)


_TABLE = "The noise above is this plan's own. The table compares prices, as if all of each were spent on one release."

app = typer.Typer(no_args_is_help=True, help="Plans: the public numbers of a federation.")


app.command("new")(new_plan_file)


@app.command("show")
def show_plan(
    file: Annotated[Path, typer.Argument(help="A plan file.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Print the hash, every field, the mechanism that would run and the size of its message."""
    _note_features(file)
    plan = read_plan(file)
    found = leaving(plan)
    if json:
        record = {"hash": plan.hash, "plan": plan.as_dict(), "leaves": found.as_dict()}
        typer.echo(json_module.dumps(record, indent=2))
    else:
        typer.echo("\n".join([f"Plan {plan.hash}", "", *plan_lines(plan), "", *leaving_lines(plan, found)]))


@app.command("explain")
def explain_plan(
    file: Annotated[Path | None, typer.Argument(help="A plan file, or a TOML file with the numbers below.")] = None,
    n_items: Annotated[int | None, typer.Option(help="Length of the public catalog.")] = None,
    n_users: Annotated[int | None, typer.Option(help="Promised users per entity; never counted for this.")] = None,
    bound: Annotated[float | None, typer.Option(help="Largest value of one entry.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Most items one user may have.")] = None,
    n_prototypes: Annotated[int | None, typer.Option(help="Prototypes per entity.")] = None,
    n_entities: Annotated[int | None, typer.Option(help="How many entities take part; 1 by default.")] = None,
    delta: Annotated[float | None, typer.Option(help="The δ of Gaussian noise; 1e-6 by default.")] = None,
    epsilon: Annotated[list[float] | None, typer.Option(help="Repeat for more; 0.1, 1, 3 and 10 by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")] = False,
) -> None:
    """Say what would leave, how large the noise is against a public signal, and whether that can be useful.

    Touches no data and spends nothing. Options ask "what if" and change no file.
    """
    given = read_toml(file) if file else {}
    named = {"n_items": n_items, "n_users": n_users, "bound": bound, "max_items": max_items}
    named |= {"n_prototypes": n_prototypes, "n_entities": n_entities, "delta": delta}
    changes = {key: value for key, value in named.items() if value is not None}
    plan = None
    if file is not None and "schema" in given:
        _note_features(file)
        plan = _changed(with_tables(parse_plan(given), given, file.parent), changes, epsilon)
    leaves = leaving(plan) if plan else None
    kind = leaves.bilinear if leaves else None
    if plan and leaves and kind:
        _explain_bilinear(plan, leaves, kind, epsilon, json=json)
        return
    numbers = plan_numbers(plan) if plan else {**check_numbers(given), **changes}
    public = PublicNumbers.from_mapping(numbers)
    check_fit(public)
    found = explain(public, epsilons=epsilon or _epsilons(numbers))
    if json:
        typer.echo(json_module.dumps(found.as_dict() | _plan_record(plan, leaves), indent=2))
        return
    if plan and leaves:
        typer.echo("\n".join([*leaving_lines(plan, leaves), _TABLE, ""]))
    _show(found, with_plan=plan is not None)


def _explain_bilinear(plan: Plan, leaves: Leaving, kind: Kind, epsilons: list[float] | None, *, json: bool) -> None:
    """Judge the statistic that the plan sends: the table of prototypes says nothing about it."""
    if json:
        record = worth_record(plan, kind, epsilons) | _plan_record(plan, leaves)
        typer.echo(json_module.dumps(record, indent=2))
        return
    typer.echo("\n".join([*leaving_lines(plan, leaves), ""]))
    show_worth(plan, kind, epsilons)


def _plan_record(plan: Plan | None, leaves: Leaving | None) -> dict[str, Any]:
    """What a plan says exactly, in place of what bare numbers tell."""
    if plan is None or leaves is None:
        return {}
    size = {"numbers": leaves.numbers, "bytes": leaves.bytes}
    return {"leaves": size, "plan": {"hash": plan.hash, **leaves.as_dict()}}


def _note_features(file: Path) -> None:
    """Say that the plan's table of features is not there; whatever needs it is refused, the rest is shown."""
    if (name := missing_features(file)) is not None:
        typer.echo(f"note: the plan's table of features is missing: no {name} beside {file.name}", err=True)


def _changed(plan: Plan, changes: dict[str, Any], epsilons: list[float] | None) -> Plan:
    """The plan with what the options say instead; one ε is the plan's, several are only for the table."""
    if "n_items" in changes:
        key = CatalogKey(hash=plan.catalog.hash, n_items=changes["n_items"])
        changes = {**changes, "catalog": key}
        del changes["n_items"]
    if epsilons and len(epsilons) == 1:
        changes = {**changes, "epsilon": epsilons[0]}
    return plan.with_(**changes) if changes else plan


def _epsilons(given: Mapping[str, Any]) -> list[float]:
    """Show the plan's own ε among the usual ones."""
    own = given.get("epsilon")
    extra = own if isinstance(own, list) else [own] if own is not None else []
    if len(extra) > 1 or not all(isinstance(one, int | float) for one in extra):
        return [*extra]  # what is no number is refused by name further on
    return sorted({*EPSILONS, *extra})


def _show(found: Explanation, *, with_plan: bool) -> None:
    console = Console()
    if not with_plan:  # a plan has said it exactly
        console.print(_leaves(found.public), highlight=False)
    console.print(_table(found))
    console.print(_legend(found), highlight=False)


def _leaves(public: PublicNumbers) -> str:
    whom = "the entity" if public.n_entities == 1 else f"each of {public.n_entities} entities"
    return (
        f"What would leave {whom}, once: {public.numbers:,} numbers, {public.numbers * BYTES:,} bytes.\n"
        f"For each of {public.n_prototypes} prototypes a noisy sum per item ({public.n_items:,}) and a noisy count."
    )


def _table(found: Explanation) -> Table:
    title = "Noise against signal, from public numbers only"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("ε", "best\nguess", "noise", "on a\nsum", "on a\nmean", "one\nnumber", "patterns", "profile"):
        table.add_column(name, justify="left" if name == "noise" else "right", no_wrap=True)
    table.add_column("useful?")
    for index, row in enumerate(found.rows):
        table.add_row(*_cells(row), end_section=index % 2 == 1)
    return table


def _cells(row: Row) -> list[str]:
    ratios = [_range(row.number), _range(row.patterns), _range(row.profile)]
    sizes = [_short(row.noise), _short(row.noise_on_mean)]
    return [f"{row.epsilon:.3g}", percent(row.guess), row.mechanism, *sizes, *ratios, row.verdict]


def _range(ratio: Range) -> str:
    return f"{_thousands(ratio.low)}-{_thousands(ratio.high)}"


def _thousands(number: float) -> str:
    """Short enough for a table of nine columns; beyond a thousand the digits say nothing."""
    return _short(number) if number < 999.5 else f"{number / 1000:,.2g}k" if number < 99_500 else f"{number:.0e}"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 99.5 else f"{number:.{1 if number < 0.0995 else 2}g}"


def _legend(found: Explanation) -> str:
    public = found.public
    reasons = dict.fromkeys(f"  {row.verdict}: {row.reason}." for row in found.rows)
    near = min(found.rows, key=lambda row: (abs(row.epsilon - 1), row.users_needed))
    return "\n".join(
        [
            "best guess: how often an attacker is right about one person, from even odds"
            f"; Gaussian at δ = {public.delta:g}.",
            f"on a sum, on a mean: standard deviation of the noise; an entry is at most {public.bound:g}.",
            "Signal over noise, users of a prototype with little in common - exactly alike; below 1 it drowns:",
            "  one number: a single released sum; patterns: the prototypes, all entities factorized together;",
            "  profile: everything added up, that is, which items are frequent.",
            *reasons,
            f"At ε = {near.epsilon:g} ({near.mechanism}), patterns drown below {near.users_needed:,} users per entity.",
        ]
    )
