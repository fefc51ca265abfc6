"""Every file in examples/ runs as it is: scripts in a process of their own, the notebook cell by cell, the shop."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import pytest

from tests.serve.conftest import make_model
from twofold.serve.api import LIMITS, Api, build_app
from twofold.serve.current import Current
from twofold.server.service.run import Running, server_for

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[1] / "examples"
#: A script to words of what it prints.
SCRIPTS = {
    "with_pandas.py": "300 people",
    "with_polars.py": "st-clara: The shared item factors",
    "with_duckdb.py": "people",
    "with_meds.py": "240 people",
    "with_omop.py": "after aspirin",
    "with_recbole.py": "Ratings(150 users",
    "scikit_learn.py": "nDCG@10",
}


def test_every_example_is_run() -> None:
    names = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert names == {*SCRIPTS, "made_up.py", "first_look.ipynb", "shop.py"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_runs(name: str, tmp_path: Path) -> None:
    script = str(EXAMPLES / name)
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert SCRIPTS[name] in done.stdout


def test_the_notebook_runs_from_top_to_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells in one namespace, as a kernel would run them; a notebook is kept without output."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.setattr(sys, "path", [*sys.path])
    cells = [one for one in json.loads(Path("first_look.ipynb").read_text())["cells"] if one["cell_type"] == "code"]
    names: dict[str, Any] = {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()) as told:
        warnings.simplefilter("ignore")
        for number, cell in enumerate(cells, 1):
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
    assert "because of" in told.getvalue()
    assert set(names["done"].models) == {"st-anna", "st-bern", "st-clara"}


@contextlib.contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(sys, "argv", ["shop.py"])
    spec = importlib.util.spec_from_file_location("shop", EXAMPLES / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.Shop, "log_message", lambda *_: None)
    return module


def test_the_shop_shows_what_goes_with_a_basket(
    shop: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_model().save(tmp_path / "shop.model")
    app = build_app(Api(Current(tmp_path / "shop.model")))
    with Running(server_for(app, LIMITS, host="127.0.0.1", port=0)) as api, served(shop.Shop) as address:
        monkeypatch.setattr(shop, "API", api.url)
        with urlopen(address, b"basket=item-3+item-5", timeout=10) as answer:
            page = answer.read().decode()
        with urlopen(address, b"basket=%3Cb%3E", timeout=10) as answer:
            refused = answer.read().decode()
    assert page.count("<li>item-") == 3
    assert "<b>" not in refused  # what people type is text


def test_a_shop_without_the_api_is_still_a_shop(shop: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop, "API", "http://127.0.0.1:9")
    with served(shop.Shop) as address, urlopen(address, timeout=10) as answer:
        assert "nothing yet" in answer.read().decode()
