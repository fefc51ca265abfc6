"""No error shows a person's row, whatever the file looks like (audit L2)."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from tests.refused import refused
from twofold import Catalog, read_ratings
from twofold.data.columns import listing, plain_name, require_columns
from twofold.data.features import read_features
from twofold.data.federation import read_federation
from twofold.errors import MissingColumn, TwofoldError

CATALOG = Catalog(["hiv-test", "heparin"])
ROWS = [["Jane Doe", "hiv-test", "positive"], ["John Roe", "heparin", "3.5 mg"]]
SECRET = ("Jane", "Doe", "hiv-test", "positive", "John", "Roe", "3.5")


def _lines(mark: str, quote: str = "") -> str:
    return "".join(mark.join(f"{quote}{one}{quote}" for one in row) + "\n" for row in ROWS)


def _workbook() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("xl/worksheets/sheet1.xml", _lines(","))
    return buffer.getvalue()


def _parquet() -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame({name: [1] for name in ROWS[0]}).write_parquet(buffer)
    return buffer.getvalue()


FILES = {
    "headerless": _lines(",").encode(),
    "semicolons": _lines(";").encode(),
    "tabs": _lines("\t").encode(),
    "bars": _lines("|").encode(),
    "spaces": _lines(" ").encode(),
    "quoted": _lines(",", '"').encode(),
    "quoted semicolons": _lines(";", '"').encode(),
    "single quotes": _lines(",", "'").encode(),
    "one column": b"Jane Doe\nJohn Roe\n",
    "JSON lines": "".join(json.dumps({"user": row[0], "item": row[1]}) + "\n" for row in ROWS).encode(),
    "JSON": json.dumps([{"user": row[0], "item": row[1]} for row in ROWS]).encode(),
    "UTF-16": _lines(",").encode("utf-16"),
    "UTF-16 without a mark": _lines(",").encode("utf-16-le"),
    "UTF-32": _lines(",").encode("utf-32"),
    "Latin-1": _lines(",").replace("Jane", "Jané").encode("latin-1"),
    "BOM": _lines(",").encode("utf-8-sig"),
    "Excel": _workbook(),
    "gzip": gzip.compress(_lines(",").encode()),
    "Parquet": _parquet(),
    "a header of people": b"item,Jane Doe,John Roe\nhiv-test,positive,3.5\n",
    "half a header": b"user,Jane Doe\n1,2\n",
    "XML": b"<row><name>Jane Doe</name><test>hiv-test</test></row>\n",
    "SQL": b"INSERT INTO t VALUES ('Jane Doe', 'hiv-test');\n",
    "an open quote": b'"Jane Doe,hiv-test\nJohn Roe,heparin\n',
    "uneven": b"Jane Doe,hiv-test\nJohn Roe,heparin,3.5,9\n",
}
READERS = {
    "ratings": lambda path: read_ratings(path, CATALOG),
    "other names": lambda path: read_ratings(path, CATALOG, user="patient", item="code", value=None),
    "federation": lambda path: read_federation(path, CATALOG, entity="hospital"),
    "catalog": Catalog.read,
    "features": lambda path: read_features(path, CATALOG),
    "classes": lambda path: read_features(path, CATALOG, classes="kind"),
    "frame": lambda path: read_ratings(pl.read_csv(path, infer_schema=False, encoding="utf8-lossy"), CATALOG),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", FILES)
def test_no_error_shows_a_row(name: str, reader: str, tmp_path: Path) -> None:
    """Audit L2: a headerless file gave `Found: columns Jane Doe;hiv-test`."""
    path = tmp_path / "table"
    path.write_bytes(FILES[name])
    refusal = None
    try:
        READERS[reader](path)
    except TwofoldError as error:
        refusal = error
    except pl.exceptions.PolarsError:
        assert reader == "frame", "the caller's own reading"
        return
    if refusal is None:
        assert (name, reader) == ("a header of people", "catalog")
        return
    for text in (str(refusal), repr(refusal), json.dumps(refusal.as_dict())):
        assert not [word for word in SECRET if word in text], text
    assert refusal.__cause__ is None


def test_a_table_of_pandas_shows_no_row_either() -> None:
    frame = pd.DataFrame([ROWS[1]], columns=ROWS[0])
    with refused(MissingColumn, "user", found="3 columns", expected="user, item, value") as caught:
        read_ratings(frame, CATALOG)
    assert not [word for word in SECRET if word in str(caught.value)]


def test_what_helps_is_said() -> None:
    with refused(MissingColumn, "user", found="among them Item", expected="columns user"):
        require_columns(["Item", "value", "Jane Doe"], ["user", "value"])
    with refused(MissingColumn, "case", found="among them CASE ", expected="columns case"):  # the user's own word
        require_columns(["CASE ", "Jane Doe"], ["case"])
    with refused(MissingColumn, "user", "separator=';'", found="1 column"):
        require_columns(["user;item;value"], ["user"])
    with refused(MissingColumn, "user", "JSON"):
        require_columns(['{"user": "Jane"', '"item": 3}'], ["user"])
    require_columns(["user"], ["user"])
    require_columns([], None)


def test_headers_of_other_languages_are_shown_and_a_typing_mistake_is_named() -> None:
    header = ["Patienten-Nr.", "Prüfung", "Häufigkeit (Ø)"]
    with refused(MissingColumn, "Prufung", found="columns Patienten-Nr., Prüfung", expected="'Prüfung'"):
        require_columns(header, ["Patienten-Nr.", "Prufung", "Häufigkeit (Ø)"])
    with refused(MissingColumn, "Untersuchug", expected="'Untersuchung'"):
        require_columns(["Fall", "Untersuchung"], ["Fall", "Untersuchug"])


def test_two_columns_that_are_there_make_the_first_line_one_of_names() -> None:
    wanted = ["номер", "анализ", "количество"]
    with refused(MissingColumn, "анализ", found="анализы", expected="'анализы'"):
        require_columns(["номер", "анализы", "количество"], wanted)
    with refused(MissingColumn, "анализ", found="the others are not shown") as caught:  # one alone is not enough
        require_columns(["номер", "Иван Петров", "Анна"], wanted)
    assert "Иван" not in str(caught.value)
    for value in ("3.5 mg", "1950-02-03", "jane@doe.org", "x" * 80):  # what no column is called
        with refused(MissingColumn, "item") as caught:
            require_columns(["user", "value", value], ["user", "item", "value"])
        assert value not in str(caught.value)


def test_listings() -> None:
    assert listing(["user", "item"]) == "columns user, item"
    assert "30 columns" in listing([f"c{k}" for k in range(30)])
    assert "10 more" in listing(["user"] * 30)
    assert not plain_name("Jane")
