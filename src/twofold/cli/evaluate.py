"""`twofold evaluate`: how good a model is on entries it has never seen, and whether joining paid."""

from __future__ import annotations

import io
import json as jsonlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
import polars as pl
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from twofold.cli.formats import Events, Rows, with_formats
from twofold.cli.options import (
    Decimal,
    Duplicates,
    Encoding,
    ForceOption,
    ItemColumn,
    Json,
    Local,
    Missing,
    Separator,
    Strength,
    UserColumn,
    ValueColumn,
    read_agreed,
    refuse_output,
    strength_of,
)
from twofold.cli.progress import bars
from twofold.data.ratings import Ratings
from twofold.data.read import DuplicateRule, MissingRule, UnknownRule, read_ratings
from twofold.data.split import Split, leave_n_out, recorded_holdout
from twofold.entity.evaluate import AGAINST, MODEL, Evaluation
from twofold.entity.evaluate import evaluate as evaluated
from twofold.entity.held_out import SHARE
from twofold.entity.model import Model
from twofold.errors import DataError
from twofold.federation.plan import Plan
from twofold.storage.files import write_whole

__all__ = [
    "Against",
    "Data",
    "Factors",
    "HoldOut",
    "LeaveOut",
    "Lists",
    "PlanFile",
    "Seed",
    "Test",
    "Unknown",
    "evaluate",
    "judged_model",
    "table_columns",
]

Data = Annotated[
    Rows | None,
    typer.Option(help="A table to hold entries out of; by default the histories in the model."),
]
Test = Annotated[
    Path | None, typer.Option(help="A later table, which the model has never seen; it is then judged as it is.")
]
Factors = Annotated[
    Path | None, typer.Option(help="The shared item factors of this model, such as items.round2; needed unless --test.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", help="The model's plan (TOML): the keys that signed the factors are with it.")
]
Against = Annotated[
    str,
    typer.Option(help="Baselines: alone, popularity, item-item, shared, shared-popularity, random."),
]
LeaveOut = Annotated[
    int | None, typer.Option("--leave-n-out", min=1, help="Hold out so many entries of everyone, never the last one.")
]
HoldOut = Annotated[
    float | None, typer.Option(min=0.0, max=1.0, help=f"Hold out this share of everyone's entries; {SHARE} by default.")
]
Unknown = Annotated[str, typer.Option(help="Rows whose item is not in the catalog: drop (and count) or error.")]
Lists = Annotated[int, typer.Option("-n", "--number", min=1, help="Length of the lists.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the split and of the intervals.")]
#: Columns of figures that fit side by side in 80 characters.
_ABREAST = 4
_AGAINST = ",".join(AGAINST)
#: Share of the model's items that may be missing from what was read, before other tables are suspected.
_OTHER_TABLES = 0.1
_ENDINGS = (".csv", ".parquet", ".json")


@with_formats
def evaluate(
    model: Annotated[Path, typer.Argument(help="A model made by `twofold personalize` or `join`.")],
    data: Data = None,
    test: Test = None,
    factors: Factors = None,
    plan: PlanFile = None,
    against: Against = _AGAINST,
    leave_out: LeaveOut = None,
    hold_out: HoldOut = None,
    n: Lists = 10,
    metrics: Annotated[
        str | None, typer.Option(help="Metrics, the deciding one first, such as recall,ndcg; see the docs for all.")
    ] = None,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: Unknown = "drop",
    missing: Missing = "error",
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    local: Local = "auto",
    strength: Strength = "auto",
    resamples: Annotated[int, typer.Option(min=2, help="Resamples of the bootstrap over people.")] = 1000,
    seed: Seed = 0,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File for the table: .csv, .parquet or .json.")
    ] = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Measure a model on entries it has never seen, beside baselines, and say whether joining paid.

    Either --test names a later table, or entries are held out and the model is fitted again to the rest.
    Nothing leaves this machine. The figures come from private data: keep them here.

    Examples
    --------
    twofold evaluate st-anna.model --plan plan.toml --factors items.round2
    twofold evaluate st-anna.model --test later.csv --against alone,popularity
    twofold evaluate st-anna.model --meds meds --since 2026-01-01 --plan plan.toml --factors items.round2
    """
    if output is not None:
        if output.suffix.lower() not in _ENDINGS:
            raise DataError(
                "the ending of the output is unknown.",
                found=output.suffix or "none",
                expected=", ".join(_ENDINGS),
                parameter="output",
            )
        refuse_output(output, (model, data, test, factors, plan), force=force)
    found = judged_model(
        Model.load(model),
        data=data,
        test=test,
        factors=factors,
        plan=None if plan is None else read_agreed(plan),
        against=against,
        leave_out=leave_out,
        hold_out=hold_out,
        seed=seed,
        columns=table_columns(user, item, value, duplicates, unknown_items, missing, separator, encoding, decimal),
        n=n,
        metrics=None if metrics is None else _listed(metrics),
        local=cast(Literal["auto", "factors", "item-item", "patterns", "features"], local),
        strength=strength_of(strength),
        resamples=resamples,
    )
    if output is not None:
        write_whole(output, _file(found, output.suffix.lower()), mode=0o600)
    if json:
        typer.echo(jsonlib.dumps(found.as_dict(), indent=2, ensure_ascii=False))
    else:
        _print(found)
        if output is not None:
            typer.echo(f"\n{output}: the table, with the difference to each baseline")


def judged_model(
    model: Model,
    *,
    data: Rows | None,
    test: Path | None,
    factors: Path | None,
    plan: Plan | None,
    against: str,
    leave_out: int | None,
    hold_out: float | None,
    seed: int,
    columns: dict[str, Any],
    **more: Any,
) -> Evaluation:
    """Read the tables that were named, split them as asked for, and evaluate with a bar of progress."""
    if test is not None and (data is not None or leave_out is not None or hold_out is not None):
        raise typer.BadParameter(
            "is judged as it is: --data, --leave-n-out and --hold-out do not go with it", param_hint="--test"
        )
    if leave_out is not None and hold_out is not None:
        raise typer.BadParameter("give one of --leave-n-out and --hold-out")
    later = None if test is None else _read(test, model, columns)
    split: Split[Ratings] | None = None
    read: tuple[str, ...] = ()
    if test is None:
        ratings = model.history if data is None else _read(data, model, columns)
        if isinstance(data, Events) and data.tables:
            read = _tables_read(data.tables, ratings, model)
        if leave_out is not None:
            split = leave_n_out(ratings, n=leave_out, rng=seed)
        else:
            share = SHARE if hold_out is None else hold_out
            split = recorded_holdout(ratings, users=1.0, probability=share, rng=seed)
    with bars():
        found = evaluated(
            model,
            split=split,
            test=later,
            factors=factors,
            plan=plan,
            against=_listed(against),
            seed=seed,
            **more,
        )
    return replace(found, caveats=(*read, *found.caveats))


def _tables_read(tables: str, ratings: Ratings, model: Model) -> tuple[str, ...]:
    """Name the tables of a database, and say where the model's histories have items that these do not give."""
    said = f"Read from the database: {tables}. A model does not know from which tables it was made."
    known, here = (np.unique(one.matrix.indices) for one in (model.history, ratings))
    missing = np.setdiff1d(known, here).size
    if missing <= _OTHER_TABLES * known.size:
        return (said,)
    return said, (
        f"WARNING: of {known.size:,} items in the model's histories, {missing:,} are in nobody's history here. If the "
        "model was made from more tables (--table) or other days, this judges another model: name the same."
    )


