"""Options of the formats people already have, for every verb that reads an entity's data."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_type_hints

import typer

from twofold.errors import DataError, Set

if TYPE_CHECKING:
    from twofold.data.catalog import Catalog
    from twofold.data.ratings import Feedback, Ratings

__all__ = ["Events", "Rows", "classes", "with_formats"]


@dataclass(frozen=True)
class Events:
    """What --meds, --omop or --recbole names, read when the catalog is known; of OMOP, its tables in words."""

    option: str
    path: Path | None
    reader: Callable[[Catalog, Feedback], Ratings]
    tables: str = ""

    def read(self, catalog: Catalog, feedback: Feedback) -> Ratings:
        """Read it against a catalog, as counts or ratings."""
        if feedback != "counts" and self.option != "recbole":
            raise DataError(
                "{parameter} gives counts of events, and ratings are asked for.",
                expected="a plan whose feedback is counts",
                fix=Set("feedback", "counts"),
                parameter=self.option,
            )
        return self.reader(catalog, feedback)


#: What a verb gets for its data: the path of a table, or another format.
Rows = Path | Events

_OPTIONS: Final[dict[str, Any]] = {
    "meds": Annotated[Path | None, typer.Option("--meds", help="In place of a table: a MEDS folder.")],
    "codes": Annotated[
        list[str] | None,
        typer.Option("--codes", help="With --meds: only codes that begin so, as LAB//; repeat for more."),
    ],
    "omop": Annotated[
        str | None, typer.Option("--omop", help="In place of a table: an OMOP database, a URL or a file.")
    ],
    "table": Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="With --omop: a table, and a class to roll it up to: drug_exposure='ATC 3rd'; repeat.",
        ),
    ],
    "care_site": Annotated[int | None, typer.Option("--care-site", help="With --omop: only visits at this site.")],
    "people": Annotated[
        str | None, typer.Option("--people", help="With --omop: a SELECT that gives the person_id of those who count.")
    ],
    "schema": Annotated[str | None, typer.Option("--schema", help="With --omop: schema of the tables.")],
    "vocabulary": Annotated[
        str | None, typer.Option("--vocabulary", help="With --omop: schema of the vocabulary, if it is another.")
    ],
    "show_sql": Annotated[bool, typer.Option("--show-sql", help="With --omop: print the SQL, read nothing, end.")],
    "since": Annotated[
        str | None, typer.Option("--since", help="With --meds, --omop: from this day on, as 2025-01-01.")
    ],
    "before": Annotated[str | None, typer.Option("--before", help="With --meds, --omop: before this day.")],
    "recbole": Annotated[Path | None, typer.Option("--recbole", help="In place of a table: an .inter file.")],
}
#: Options that only a table has.
_OF_TABLES: Final = ("user", "item", "value", "duplicates", "unknown_items", "missing", "separator", "decimal")
#: Which options go with which format.
_GO_WITH: Final = {
    "meds": ("codes", "since", "before"),
    "omop": ("table", "care_site", "people", "schema", "vocabulary", "show_sql", "since", "before"),
    "recbole": (),
}


def with_formats(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb with a parameter `data` take --meds, --omop and --recbole instead; it gets `Rows`."""
    hints = get_type_hints(verb, include_extras=True)
    own = inspect.signature(verb).parameters
    required = own["data"].default is inspect.Parameter.empty

    @wraps(verb)
    def run(**given: Any) -> None:
        asked = {name: given.pop(name) for name in _OPTIONS}
        sources = [name for name in _GO_WITH if asked[name] is not None]
        if len(sources) + (given["data"] is not None) > 1:
            raise typer.BadParameter("give one of a table, --meds, --omop and --recbole")
        if not sources and required and given["data"] is None:
            raise typer.BadParameter("give a table, --meds FOLDER, --omop URL or --recbole FILE", param_hint="--data")
        _check_company(sources[0] if sources else None, asked)
        if sources:
            _check_table_options(sources[0], {name: given[name] for name in _OF_TABLES if name in given}, own)
            given["data"] = _events(sources[0], asked)
        verb(**given)

    kept = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints.get(one.name, one.annotation))
        for one in own.values()
    ]
    optional = Annotated[Path | None, get_args(hints["data"])[1]]
    every = [one.replace(annotation=optional, default=None) if one.name == "data" else one for one in kept]
    every += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if name == "show_sql" else None,
            annotation=annotation,
        )
        for name, annotation in _OPTIONS.items()
    ]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in every}
    return run


def _check_company(source: str | None, asked: dict[str, Any]) -> None:
    """Refuse an option that belongs to another format, rather than leave it out of account."""
    allowed = () if source is None else _GO_WITH[source]
    for name, value in asked.items():
        if name not in _GO_WITH and name not in allowed and value not in (None, False):
            wanted = [f"--{one}" for one, names in _GO_WITH.items() if name in names]
            raise typer.BadParameter(f"goes with {' or '.join(wanted)}", param_hint=f"--{name.replace('_', '-')}")


def _check_table_options(source: str, given: dict[str, Any], own: Any) -> None:
    for name, value in given.items():
        if value != own[name].default:
            raise typer.BadParameter(f"belongs to a table, not to --{source}", param_hint=f"--{name.replace('_', '-')}")


def classes(tables: list[str] | None) -> dict[str, str | None]:
    """Read ``drug_exposure=ATC 3rd`` and plain names of tables.

    Examples
    --------
    >>> classes(["drug_exposure=ATC 3rd", "measurement"])
    {'drug_exposure': 'ATC 3rd', 'measurement': None}
    """
    from twofold.data.formats.omop_sql import classes_of

    found: dict[str, str | None] = {}
    for text in tables or ["drug_exposure"]:
        name, mark, level = text.partition("=")
        found |= {name: level or None} if mark else classes_of([name])
    return found


def _events(source: str, asked: dict[str, Any]) -> Events:
    """Take the options of one format together; with --show-sql print the statements and end."""
    if source == "meds":
        from twofold.data.formats.meds import read_meds

        window = {"since": asked["since"], "before": asked["before"]}
        folder, codes = asked["meds"], asked["codes"] or ()
        return Events("meds", None, lambda catalog, _: read_meds(folder, catalog, codes=codes, **window))
    if source == "recbole":
        from twofold.data.formats.recbole import read_recbole

        file = asked["recbole"]
        return Events("recbole", file, lambda catalog, feedback: read_recbole(file, catalog, feedback=feedback))
    from twofold.data.formats.omop import omop_sql, read_omop

    names = ("since", "before", "care_site", "people", "schema", "vocabulary")
    given: dict[str, Any] = {"tables": classes(asked["table"])} | {name: asked[name] for name in names}
    if asked["show_sql"]:
        typer.echo(";\n\n".join(omop_sql(asked["omop"], **given)) + ";")
        raise typer.Exit
    file = Path(asked["omop"].rpartition(":///")[2])
    tables = ", ".join(name + (f" as {level}" if level else "") for name, level in classes(asked["table"]).items())
    return Events("omop", file, lambda catalog, _: read_omop(asked["omop"], catalog, **given), tables)
