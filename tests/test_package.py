"""The package as a whole: its public names, and an import that stays light."""

from __future__ import annotations

import subprocess
import sys

import twofold


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
