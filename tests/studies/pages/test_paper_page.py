"""The page that leads: verdicts of both sizes from stored results, drawings with what was recorded, times."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from studies.pages.paper_page import EXPERIMENTS, Took, main, printed_verdicts, stored
from studies.paper.claims import CLAIMS
from studies.paper.figures import FIGURES, figure
from studies.store import Store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Made-up results of Fig. 1a at the paper's size: two of three lines' seeds are whole for one seed only."""
    store = Store.open(tmp_path / "runs", "reproduce", "paper")
    for cell in figure("fig1a").cells("paper", seeds=1):
        level = {"pooled": 0.9, "prototypes-random": 0.93}.get(cell.system, 0.95)
        rows = [("rmse_table", "all", level, None, None), ("rmse_fresh", "all", 1.0 + level / 10, None, None)]
        store.put(
            cell, {"rows": rows, "note": "", "seconds": 2.0, "seconds_to_fit": 1.0, "cpu_seconds": 1.5, "versions": {}}
        )
    return tmp_path / "runs"


def test_what_is_stored_whole_is_found_and_judged(folder: Path) -> None:
    found = stored([folder])
    assert set(found) == {("paper", "fig1a")}
    one = found["paper", "fig1a"]
    number = len(figure("fig1a").cells("paper", seeds=1))
    assert (one.took.cells, one.took.wall, one.took.cpu) == (number, 2.0 * number, 1.5 * number)
    assert len(one.outcome.verdicts) == sum(claim.figure == "fig1a" for claim in CLAIMS)


def test_the_page_has_every_claim_and_a_drawing_with_recorded_values(folder: Path, tmp_path: Path) -> None:
    printed = tmp_path / "index.md"
    words = CLAIMS[0].words
    printed.write_text(f"| claim | where | verdict |\n|---|---|---|\n| {words} | here | holds |\n", encoding="utf-8")
    main([str(folder), "-o", str(tmp_path / "paper.md"), "--printed", str(printed)])
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    for claim in CLAIMS:
        assert page.count(f"| {claim.words} |") == 1
    assert f"| {words} | {CLAIMS[0].place} | (holds) | – |" in page
    assert "![Fig. 1: synthetic counts](paper-fig1.svg)" in page
    drawing = (tmp_path / "paper-fig1.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(drawing)
    assert "recorded: MF" in drawing
    assert "| `fig1a` | paper | 1 | 21 | 42.0 s | 31.5 s | " in page
    assert "- paper: 21 cells, 42.0 s in one process, 31.5 s of the processor." in page


def test_the_slowest_cell_is_named_and_a_shared_cell_is_counted_once() -> None:
    def cell(system: str, **options: float) -> dict[str, object]:
        return {"system": system, "options": options}

    slow = {"cell": cell("prototypes-kmeans", rank=120, n_prototypes=100), "seconds": 30.2, "cpu_seconds": 29.0}
    took = Took.of({"a": {"cell": cell("pooled", rank=40), "seconds": 2.0, "cpu_seconds": 1.5}, "b": slow})
    assert (took.cells, took.wall, took.cpu) == (2, 32.2, 30.5)
    assert took.slowest == "prototypes-kmeans, ℓ = 120, k = 100: 30 s"


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    main(["-o", str(tmp_path / "paper.md"), "--printed", str(tmp_path / "none.md")])
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "Nothing was run at the paper's size yet." in page
    assert page.count("Not stored.") == len(EXPERIMENTS)


def test_every_panel_is_a_figure_and_verdicts_are_read_from_tables_of_claims_only() -> None:
    assert {panel for _, _, panels in EXPERIMENTS for panel in panels} <= set(FIGURES)
    assert printed_verdicts("| system | x |\n|---|---|\n| a | holds |\n") == {}
