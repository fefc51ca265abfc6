"""Figures: known names, cells that are shared, options that every system takes."""

from __future__ import annotations

from studies.case import SOURCES
from studies.pages.experiment_words import AXES, METRICS
from studies.paper.figures import FIGURES, SIZES, figure
from studies.paper.measuring import SYSTEMS
from studies.store import Cell
from studies.systems import system
from tests.refused import refused
from twofold.errors import BadParameter


def every_cell() -> list[Cell]:
    found = {cell.key: cell for one in FIGURES.values() for size in SIZES for cell in one.cells(size)}
    return list(found.values())


def test_the_asked_for_figures_are_there() -> None:
    panels = ["fig1a", "fig1b", "fig1c", "fig1d"]
    panels += [f"{data}-{what}" for data in ("eicu", "movielens") for what in ("rmse", "train", "rank")]
    others = ["exp1", "entities", "supplement-k", "supplement-l", "masked-truth", "cost", "noise-control", "comparison"]
    assert set(panels + others) <= set(FIGURES)


def test_an_unknown_figure_names_the_known_ones() -> None:
    with refused(BadParameter, None, found="'fig7'", expected="movielens-rank"):
        figure("fig7")
    with refused(BadParameter, None, "python -m studies reproduce fig1a", found="'Fig1a'"):
        figure("Fig1a")
    with refused(BadParameter, None, found="'huge'", expected="quick or paper"):
        figure("fig1a").cells("huge")


def test_panels_of_one_experiment_share_their_runs() -> None:
    for data in ("movielens", "eicu"):
        keys = [{cell.key for cell in figure(f"{data}-{what}").cells("paper")} for what in ("rmse", "train", "rank")]
        assert keys[0] == keys[1] < keys[2]  # the best private model has ranks only
    a, b = ({cell.key for cell in figure(name).cells("quick")} for name in ("fig1a", "fig1b"))
    assert a & b


def test_ranking_panels_show_the_best_private_model_at_the_papers_epsilon() -> None:
    for data in ("movielens", "eicu"):
        one = figure(f"{data}-rank")
        assert "best private model, ε = 0.1" in one.drawn
        asked = [cell for cell in one.cells("quick") if cell.system == "ladder-secure"]
        assert sorted(cell.options["epsilon"] for cell in asked) == [0.1, 1]  # once, whatever the rank


def test_every_system_takes_its_options() -> None:
    for cell in every_cell():
        assert cell.data["source"] in SOURCES
        if cell.task == "objective":
            assert cell.system in SYSTEMS
        else:
            assert system(cell.system, **cell.options).name


def test_the_paper_size_has_the_papers_numbers() -> None:
    assert figure("movielens-rank").values("paper") == figure("eicu-rank").values("paper") == (10, 20, 30, 40, 50)
    assert figure("fig1a").values("paper") == (40, 60, 80, 100, 120)
    sizes = {cell.data["n_users"] for cell in figure("fig1c").cells("paper")}
    assert sizes == {100_000}
    ks = {cell.options.get("n_prototypes") for cell in figure("movielens-rank").cells("paper")}
    assert ks == {None, 50}
    epsilons = {cell.options.get("epsilon") for cell in figure("fig1d").cells("paper")}
    assert epsilons == {None, 0.005, 0.01, 0.05, 0.5, 5}  # 0.01 is the one that section 5.3 names


def test_what_is_drawn_can_be_told_apart_and_named() -> None:
    for one in FIGURES.values():
        assert 1 <= len(one.drawn) <= 6
        assert set(one.drawn) <= {line.name for line in one.lines}
        assert max(len(name) for name in one.drawn) <= 30  # two of them stand side by side in a legend
        assert set(one.metrics) <= set(METRICS)
        assert one.across in AXES


def test_more_seeds_keep_the_cells_of_fewer() -> None:
    few, many = ({cell.key for cell in figure("cost").cells("quick", seeds=n)} for n in (1, 2))
    assert few < many
    assert len(many) == 2 * len(few)
