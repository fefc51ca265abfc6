"""Every claim of the paper is attached to a figure, and somebody judges it."""

from __future__ import annotations

from types import ModuleType

from studies.paper import controls, eicu, fig1, movielens, related, supplement
from studies.paper.claims import CLAIMS, claims_of
from studies.paper.figures import FAMILIES, FIGURES
from studies.paper.run import JUDGES


def test_every_claim_is_attached_to_a_figure_that_exists() -> None:
    assert {claim.figure for claim in CLAIMS} <= set(FIGURES)
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)


def test_every_figure_answers_something() -> None:
    assert [name for name in FIGURES if not claims_of(name)] == []


HOMES: dict[ModuleType, tuple[str, ...]] = {
    fig1: ("fig1",),
    eicu: ("eicu", "eicu_demo", "eicu_full"),
    movielens: ("movielens",),
    supplement: ("exp1", "entities", "supplement"),
    related: ("private_kmeans", "tensor", "synthesis"),
    controls: ("masked_truth", "cost", "noise_control", "comparison", "systems"),
}


def test_judges_and_claims_belong_together() -> None:
    for module, families in HOMES.items():
        figures = [one.name for one in FIGURES.values() if one.family in families]
        assert set(module.JUDGES) == {claim.key for name in figures for claim in claims_of(name)}
    assert sorted(family for families in HOMES.values() for family in families) == sorted(FAMILIES)
    assert set(JUDGES) == {claim.key for claim in CLAIMS}


def test_all_parts_of_the_paper_have_claims() -> None:
    places = " ".join(claim.place for claim in CLAIMS if claim.kind == "paper")
    panels = ("Fig. 1a", "Fig. 1b", "Fig. 1c", "Fig. 1d", "panel a", "panel b", "panel c")
    supplement = ("Experiment 1", "number of entities", "Experiment 2", "MovieLens")
    assert [part for part in ("section 5.3", "section 5.4", *panels, *supplement) if part not in places] == []


def test_words_are_whole_sentences() -> None:
    for claim in CLAIMS:
        assert claim.words.endswith(".")
        assert claim.place
