"""RecBole's atomic files: tables whose header gives every column a type, as ``user_id:token``.

Format: https://recbole.io/docs/user_guide/data/atomic_files.html
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from twofold.data.catalog import Catalog
from twofold.data.files import file_format, our_errors, read_file
from twofold.data.formats.counts import require_public
from twofold.data.ratings import Feedback, Ratings
from twofold.data.read import DuplicateRule, UnknownRule, read_ratings
from twofold.errors import BadIdentifier, MissingColumn, UnreadableSource

__all__ = ["read_recbole", "recbole_catalog"]

TYPES: Final = ("token", "token_seq", "float", "float_seq")


def read_recbole(
    path: str | Path,
    catalog: Catalog,
    *,
    feedback: Feedback = "ratings",
    user: str = "user_id",
    item: str = "item_id",
    value: str | None = None,
    duplicates: DuplicateRule | None = None,
    unknown_items: UnknownRule = "error",
    separator: str = "\t",
) -> Ratings:
    r"""Read an interaction file (``.inter``) of RecBole.

    Privacy
    -------
    As `read_ratings`, which reads the rows.

    Parameters
    ----------
    path : str or Path
        The file; may be gzipped.
    catalog : Catalog
        The agreed item list; `recbole_catalog` reads one from an ``.item`` file.
    feedback : {"ratings", "counts"}
        Ratings take the column `value`; counts count rows unless a `value` is named.
    user, item : str
        Names of the columns without their types, which must be ``token``.
    value : str, optional
        Name of a column of type ``float``; ``rating`` by default if `feedback` is ratings.
    duplicates : {"error", "sum", "mean", "last"}, optional
        Several rows for one user and item; "sum" by default if rows are counted, else "error".
    unknown_items : {"error", "drop"}
        Rows whose item is not in the catalog.
    separator : str
        Field separator; a tab by default, as in RecBole.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "toy.inter")
    ...     _ = file.write_text("user_id:token\titem_id:token\trating:float\n1\t17\t4.5\n2\t17\t3\n")
    ...     read_recbole(file, Catalog([17, 18])).of(1)
    {17: 4.5}
    """
    if value is None and feedback == "ratings":
        value = "rating"
    header = _header(Path(path), separator)
    rule: DuplicateRule = "sum" if value is None else "error"
    return read_ratings(
        path,
        catalog,
        user=_column(header, user, "token", "user"),
        item=_column(header, item, "token", "item"),
        value=None if value is None else _column(header, value, "float", "value"),
        feedback=feedback,
        duplicates=rule if duplicates is None else duplicates,
        unknown_items=unknown_items,
        separator=separator,
    )


def recbole_catalog(
    path: str | Path, *, title: str | None = None, item: str = "item_id", separator: str = "\t", public: bool = False
) -> Catalog:
    r"""Make a catalog from the item file (``.item``) of a published data set.

    Parameters
    ----------
    path : str or Path
        The file.
    title : str, optional
        Name of the column with the titles, without its type; by default the first whose name has title or name in it.
    item : str
        Name of the column with the ids, without its type.
    separator : str
        Field separator.
    public : bool
        That the list is public, as that of a published data set is. Without it there is an error.

    Privacy
    -------
    A list of only those items that people have used is made from their data. Say `public` of a publisher's list.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "toy.item")
    ...     _ = file.write_text("item_id:token\tmovie_title:token_seq\n17\tToy Story\n18\tJumanji\n")
    ...     recbole_catalog(file, public=True).features["title"].to_list()
    ['Toy Story', 'Jumanji']
    """
    require_public(public, "this list of items")
    header = _header(Path(path), separator)
    ids = _column(header, item, "token", "item")
    named = [name for name in header if "title" in name or "name" in name] if title is None else [title]
    frame = read_file(Path(path), None, separator=separator, text=(ids,), public=True)
    if not named:
        return Catalog(frame[ids].alias("item"))
    kind = header.get(named[0], "token")
    titles = frame[_column(header, named[0], kind, "title")].cast(pl.String).fill_null("")
    return Catalog(frame[ids].alias("item"), titles.alias("title").to_frame())


def _header(path: Path, separator: str) -> dict[str, str]:
    """Names of the columns to their types."""
    if file_format(path) not in ("csv", "csv.gz"):
        raise UnreadableSource(f"{path.name} is not a file of RecBole.", expected="a table of text", parameter="source")
    with our_errors(path.name):
        columns = pl.read_csv(path, separator=separator, n_rows=0, infer_schema=False).columns
    pairs = [name.rpartition(":") for name in columns]
    if not all(name and kind in TYPES for name, _, kind in pairs):
        raise UnreadableSource(
            f"{path.name} has no header of RecBole.",
            found="columns without a type",
            expected="user_id:token, item_id:token and so on, separated by tabs",
            fix="read_ratings, or --data, reads other tables",
            parameter="source",
        )
    return {name: kind for name, _, kind in pairs}


def _column(header: dict[str, str], name: str, kind: str, parameter: str) -> str:
    """The column in full, if it has the type it must have."""
    if name not in header:
        raise MissingColumn(
            "the file does not have this column.",
            found=f"{len(header)} columns with types",
            expected=f"a column {name}:{kind}",
            parameter=parameter,
        )
    if header[name] != kind:
        raise BadIdentifier(
            f"the column {name} has another type.",
            found=f"{name}:{header[name]}",
            expected=f"{name}:{kind}",
            parameter=parameter,
        )
    return f"{name}:{kind}"
