"""The command: runs, goes on where it stopped, names what is missing, writes its pages."""

from __future__ import annotations

import polars as pl
import pytest

from studies.frontier import run as frontier
from studies.frontier.run import Part, cells, run
from studies.frontier.settings import read_frontier
from studies.store import Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("frontier")
    frontier.main(["--size", "tiny", "-o", str(made)])
    return made


def test_a_tiny_run_gives_every_cell_and_every_page(folder):
    grid = read_frontier("tiny")
    wanted = cells(grid, grid.data[0], grid.first_seed)
    frame = pl.read_parquet(folder / "frontier.parquet")
    assert frame.select("mechanism", "noise", "epsilon").n_unique() == len(wanted)
    assert frame.filter(mechanism="alone")["gain"].abs().max() == 0
    assert frame["ndcg"].is_between(0.3, 1.0).all()
    assert "Everything of this size was run." in (folder / "frontier.md").read_text(encoding="utf-8")
    page = (folder / "frontier.html").read_text(encoding="utf-8")
    assert "Hospitals, middle structure" in page
    assert "<script" not in page


@pytest.mark.slow
def test_the_quick_size_runs_and_prints_its_table(tmp_path, capsys):
    frontier.main(["--size", "quick", "-o", str(tmp_path), "--seeds", "1"])
    printed = capsys.readouterr().out
    assert printed.rstrip() == (tmp_path / "frontier.md").read_text(encoding="utf-8").rstrip()
    assert "| gram, secure sum |" in printed
    assert (tmp_path / "frontier.html").stat().st_size > 10_000
    assert (tmp_path / "frontier.parquet").exists()


def test_what_is_there_is_not_run_again(folder, monkeypatch):
    grid = read_frontier("tiny")
    store, wanted = Store.open(folder, "frontier", "tiny"), cells(grid, grid.data[0], grid.first_seed)
    lost = wanted[-1]
    before = store.get(lost)
    store._path(lost).unlink()
    seen = []
    run("tiny", folder, names=["hospitals-middle"], tell=lambda *told: seen.append(told))
    assert seen == [("frontier", done, len(wanted)) for done in (len(wanted) - 1, len(wanted))]
    assert store.get(lost)["rows"] == before["rows"]
    monkeypatch.setattr(frontier, "load_case", lambda *_: pytest.fail("loaded although nothing is missing"))
    run("tiny", folder, names=["hospitals-middle"])


def test_pages_can_be_written_again_alone(folder, capsys, monkeypatch):
    monkeypatch.setattr(frontier, "run", lambda *_args, **_kwargs: pytest.fail("it ran"))
    frontier.main(["--size", "tiny", "-o", str(folder), "--only-write"])
    assert capsys.readouterr().out.startswith("# The frontier")


def test_data_that_is_not_there_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path / "nothing"))
    found, missing = run("full", tmp_path, names=["jester", "movielens-zip1"], seeds=2)
    assert missing == ["jester", "movielens-zip1"]
    assert found.height == 0


def test_workers_give_the_same_figures(folder, tmp_path):
    part, grid = Part(mechanisms=("popularity",)), read_frontier("tiny")
    run("tiny", tmp_path, names=["hospitals-middle"], part=part, workers=2)
    for cell in cells(grid, grid.data[0], grid.first_seed, part):
        one, two = (Store(place).get(cell)["rows"] for place in (folder, tmp_path))
        assert one == two


def test_a_part_of_the_grid():
    grid = read_frontier("full")
    asked = Part(mechanisms=("gram", "buckets"), noises=("own",))
    found = [(one.system, one.options["noise"]) for one in cells(grid, grid.data[0], grid.first_seed, asked)]
    assert found[1] == ("public features", "none")
    assert ("EASE pooled, then adapted", "none") in found
    assert found.count(("shared popularity, private", "secure")) == 5
    private = {one for one in found if one[0] in ("gram", "buckets", "popularity")}
    assert private == {("gram", "none"), ("gram", "noise only"), ("gram", "own"), ("buckets", "own")}
    assert found.count(("gram", "own")) == 2


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--size", "huge"]])
def test_wrong_arguments_are_refused(wrong, capsys):
    with pytest.raises(SystemExit):
        frontier.main(wrong)
    assert "error" in capsys.readouterr().err
