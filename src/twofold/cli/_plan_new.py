"""`twofold plan new`: a commented plan file for a catalog."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli._columns import CatalogFile, Json, Separator
from twofold.cli._plan_words import in_options
from twofold.errors import BadPlan, TwofoldError
from twofold.privacy.unit import Unit

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
    mechanism: Annotated[str | None, typer.Option(help="auto, balcan, sulq, buckets or popularity.")] = None,
    n_users: Annotated[int | None, typer.Option(help="Promised users per entity; never count them for this.")] = None,
    n_entities: Annotated[int | None, typer.Option(help="Entities expected to answer; 1 by default.")] = None,
    quorum: Annotated[int | None, typer.Option(help="Fewest entities the server goes on with.")] = None,
    deadline: Annotated[str | None, typer.Option(help="As 2027-01-31T12:00:00Z.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Name that may take part; repeat for more.")] = None,
    name: Annotated[str | None, typer.Option(help="Public name of the federation.")] = None,
    unit: Annotated[str, typer.Option(help="Whose presence is hidden: person or visit.")] = "person",
    unit_entities: Annotated[int, typer.Option(help="In how many entities the same one may be found.")] = 1,
    seed: Annotated[int | None, typer.Option(help="Public seed of projections; never of noise.")] = None,
    simulation: Annotated[bool, typer.Option("--simulation", help="Seeds allowed, nothing private.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Write a commented plan file for a catalog, with sane defaults. Touches no data but the public item list."""
    from twofold.data.catalog import Catalog
    from twofold.protocol.plan_defaults import new_plan
    from twofold.protocol.plan_file import write_plan

    if file.exists() and not force:
        raise BadPlan("there is a file already.", found=file.name, fix="another name, or --force to write over it")
    items = Catalog.read(catalog, item=item, separator=separator)
    try:
        made = new_plan(
            items,
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
            n_entities=n_entities or (len(entity) if entity else None),
            quorum=quorum,
            deadline=deadline,
            entities=tuple(entity or ()),
            name=name,
            unit=Unit(holder=unit, entities=unit_entities),  # type: ignore[arg-type]
            seed=seed,
            simulation=simulation,
        )
    except TwofoldError as error:
        raise in_options(error) from None
    write_plan(made, file, catalog_file=catalog)
    if json:
        typer.echo(json_module.dumps({"file": file.name, "hash": made.hash, "plan": made.as_dict()}, indent=2))
    else:
        typer.echo(f"Wrote {file.name}: {made.n_items:,} items, plan {made.hash[:12]}.")
        typer.echo(f"Next: read it, agree on it, and see what it means: twofold plan explain {file.name}")


def _seen_from(catalog: Path, file: Path) -> str | None:
    """Name the catalog beside or below the plan file; a path of this machine only would tell others nothing."""
    try:
        return catalog.resolve().relative_to(file.resolve().parent).as_posix()
    except ValueError:
        return None
