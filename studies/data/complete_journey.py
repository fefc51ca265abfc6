"""The Complete Journey: a year of grocery purchases; a household's home store is its entity.

An item is a category, a type or a product, as asked; the publisher's list of products says which are in which.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import polars as pl

from studies.data.counted import counted
from twofold.data.catalog import Catalog, check_ids
from twofold.data.features import class_features
from twofold.data.federation import Federation
from twofold.data.files import read_file
from twofold.data.sources.published import Published, find_folder, need_table
from twofold.errors import BadValue, CatalogError, DataError, EmptyTable, UnreadableSource
from twofold.features import Features

__all__ = ["COMPLETE_JOURNEY", "Level", "features", "home_stores", "load"]

Level = Literal["category", "type", "product"]
COMPLETE_JOURNEY: Final = Published(
    title="The Complete Journey",
    page="https://www.dunnhumby.com/source-files/",
    licence="research use; simulated from the behaviour of real households, as its packagers say",
    citation="dunnhumby, The Complete Journey, source files",
    folder="complete-journey",
    files=("purchases.csv (columns household, store, product, quantity)", "products.csv (department, category, type)"),
)
#: What describes the items of a level: everything above it.
ABOVE: Final[dict[str, tuple[str, ...]]] = {
    "category": ("department",),
    "type": ("department", "category"),
    "product": ("department", "category", "type"),
}
#: Classes that become features. A column for each of 2,400 types would not fit beside 92,000 products.
_DESCRIBING: Final = ("department", "category")
#: Between several classes of one item. No name of the publisher's has it.
_SEPARATOR: Final = "|"


def load(
    folder: str | Path | None = None,
    *,
    items: Level = "category",
    least_people: int = 10,
    least_items: int = 5,
    least_times: int = 2,
) -> Federation:
    r"""Read how often each household bought each category, type or product.

    Paper
    -----
    Not used there. It is here because its stores are many, small and natural, and much is gained by pooling them.

    Privacy
    -------
    The catalog is everything in the publisher's list of products, bought or not. The home store and the limits look at
    purchases: a study's choice of whom to measure where, not a release.

    Parameters
    ----------
    folder : str or Path, optional
        Folder with purchases and products as .csv or .csv.gz. By default ``$TWOFOLD_DATA/complete-journey``.
    items : {"category", "type", "product"}
        What an item is. A type or category that occurs under several names above it is one item.
    least_people, least_items, least_times : int
        Home stores of at least so many households, which bought at least so many items, each at least so many times.
        An item a household bought fewer times is none of its entries.

    Returns
    -------
    Federation
        Counts of lines on receipts, whatever their quantity (quantity 0 is not a purchase); entities are store numbers,
        users household numbers. `catalog.features` has the classes above each item, several separated by ``|``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     products = ["product,department,category,type", "7,GROCERY,SOUP,TOMATO SOUP", "8,PASTRY,BREAD,RYE"]
    ...     bought = ["household,store,product,quantity,week", "1,300,7,1,1", "1,300,7,2,2", "1,301,8,1,2"]
    ...     _ = Path(folder, "products.csv").write_text("\n".join(products))
    ...     _ = Path(folder, "purchases.csv").write_text("\n".join(bought))
    ...     federation = load(folder, least_people=1, least_items=1, least_times=1)
    >>> federation
    Federation(1 entities of 1 to 1 users, 1 users, 2 of 2 items rated, 2 entries, counts)
    >>> federation[300].of(1)
    {'BREAD': 1.0, 'SOUP': 2.0}
    """
    if items not in ABOVE:
        raise DataError("{parameter} is unknown.", expected=", ".join(map(repr, ABOVE)), parameter="items")
    path = find_folder(COMPLETE_JOURNEY, folder)
    products = _products(need_table(COMPLETE_JOURNEY, path, "products"))
    purchases = _purchases(need_table(COMPLETE_JOURNEY, path, "purchases"))
    homes = home_stores(purchases)
    named = products.select("product", item=items).drop_nulls("item")
    events = purchases.join(named, on="product").join(homes, on="household")
    return counted(
        events.select(entity="home", user="household", item="item"),
        _catalog(products, items),
        least_people=least_people,
        least_items=least_items,
        least_times=least_times,
    )


def home_stores(purchases: pl.DataFrame) -> pl.DataFrame:
    """Give each household the store of most of its purchases; of equals, the one with the smallest number.

    Examples
    --------
    >>> bought = pl.DataFrame({"household": [1, 1, 1, 2, 2], "store": [9, 9, 4, 8, 3]})
    >>> home_stores(bought).rows()
    [(1, 9), (2, 3)]
    """
    times = purchases.group_by("household", "store").len("times")
    order = times.sort("household", "times", "store", descending=[False, True, False])
    return order.group_by("household", maintain_order=True).agg(home=pl.col("store").first())


def features(catalog: Catalog) -> Features:
    """Give the departments and categories above the items as public features.

    Parameters
    ----------
    catalog : Catalog
        As `load` makes it. For categories these are departments; for types and products departments and categories: a
        column for each type would be more than a table of features may have.

    Privacy
    -------
    Public: they are in the publisher's list of products.

    Examples
    --------
    >>> table = pl.DataFrame({"department": ["GROCERY", "DELI|GROCERY"]})
    >>> features(Catalog(["SOUP", "CHEESE"], table)).names
    ('department: DELI', 'department: GROCERY')
    """
    table = catalog.features
    named = [] if table is None else [name for name in _DESCRIBING if name in table.columns]
    if table is None or not named:
        raise CatalogError(
            "the catalog does not say what its items are.",
            expected="a column department, and category for types and products",
            fix="complete_journey.load() makes a catalog that has them",
            parameter="catalog",
        )
    lines = table.select(named).iter_rows(named=True)
    return class_features(
        [f"{name}: {word}" for name, text in line.items() for word in (text or "").split(_SEPARATOR) if word]
        for line in lines
    )


def _products(path: Path) -> pl.DataFrame:
    table = read_file(path, ["product", *ABOVE["product"]], text=ABOVE["product"])
    if table.height == 0:
        raise EmptyTable("the list of products has no rows.", parameter="products")
    check_ids(table["product"], "product")
    if table["product"].is_duplicated().any():
        raise UnreadableSource(
            "the list of products contradicts itself.",
            found="a product with two lines",
            expected="one line per product",
            fix="fetch the data set again",
            parameter="products",
        )
    words = [pl.col(name).cast(pl.String).str.strip_chars().replace("", None) for name in ABOVE["product"]]
    table = table.with_columns(words)
    if any(table[name].str.contains(_SEPARATOR, literal=True).any() for name in ABOVE["product"]):
        raise BadValue("a class of products has a | in its name.", expected="names without |", parameter="products")
    return table


def _purchases(path: Path) -> pl.DataFrame:
    table = read_file(path, ["household", "store", "product", "quantity"])
    for name in ("household", "store", "product"):
        check_ids(table[name], name)
    if not table["quantity"].dtype.is_numeric():
        raise BadValue("a quantity is not a number.", expected="a number in every line", parameter="quantity")
    return table.filter(pl.col("quantity") > 0)


def _catalog(products: pl.DataFrame, items: Level) -> Catalog:
    """Every item of the list, sorted, with the sorted classes above it."""
    classes = [pl.col(name).drop_nulls().unique().sort().str.join(_SEPARATOR) for name in ABOVE[items]]
    listed = products.drop_nulls(items).group_by(items).agg(classes).sort(items)
    return Catalog(listed[items], listed.drop(items))
