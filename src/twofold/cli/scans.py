"""`--data` of a folder or a pattern: Parquet files that are scanned, not read into memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from twofold.cli.formats import Events, Rows
from twofold.cli.options import read_table
from twofold.data.catalog import Catalog
from twofold.data.ratings import Feedback, Ratings
from twofold.data.read import DuplicateRule, MissingRule, UnknownRule
from twofold.data.scan import Scan, scan
from twofold.federation.plan import Plan

__all__ = ["ScanData", "is_scan", "open_data", "open_scan"]

_PATTERN: Final = re.compile(r"[*?\[]")
ScanData = Annotated[
    Path | None,
    typer.Option("--data", help="With --all: histories in a folder or 'pattern' of Parquet files, read out of core."),
]


def is_scan(data: Path) -> bool:
    """Whether a name is a folder, or a pattern of files, which is read out of core.

    Examples
    --------
    >>> is_scan(Path("visits/*.parquet")), is_scan(Path("visits.parquet"))
    (True, False)
    """
    return data.is_dir() or (bool(_PATTERN.search(str(data))) and not data.exists())


def open_data(data: Rows, plan: Plan, catalog: Catalog, **given: Any) -> Ratings | Scan:
    """Read an entity's table the way the plan says; a folder or a pattern of Parquet files is scanned."""
    if isinstance(data, Events) or not is_scan(data):
        return read_table(data, plan, catalog, **given)
    columns = {name: given[name] for name in ("user", "item", "value")}
    rules = {name: given[name] for name in ("duplicates", "unknown_items", "missing")}
    return open_scan(data, catalog, plan.feedback, **columns, **rules)


def open_scan(
    data: Path,
    catalog: Catalog,
    feedback: Feedback,
    *,
    user: str,
    item: str,
    value: str,
    duplicates: str,
    unknown_items: str,
    missing: str = "error",
) -> Scan:
    """Scan Parquet files with the options of the command line."""
    return scan(
        data,
        catalog,
        user=user,
        item=item,
        value=None if value == "none" else value,
        feedback=feedback,
        duplicates=cast(DuplicateRule, duplicates),
        unknown_items=cast(UnknownRule, unknown_items),
        missing=cast(MissingRule, missing),
    )