def table_columns(
    user: str,
    item: str,
    value: str,
    duplicates: str,
    unknown: str,
    missing: str,
    separator: str,
    encoding: str,
    decimal: str,
) -> dict[str, Any]:
    """Turn the options of a table into what `read_ratings` takes."""
    return {
        "user": user,
        "item": item,
        "value": None if value == "none" else value,
        "duplicates": cast(DuplicateRule, duplicates),
        "unknown_items": cast(UnknownRule, unknown),
        "missing": cast(MissingRule, missing),
        "separator": separator,
        "encoding": encoding,
        "decimal": decimal,
    }


def _read(path: Rows, model: Model, columns: dict[str, Any]) -> Ratings:
    if isinstance(path, Events):
        return path.read(model.catalog, model.history.feedback)
    return read_ratings(path, model.catalog, feedback=model.history.feedback, **columns)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _file(found: Evaluation, ending: str) -> bytes:
    if ending == ".json":
        return jsonlib.dumps(found.as_dict(), indent=2, ensure_ascii=False).encode() + b"\n"
    named = {"value": "gain", "low": "gain_low", "high": "gain_high", "error": "gain_error", "clear": "gain_clear"}
    apart = found.differences.rename({"against": "system"} | named).drop("n", "people")
    table = found.table.join(apart, on=["system", "history", "metric"], how="left", maintain_order="left")
    if ending == ".csv":
        return table.write_csv().encode()
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


def _print(found: Evaluation) -> None:
    console = Console(highlight=False)
    for line in (*found.first, *found.caveats):
        console.print(Text(line))
    for what, number in found.left_out.items():
        console.print(Text(f"Left out: {number:,} {what}."))
    for start in range(0, len(found.metrics), _ABREAST):
        console.print()
        some = found.metrics[start : start + _ABREAST]
        title = "" if start else f"Everyone, with intervals of {100 * found.level:g}%"
        table = _table(title, ["", *(found.name_of(metric) for metric in some)])
        for system in found.systems:
            table.add_row(system, *(_cell(found.of(system, metric)) for metric in some))
        console.print(table)
    if found.histories:
        console.print()
        named = [history.rpartition(" ")[0] for history in found.histories]
        table = _table(f"{found.name_of(found.metric)} by number of entries in a history", ["", *named])
        sizes = [found.of(MODEL, found.metric, history)["people"] for history in found.histories]
        table.add_row("people", *(f"{number:,}" for number in sizes))
        for system in found.systems:
            table.add_row(system, *(_cell(found.of(system, found.metric, history)) for history in found.histories))
        console.print(table)
    if found.differences.height:
        console.print()
        console.print(_differences(found))
    console.print(Text("\nThese figures come from private data without noise: keep them here."))


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title or None, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for at, name in enumerate(columns):
        table.add_column(name, justify="right" if at else "left", no_wrap=True)
    return table


def _differences(found: Evaluation) -> Table:
    title = f"{found.name_of(found.metric)}: the {MODEL} less a baseline, on the same people"
    table = _table(title, ["", "difference", "interval", "standard error", "clear"])
    rows = found.differences.filter((pl.col("history") == "all") & (pl.col("metric") == found.metric))
    for row in rows.iter_rows(named=True):
        span = "–" if row["low"] is None else f"{row['low']:+.4f} to {row['high']:+.4f}"
        error = "–" if row["error"] is None else f"{row['error']:.4f}"
        clear = {None: "–", True: "yes", False: "no"}[row["clear"]]
        table.add_row(row["against"], f"{row['value']:+.4f}", span, error, clear)
    return table


def _cell(row: dict[str, Any]) -> str:
    if row["value"] is None:
        return "–"
    return f"{row['value']:.3f}" + ("" if row["low"] is None else f"\n{row['low']:.3f}–{row['high']:.3f}")
