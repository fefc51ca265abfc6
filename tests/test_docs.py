"""The documentation: every page has its place, every command in it exists, its Python runs, nothing is fetched."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from studies.reference import commands_page, verbs
from tests.deploy.test_examples import check_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
#: Made by `make docs`, not kept.
MADE = {"reference/commands.md"}
SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
PAGES = sorted(path for path in DOCS.rglob("*.md") if str(path.relative_to(DOCS)) not in MADE)
#: Pages whose Python another test runs as written, because it needs a federation around it.
ELSEWHERE = {
    "tutorial/first_federation.md": "tests/journeys/test_first_federation.py",
    "how-to/operators.md": "tests/journeys/test_operators_page.py",
    "how-to/recommend.md": "tests/entity/test_model.py",
    "how-to/site.md": "tests/journeys/test_site.py",
    "how-to/estimator.md": "tests/estimator/test_how_to.py",
    "how-to/simulate.md": "tests/estimator/test_how_to.py",
    "how-to/new_users.md": "tests/journeys/test_how_to_pages.py",
    "how-to/new_items.md": "tests/journeys/test_how_to_pages.py",
    "how-to/verify.md": "tests/journeys/test_how_to_pages.py",
    "how-to/meds.md": "tests/journeys/test_formats.py",
    "how-to/omop.md": "tests/journeys/test_formats.py",
    "how-to/read_data.md": "tests/journeys/test_formats.py",
}
#: Pages whose Python shows several institutions at once, or published data: its names must exist.
SKETCHES = {
    "how-to/dask.md",
    "how-to/spark.md",
    "how-to/people.md",
    "how-to/secure_sum.md",
    "reference/messages.md",
    "reference/sources.md",
}


def placed(part: Any) -> list[str]:
    """The files of a part of the navigation, in order."""
    if isinstance(part, str):
        return [part]
    return [name for one in (part.values() if isinstance(part, dict) else part) for name in placed(one)]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_every_page_has_one_place_in_the_navigation() -> None:
    found = placed(SETTINGS["nav"])
    assert len(found) == len(set(found))
    assert set(found) == {path.relative_to(DOCS).as_posix() for path in PAGES} | MADE


def test_the_navigation_goes_from_first_steps_to_decisions() -> None:
    parts = [next(iter(one)) for one in SETTINGS["nav"]]
    assert parts == ["Start", "How-to", "Explanation", "Reference", "Results", "Decisions"]
    assert placed(SETTINGS["nav"])[:3] == ["index.md", "install.md", "tutorial/first_federation.md"]


def lines() -> list[tuple[str, str]]:
    """Whole commands of twofold in blocks of shell; those with dots or unset variables are not whole."""
    found = []
    for page in PAGES:
        text = "".join(blocks(page, "bash")).replace("\\\n", " ")
        for line in (line.split(" #")[0].split("||")[0].rstrip(" &").strip() for line in text.splitlines()):
            if line.startswith("twofold ") and "..." not in line:
                found.append((page.relative_to(DOCS).as_posix(), line))
    return found


@pytest.mark.parametrize(("page", "line"), lines())
def test_a_command_takes_these_options(page: str, line: str) -> None:
    check_command(shlex.split(line)[1:])


def prelude() -> dict[str, Any]:
    """What pages take as given: a table, a catalog, and a matrix."""
    rng = np.random.default_rng(0)
    users, items = np.nonzero(rng.random((60, 30)) < 0.4)
    names = [f"item-{number:02}" for number in range(28)]
    names += ["creatinine", "heparin"]
    visits = pl.DataFrame(
        {
            "patient": [f"patient-{one}" for one in users],
            "code": [names[one] for one in items],
            "count": rng.integers(1, 6, items.size),
        }
    )
    visits.write_parquet("visits.parquet")
    pl.DataFrame({"item": names}).write_csv("items.csv")
    return {"users": users, "items": items, "values": rng.integers(1, 6, items.size), "user": 3, "item": 4}


#: What single pages take as given beyond that.
GIVEN = {
    "how-to/ledger.md": """
