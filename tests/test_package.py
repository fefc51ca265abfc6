"""The package as a whole: its public names, and an import that stays light."""

from __future__ import annotations

import subprocess
import sys

import polars
import pytest
from scipy import sparse

import twofold
from tests.refused import refused
from twofold.errors import DataError, UnreadableSource


def test_the_public_names_exist() -> None:
    assert set(twofold.__all__) == set(twofold._HOMES)
    assert all(getattr(twofold, name) is not None for name in twofold.__all__)
    assert set(twofold.__all__) <= set(dir(twofold))


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(twofold, "Recommenderer")


def test_importing_loads_nothing_heavy() -> None:
    heavy = (
        "numba",
        "polars",
        "scipy",
        "pandas",
        "dp_accounting",
        "matplotlib",
        "typer",
        "jinja2",
        "pydantic",
        "cryptography",
    )
    code = f"import sys, twofold; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_pages_load_their_templates_only_when_written() -> None:
    code = "import sys, twofold.privacy.card, twofold.report.card; print('jinja2' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_the_data_layer_does_not_load_numba() -> None:
    code = "import sys, twofold; twofold.read_ratings; twofold.holdout; print('numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_table_of_which_nothing_is_left_is_warned_of() -> None:
    rows = polars.DataFrame({"user": [1, 2], "item": ["x", "y"], "value": [1, 1]})
    ratings = twofold.read_ratings(rows, twofold.Catalog(["a", "b"]), unknown_items="drop")
    with pytest.warns(UserWarning, match="dropped"):
        twofold.fit_alone(ratings)


def test_each_of_two_readers_names_the_other() -> None:
    with refused(DataError, "matrix", "read_ratings"):
        twofold.fit_alone({"user": 1})  # type: ignore[arg-type]
    with refused(UnreadableSource, "source", "fit_alone"):
        twofold.read_ratings(sparse.eye_array(3), twofold.Catalog(["a", "b", "c"]))


def test_what_is_listed_is_what_is_public() -> None:
    shown = {name for name in dir(twofold) if not name.startswith("__")}
    assert shown >= set(twofold.__all__)
    assert not shown & {"TYPE_CHECKING", "Any", "importlib", "csr"}
