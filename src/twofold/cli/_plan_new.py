"""`twofold plan new`: a commented plan file for a catalog."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli._columns import CatalogFile, Json, Separator
from twofold.cli._inputs import refuse_output
from twofold.cli._plan_new_checks import check_features, check_names, check_secure, print_notes, read_roster
from twofold.cli._plan_words import in_options
from twofold.cli._shell_words import in_shell_words, shell_words
from twofold.errors import BadPlan, TwofoldError
from twofold.privacy.unit import Unit

if TYPE_CHECKING:
    from twofold.data.catalog import Catalog
    from twofold.features import Features

__all__ = ["new_plan_file"]


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
        typer.Option(help="Public keys of an entity (twofold enroll), for a secure sum; repeat for all."),
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
    from twofold.protocol.features_file import save_features
    from twofold.protocol.plan_defaults import new_plan
    from twofold.protocol.plan_file import write_plan
    from twofold.protocol.secure import SecureSum

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
    try:
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
    except TwofoldError as error:
        raise in_shell_words(in_options(error)) from None
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

    with shell_words():
        return read_features(path, items, separator=separator)
