"""The Complete Journey: the published facts, home stores, levels of items, public features, and damaged tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from studies.data import complete_journey
from tests.refused import refused
from twofold.data.catalog import Catalog
from twofold.errors import (
    BadIdentifier,
    BadValue,
    CatalogError,
    DataError,
    EmptyTable,
    MissingDataset,
    UnreadableSource,
)

PRODUCTS = [
    "7,GROCERY,SOUP,TOMATO SOUP",
    "8,PASTRY,BREAD,RYE",
    "9,GROCERY,BREAD,RYE",
    "10,MISCELLANEOUS,,",
    "11,GROCERY,NEVER BOUGHT,NOTHING",
]
ANY: Final[dict[str, Any]] = {"least_people": 1, "least_items": 1, "least_times": 1}


def _write(folder: Path, *bought: str, products: list[str] = PRODUCTS) -> Path:
    (folder / "products.csv").write_text("\n".join(["product,department,category,type", *products]) + "\n")
    (folder / "purchases.csv").write_text("\n".join(["household,store,product,quantity,week", *bought]) + "\n")
    return folder


def test_the_published_facts(data_folder: Path) -> None:
    federation = complete_journey.load(data_folder / "complete-journey")
    assert repr(federation) == (
        "Federation(96 entities of 10 to 63 users, 2,208 users, 293 of 303 items rated, 146,401 entries, counts)"
    )
    assert complete_journey.features(federation.catalog).described == 303


def test_everything_a_household_bought_is_at_its_home_store(tmp_path: Path) -> None:
    folder = _write(tmp_path, "1,300,7,1,1", "1,301,8,1,1", "1,300,7,1,2", "2,301,9,1,1")
    federation = complete_journey.load(folder, **ANY)
    assert federation[300].of(1) == {"SOUP": 2.0, "BREAD": 1.0}
    assert federation[301].of(2) == {"BREAD": 1.0}


def test_of_two_home_stores_the_smaller_number_counts(tmp_path: Path) -> None:
    one, other = ["1,301,7,1,1", "1,300,8,1,1"], ["1,300,8,1,1", "1,301,7,1,1"]
    for lines in (one, other):
        assert list(complete_journey.load(_write(tmp_path, *lines), **ANY)) == [300]


def test_quantities_do_not_count_but_none_is_not_a_purchase(tmp_path: Path) -> None:
    folder = _write(tmp_path, "1,300,7,50,1", "1,300,8,0,1")
    assert complete_journey.load(folder, **ANY)[300].of(1) == {"SOUP": 1.0}


def test_products_without_a_category_or_a_line_have_no_item(tmp_path: Path) -> None:
    folder = _write(tmp_path, "1,300,7,1,1", "1,300,10,1,1", "1,300,999,1,1")
    assert complete_journey.load(folder, **ANY)[300].of(1) == {"SOUP": 1.0}


@pytest.mark.parametrize(
    ("level", "items", "own"),
    [
        ("category", ["BREAD", "NEVER BOUGHT", "SOUP"], {"BREAD": 2.0, "SOUP": 1.0}),
        ("type", ["NOTHING", "RYE", "TOMATO SOUP"], {"RYE": 2.0, "TOMATO SOUP": 1.0}),
        ("product", [7, 8, 9, 10, 11], {7: 1.0, 8: 1.0, 9: 1.0}),
    ],
)
def test_levels(level: complete_journey.Level, items: list[object], own: dict[object, float], tmp_path: Path) -> None:
    folder = _write(tmp_path, "1,300,7,1,1", "1,300,8,1,1", "1,300,9,1,1")
    federation = complete_journey.load(folder, items=level, **ANY)
    assert list(federation.catalog.items) == items, "all of the list, bought or not"
    assert federation[300].of(1) == own


def test_features_are_what_is_above_an_item(tmp_path: Path) -> None:
    folder = _write(tmp_path, "1,300,7,1,1")
    of = {
        level: complete_journey.features(complete_journey.load(folder, items=level, **ANY).catalog)
        for level in ("category", "type", "product")
    }
    assert of["category"].names == ("department: GROCERY", "department: PASTRY")
    assert of["category"].matrix[0].tolist() == [1, 1], "bread is in two departments"
    assert of["type"].names[:3] == ("category: BREAD", "category: NEVER BOUGHT", "category: SOUP")
    assert of["product"].matrix[3].sum() == 1, "no category, but a department"


def test_the_defaults_keep_households_of_five_items_bought_twice(tmp_path: Path) -> None:
    products = [f"{at},D,C{at},T{at}" for at in range(6)]
    steady = [f"{who},300,{at},1,{week}" for who in range(10) for at in range(5) for week in (1, 2)]
    once = [f"99,300,{at},1,1" for at in range(6)]
    federation = complete_journey.load(_write(tmp_path, *steady, *once, products=products))
    assert list(federation[300].user_ids) == list(range(10))
    with refused(EmptyTable, "least_people"):
        complete_journey.load(_write(tmp_path, *steady[10:], *once, products=products))


def test_damaged_tables(tmp_path: Path) -> None:
    with refused(UnreadableSource, "products"):
        complete_journey.load(_write(tmp_path, "1,300,7,1,1", products=[PRODUCTS[0], PRODUCTS[0]]))
    with refused(BadValue, "products"):
        complete_journey.load(_write(tmp_path, "1,300,7,1,1", products=["7,A|B,C,D"]))
    with refused(EmptyTable, "products"):
        complete_journey.load(_write(tmp_path, "1,300,7,1,1", products=[]))
    with refused(BadValue, "quantity"):
        complete_journey.load(_write(tmp_path, "1,300,7,many,1"))
    with refused(BadIdentifier, "store"):
        complete_journey.load(_write(tmp_path, "1,,7,1,1"))
    with refused(MissingDataset, "complete-journey"):
        complete_journey.load(tmp_path / "nowhere")


def test_wrong_arguments(tmp_path: Path) -> None:
    with refused(DataError, "items"):
        complete_journey.load(_write(tmp_path, "1,300,7,1,1"), items="brand")  # type: ignore[arg-type]
    with refused(CatalogError, "catalog"):
        complete_journey.features(Catalog(["SOUP"]))
