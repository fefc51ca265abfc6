"""`twofold recommend`: recommendations from a model on this machine."""

from __future__ import annotations

import json as jsonlib
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from twofold.cli.options import Json, bar, refuse_output
from twofold.entity.model import Model
from twofold.errors import CatalogError, Set

__all__ = ["recommend"]

History = Annotated[str | None, typer.Option(help="History of a new person: item=value,item=value or a JSON object.")]


def recommend(
    model: Annotated[Path, typer.Argument(help="A model made by `twofold personalize`.")],
    user: Annotated[str | None, typer.Option(help="A user id in the model.")] = None,
    history: History = None,
    everyone: Annotated[bool, typer.Option("--all", help="Recommend for every user, into a Parquet file.")] = False,
    n: Annotated[int, typer.Option("-n", "--number", min=1, help="Number of items.")] = 10,
    items: Annotated[list[str] | None, typer.Option("--only", help="Only among these items; repeat for more.")] = None,
    seen: Annotated[bool, typer.Option("--seen/--unseen", help="Include items the user already has.")] = False,
    why: Annotated[bool, typer.Option("--why", help="Show which of the user's items led to each one.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The Parquet file for --all.")] = None,
    json: Json = False,
) -> None:
    """Recommend items to one user, to a new person, or to everyone. Nothing leaves this machine."""
    if [user is not None, history is not None, everyone].count(True) != 1:
        raise typer.BadParameter("give one of --user, --history or --all")
    if output is not None:
        refuse_output(output, (model,))
    if everyone == (output is None) or (everyone and why):
        raise typer.BadParameter("--output belongs to --all, which needs it; --why does not go with --all")
    loaded = Model.load(model)
    allowed = None if items is None else [_as_item(loaded, text) for text in items]
    if everyone and output is not None:
        _everyone(loaded, output, n=n, items=allowed, seen=seen, json=json)
        return
    asked: Any = _as_user(loaded, user) if user is not None else _as_history(loaded, history or "")
    found = loaded.recommend(asked, n, exclude_seen=not seen, items=allowed)
    rows = [{"item": one.item, "score": one.score} for one in found]
    if why:
        for row in rows:
            row["why"] = str(loaded.explain(asked, row["item"]))
    if json:
        typer.echo(jsonlib.dumps(rows, indent=2, default=str))
    else:
        _show(rows)


def _everyone(loaded: Model, output: Path, *, n: int, items: list[Any] | None, seen: bool, json: bool) -> None:
    with bar("recommending") as progress:
        loaded.recommend_all(output, n, exclude_seen=not seen, items=items, progress=progress)
    record = {"file": output.name, "users": loaded.history.n_users, "n": n}
    typer.echo(jsonlib.dumps(record, indent=2) if json else f"{output}: up to {n} items for each user")


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
    table.add_column("score", justify="right")
    if rows and "why" in rows[0]:
        table.add_column("why")
    for row in rows:
        words = (str(row["item"]), f"{row['score']:.4f}", *([row["why"]] if "why" in row else []))
        table.add_row(*map(Text, words))  # not as markup: ids may hold brackets
    Console().print(table if rows else "nothing is left to recommend")
