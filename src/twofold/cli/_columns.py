"""Options that several verbs share: which file, which columns, how to print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["CatalogFile", "DataFile", "ItemColumn", "Json", "Separator", "UserColumn", "ValueColumn"]

DataFile = Annotated[Path, typer.Argument(help="CSV, CSV.gz or Parquet file, one row per user and item.")]
CatalogFile = Annotated[Path, typer.Option("--catalog", help="The agreed item list, CSV or Parquet.")]
UserColumn = Annotated[str, typer.Option("--user", help="Column of the user ids.")]
ItemColumn = Annotated[str, typer.Option("--item", help="Column of the item ids.")]
ValueColumn = Annotated[str, typer.Option("--value", help="Column of the values; 'none' counts rows.")]
Separator = Annotated[str, typer.Option("--separator", help="Field separator of a CSV file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
