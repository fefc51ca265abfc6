"""`twofold recommend`: recommendations from a model on this machine."""

from __future__ import annotations

import io
import json as jsonlib
import re
from pathlib import Path
from typing import Annotated, Any, Final

import polars as pl
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from twofold.cli.options import Duplicates, ForceOption, Json, Missing, UnknownItems, read_items, refuse_output
from twofold.cli.progress import bars
from twofold.cli.scans import ScanData, is_scan, open_scan
from twofold.entity.model import Model
from twofold.errors import BadParameter, CatalogError, Set, TwofoldError
from twofold.storage.files import write_whole

__all__ = ["recommend"]

STDOUT: Final = Path("-")

History = Annotated[str | None, typer.Option(help="History of a new person: item=value,item=value or a JSON object.")]


def recommend(
    model: Annotated[Path, typer.Argument(help="A model made by `twofold personalize`.")],
    user: Annotated[str | None, typer.Option(help="A user id in the model.")] = None,
    history: History = None,
    everyone: Annotated[bool, typer.Option("--all", help="Recommend for every user, into a file.")] = False,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of items.")] = 10,
    items: Annotated[list[str] | None, typer.Option("--only", help="Only among these items; repeat for more.")] = None,
    seen: Annotated[bool, typer.Option("--seen/--unseen", help="Include items the user already has.")] = False,
    why: Annotated[bool, typer.Option("--why", help="Show which of the user's items led to each one.")] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file for --all: .parquet or .csv; - is standard output, as CSV."),
    ] = None,
    catalog: Annotated[
        Path | None,
        typer.Option("--catalog", help="The item list, for titles; by default items.csv beside the model, if it fits."),
    ] = None,
    data: ScanData = None,
    user_column: Annotated[str, typer.Option(help="With --data: column of the user ids.")] = "user",
    item_column: Annotated[str, typer.Option(help="With --data: column of the item ids.")] = "item",
    value_column: Annotated[str, typer.Option(help="With --data: column of the values; none counts rows.")] = "value",
    duplicates: Duplicates = "error",
    unknown_items: UnknownItems = "error",
    missing: Missing = "error",
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Recommend items to one user, to a new person, or to everyone. Nothing leaves this machine.

    Examples
    --------
    twofold recommend st-anna.model --user patient-17 -n 5 --why
    twofold recommend st-anna.model --history creatinine=3,heparin=1
    twofold recommend st-anna.model --all -o lists.csv
    twofold recommend st-anna.model --all --data 'visits/*.parquet' -o lists.parquet
    """
    if [user is not None, history is not None, everyone].count(True) != 1:
        raise typer.BadParameter("give one of --user, --history or --all")
    if everyone == (output is None) or (everyone and why):
        raise typer.BadParameter("--output belongs to --all, which needs it; --why does not go with --all")
    if data is not None and not (everyone and is_scan(data) and output is not None and output.suffix == ".parquet"):
        raise typer.BadParameter("a folder or a 'pattern' of Parquet files, with --all and -o FILE.parquet")
    if output is not None and output != STDOUT:
        refuse_output(output, (model, catalog), force=force)
        _check_ending(output)
    loaded = Model.load(model)
    allowed = None if items is None else [_as_item(loaded, text) for text in items]
    if data is not None and output is not None:
        columns = {"user": user_column, "item": item_column, "value": value_column}
        rules = {"duplicates": duplicates, "unknown_items": unknown_items, "missing": missing}
        found_in = open_scan(data, loaded.catalog, loaded.history.feedback, **columns, **rules)
        with bars("recommending"):
            loaded.recommend_all(output, n, histories=found_in, exclude_seen=not seen, items=allowed)
        record = {"file": output.name, "n": n}
        typer.echo(jsonlib.dumps(record, indent=2) if json else f"{output}: up to {n} items for each user")
        return
    titles = _titles(loaded, model, catalog)
    if everyone and output is not None:
        _everyone(loaded, output, titles, n=n, items=allowed, seen=seen, json=json)
        return
    asked: Any = _as_user(loaded, user) if user is not None else _as_history(loaded, history or "")
    found = loaded.recommend(asked, n, exclude_seen=not seen, items=allowed)
    rows: list[dict[str, Any]] = [{"item": one.item, "score": one.score} for one in found]
    for row in rows if titles else ():
        row["title"] = titles[row["item"]]
    if why:
        for row in rows:
            row["why"] = loaded.explain(asked, row["item"]).words(titles)
    if json:
        typer.echo(jsonlib.dumps(rows, indent=2, default=str))
    else:
        _show(rows)


def _check_ending(output: Path) -> None:
    if output.suffix not in (".parquet", ".pq", ".csv"):
        raise BadParameter(
            "recommendations for everyone are written as Parquet or CSV.",
            found=f"a name that ends in {output.suffix or 'nothing'!r}",
            expected="a name that ends in .parquet or .csv, or - for standard output",
            parameter="output",
        )


def _everyone(
    loaded: Model, output: Path, titles: dict[Any, str], *, n: int, items: list[Any] | None, seen: bool, json: bool
) -> None:
    streamed = output.suffix in (".parquet", ".pq") and not titles
    with bars():
        given: dict[str, Any] = {"exclude_seen": not seen, "items": items}
        if streamed:
            loaded.recommend_all(output, n, **given)
        else:
            _write(loaded.recommend_all(None, n, **given), output, titles)
    if output == STDOUT:
        return
    record = {"file": output.name, "users": loaded.history.n_users, "n": n}
    typer.echo(jsonlib.dumps(record, indent=2) if json else f"{output}: up to {n} items for each user")


def _write(frame: pl.DataFrame, output: Path, titles: dict[Any, str]) -> None:
    """Write a table whole, readable by its owner; histories can be guessed from it."""
    if titles:
        frame = frame.with_columns(title=frame["item"].replace_strict(titles, default=None))
    if output == STDOUT:
        typer.echo(frame.write_csv(), nl=False)
        return
    buffer = io.BytesIO()
    if output.suffix == ".csv":
        frame.write_csv(buffer)
    else:
        frame.write_parquet(buffer)
    write_whole(output, buffer.getvalue(), mode=0o600)


def _titles(loaded: Model, model: Path, given: Path | None) -> dict[Any, str]:
    """Titles of the items by their ids, from the item list; empty if there is none."""
    beside = model.parent / "items.csv"
    if given is None and not beside.is_file():
        return {}
    try:
        found = read_items(given or beside)
    except TwofoldError:
        if given is not None:
            raise
        return {}  # another file of that name
    if found.hash != loaded.catalog.hash:
        if given is None:
            return {}
        raise CatalogError("this item list is not the model's.", found=repr(found), expected=repr(loaded.catalog))
    titles = found.titles
    return {} if titles is None else dict(zip(loaded.catalog.items, titles.fill_null(""), strict=True))


def _as_user(loaded: Model, text: str) -> Any:
    """Give the id in the type of the data: a model of whole-number ids takes 17 for "17"."""
    return _typed(text, loaded.history.user_ids.kind)


def _as_item(loaded: Model, text: str) -> Any:
    return _typed(text, loaded.catalog.items.kind)


def _as_history(loaded: Model, text: str) -> dict[Any, float]:
    pairs = _json_object(text) if text.lstrip().startswith("{") else _pairs(text)
    return {_as_item(loaded, item): value for item, value in pairs.items()}


def _typed(text: str, kind: str) -> Any:
    return int(text) if kind == "integer" and re.fullmatch(r"-?[0-9]{1,18}", text) else text


def _json_object(text: str) -> dict[str, float]:
    try:
        return {str(item): float(value) for item, value in jsonlib.loads(text).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise _not_a_history() from None


def _pairs(text: str) -> dict[str, float]:
    try:
        parts = [part.rsplit("=", 1) for part in text.split(",") if part.strip()]
        return {item.strip(): float(value) for item, value in parts}
    except ValueError:
        raise _not_a_history() from None


def _not_a_history() -> CatalogError:
    return CatalogError(
        "not a history.",
        expected="item=value,item=value",
        fix=Set("history", "creatinine=3,heparin=1"),
        parameter="history",
    )


def _show(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("item")
    table.add_column("score", justify="right", no_wrap=True)
    if rows and "title" in rows[0]:
        table.add_column("title")
    if rows and "why" in rows[0]:
        table.add_column("why")
    for row in rows:
        words = (str(row["item"]), f"{row['score']:.4f}", *(row[key] for key in ("title", "why") if key in row))
        table.add_row(*map(Text, words))  # not as markup: ids may hold brackets
    Console().print(table if rows else "nothing is left to recommend")
