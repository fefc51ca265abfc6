"""Which column of a frame means what, remembered from fit to score."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import narwhals as nw

from twofold.data.read import DuplicateRule, UnknownRule

__all__ = ["Columns", "column_names"]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns, and the rules for odd rows.

    Examples
    --------
    >>> Columns(entity="hospital").named
    ['hospital', 'user', 'item', 'value']
    """

    entity: str = "entity"
    user: str = "user"
    item: str = "item"
    value: str | None = "value"
    duplicates: DuplicateRule = "error"
    unknown_items: UnknownRule = "error"

    @property
    def named(self) -> list[str]:
        """The columns that are read."""
        return [self.entity, self.user, self.item, *([] if self.value is None else [self.value])]

    def as_keywords(self) -> dict[str, Any]:
        """Give the arguments of `read_federation`."""
        return asdict(self)


def column_names(frame: Any, columns: Columns) -> list[str]:
    """All columns of a frame; of a file or a database those that were read.

    Examples
    --------
    >>> import polars as pl
    >>> column_names(pl.DataFrame({"a": [1], "b": [2]}), Columns())
    ['a', 'b']
    """
    found = nw.from_native(frame, pass_through=True)
    return list(found.collect_schema().names()) if isinstance(found, nw.DataFrame | nw.LazyFrame) else columns.named