from twofold.privacy.ledger import Ledger
from twofold.privacy import Unit
from twofold.privacy.budget import ApproxDP
Ledger.create("st-anna.ledger", dataset="visits", ceiling=ApproxDP(epsilon=3, delta=1e-5), unit=Unit.person())
""",
    "how-to/out_of_core.md": """
import polars as pl
from pathlib import Path
Path("visits").mkdir()
for at in range(3):
    pl.read_parquet("visits.parquet").gather_every(3, at).write_parquet(f"visits/{at}.parquet")
""",
    "how-to/long_catalogs.md": """
import twofold as tw
import polars as pl
catalog = tw.Catalog.read("items.csv")
homes = pl.read_parquet("visits.parquet").with_columns(patient=pl.col("patient").str.replace("patient", "home"))
ratings = tw.read_ratings(homes, catalog, user="patient", item="code", value="count", feedback="counts")
""",
    "how-to/masked_nmf.md": """
import scipy.sparse as sp
items = items + 20 * (items > 20)                # columns as on the page: 3, 17 and 41 exist
X_new = sp.csr_array((values[:5], (users[:5] * 0, items[:5])), shape=(1, int(items.max()) + 1))
""",
    "reference/metrics.md": """
import numpy as np
from twofold import leave_n_out
from twofold.data.sources import hospitals
split = leave_n_out(hospitals.load(0.01, n_patients=200), n=2, rng=0)
system = {name: np.ones(one.matrix.shape) for name, one in split.train.items()}
""",
}
OTHERS = {*ELSEWHERE, *SKETCHES}
RUN = [page for page in PAGES if blocks(page, "python") and page.relative_to(DOCS).as_posix() not in OTHERS]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_as_written(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = prelude()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(GIVEN.get(page.relative_to(DOCS).as_posix(), ""), names)
        for block in blocks(page, "python"):
            exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", sorted(SKETCHES))
def test_the_names_of_a_sketch_exist(page: str) -> None:
    code = "\n".join(blocks(DOCS / page, "python"))
    compile(code, page, "exec")
    names: dict[str, Any] = {}
    exec("\n".join(line for line in code.splitlines() if re.match(r"(from|import) ", line)), names)
    for name in re.findall(r"\btw\.(\w+)", code):
        assert hasattr(names["tw"], name)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_what_runs_elsewhere_is_there(page: str) -> None:
    assert blocks(DOCS / page, "python")
    assert (ROOT / ELSEWHERE[page]).exists()


def test_the_page_of_commands_has_every_verb_and_option() -> None:
    page = commands_page()
    for name, command in verbs():
        section = page.split(f"\n## {name}\n", 1)[1].split("\n## ", 1)[0]
        for one in command.params:
            if one.param_type_name == "option" and not one.hidden and one.name != "help":
                assert f"`{one.opts[0]}`" in section


@pytest.mark.slow
def test_the_site_is_built_strictly_without_a_network_and_fetches_nothing(tmp_path: Path) -> None:
    zensical = Path(sys.executable).with_name("zensical")
    if not zensical.exists():
        pytest.skip("zensical is not installed: make .venv/.docs")
    for name in ("docs", "deploy", "src", "examples"):
        if (ROOT / name).exists():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs" / "reference" / "commands.md").write_text(commands_page(), encoding="utf-8")
    alone = ["unshare", "--map-root-user", "--net"]
    tried = (
        shutil.which("unshare") and subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0
    )
    command = [*(alone if tried else []), str(zensical), "build", "--strict"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) >= len(PAGES)
    fetched = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="https?:|<link[^>]*\shref="https?:')
    assert [page.name for page in pages if fetched.search(page.read_text(encoding="utf-8"))] == []
