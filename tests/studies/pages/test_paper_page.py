"""The page that leads: verdicts of both sizes from stored results, drawings with what was recorded, times."""

from __future__ import annotations

import re
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
    assert list(one.took.each.values()) == [(2.0, 1.5)] * number
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


def test_what_is_not_stored_stays_as_the_page_had_it(folder: Path, tmp_path: Path) -> None:
    """Figures are run on different days; a page of some of them does not forget the others."""
    line = ["-o", str(tmp_path / "paper.md"), "--printed", str(tmp_path / "none.md")]
    main([str(folder), *line])
    first = (tmp_path / "paper.md").read_text(encoding="utf-8")
    main(line)
    assert (tmp_path / "paper.md").read_text(encoding="utf-8") == first
    other = Store.open(tmp_path / "other", "reproduce", "paper")
    for cell in figure("exp1").cells("paper", seeds=1):
        other.put(
            cell,
            {
                "rows": [("objective", "all", 0.9, None, None)],
                "note": "",
                "seconds": 1.0,
                "seconds_to_fit": 1.0,
                "cpu_seconds": 1.0,
                "versions": {},
            },
        )
    main([str(tmp_path / "other"), *line])
    both = (tmp_path / "paper.md").read_text(encoding="utf-8")
    row = next(text for text in first.splitlines() if text.startswith("| `fig1a`"))
    assert row in both.splitlines()
    assert "| `exp1` | paper | 1 | 27 | 27.0 s | 27.0 s | " in both
    assert "- paper: 48 cells, 1 min 9 s in one process, 58.5 s of the processor." in both
    drawings = re.findall(r"^!\[.*\]\(paper-.*\.svg\)$", both, re.MULTILINE)
    assert [one.rpartition("(")[2] for one in drawings] == ["paper-fig1.svg)", "paper-exp1.svg)"]


def filled(folder: Path, *names: str, seeds: int = 1) -> str:
    """A folder with made-up results of these figures at the paper's size."""
    store = Store.open(folder, "reproduce", "paper")
    found = {"note": "", "seconds": 2.0, "seconds_to_fit": 1.0, "cpu_seconds": 1.5, "versions": {}}
    for name in names:
        for cell in figure(name).cells("paper", seeds=seeds):
            store.put(cell, {"rows": [("rmse_table", "all", 0.9, None, None)], **found})
    return str(folder)


def test_of_one_experiment_a_part_does_not_replace_what_the_page_has(tmp_path: Path) -> None:
    page, line = tmp_path / "paper.md", ["-o", str(tmp_path / "paper.md"), "--printed", str(tmp_path / "none.md")]
    main([filled(tmp_path / "b", "fig1b", seeds=2), *line])
    first, picture = page.read_text(encoding="utf-8"), (tmp_path / "paper-fig1.svg").read_bytes()
    for other in (filled(tmp_path / "a", "fig1a"), filled(tmp_path / "less", "fig1a", "fig1b")):
        main([other, *line])
        assert page.read_text(encoding="utf-8") == first
        assert (tmp_path / "paper-fig1.svg").read_bytes() == picture
    main([filled(tmp_path / "more", "fig1a", "fig1b", seeds=2), *line])
    more = page.read_text(encoding="utf-8")
    assert more.count("`fig1a`:") == more.count("`fig1b`:") == 1
    shared = {cell.key for name in ("fig1a", "fig1b") for cell in figure(name).cells("paper", seeds=2)}
    assert f"- paper: {len(shared)} cells, " in more
    main([str(tmp_path / "a"), "--anew", *line])
    assert "`fig1b`:" not in page.read_text(encoding="utf-8")


def test_cells_that_a_kept_figure_counts_are_not_counted_again(tmp_path: Path) -> None:
    line = ["-o", str(tmp_path / "paper.md"), "--printed", str(tmp_path / "none.md")]
    main([filled(tmp_path / "one", "fig1b"), *line])
    main([filled(tmp_path / "two", "supplement-k"), *line])
    wanted = {cell.key for name in ("fig1b", "supplement-k") for cell in figure(name).cells("paper", seeds=1)}
    assert f"- paper: {len(wanted)} cells, " in (tmp_path / "paper.md").read_text(encoding="utf-8")


def test_a_newer_printed_verdict_wins_and_older_tables_of_times_are_read(tmp_path: Path) -> None:
    words = CLAIMS[0].words
    page, printed = tmp_path / "paper.md", tmp_path / "index.md"
    page.write_text(
        f"| claim | where | quick size | the paper's size |\n|---|---|---|---|\n| {words} | here | holds | holds |\n\n"
        "| figure | size | seeds | cells | wall, one process | CPU |\n|---|---|---|---|---|---|\n"
        "| `exp1` | paper | 1 | 27 | 27.0 s | – |\n",
        encoding="utf-8",
    )
    printed.write_text(
        f"| claim | where | verdict |\n|---|---|---|\n| {words} | x | cannot be told |\n", encoding="utf-8"
    )
    main(["-o", str(page), "--printed", str(printed)])
    text = page.read_text(encoding="utf-8")
    assert f"| {words} | {CLAIMS[0].place} | (cannot be told) | holds |" in text
    assert "| `exp1` | paper | 1 | 27 | 27.0 s | – | – |" in text


def test_the_slowest_cell_is_named() -> None:
    def cell(system: str, **options: float) -> dict[str, object]:
        return {"system": system, "options": options}

    slow = {"cell": cell("prototypes-kmeans", rank=120, n_prototypes=100), "seconds": 30.2, "cpu_seconds": 29.0}
    took = Took.of({"a": {"cell": cell("pooled", rank=40), "seconds": 2.0, "cpu_seconds": 1.5}, "b": slow})
    assert took.each == {"a": (2.0, 1.5), "b": (30.2, 29.0)}
    assert took.slowest == "prototypes-kmeans, ℓ = 120, k = 100: 30 s"


def test_without_results_the_page_says_so(tmp_path: Path) -> None:
    main(["-o", str(tmp_path / "paper.md"), "--printed", str(tmp_path / "none.md")])
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "Nothing was run at the paper's size yet." in page
    assert page.count("Not stored.") == len(EXPERIMENTS)


def test_every_panel_is_a_figure_and_verdicts_are_read_from_tables_of_claims_only() -> None:
    assert {panel for _, _, panels in EXPERIMENTS for panel in panels} <= set(FIGURES)
    assert printed_verdicts("| system | x |\n|---|---|\n| a | holds |\n") == {}
