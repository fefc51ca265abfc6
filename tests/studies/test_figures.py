"""Figures of the results: every page has one below its title, drawn from the numbers that the page holds now."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from studies.figures import FIGURES, RESULTS, draw

PAGES = sorted(RESULTS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_figure_stands_on_the_first_screen(page: Path) -> None:
    first = "\n".join(page.read_text(encoding="utf-8").splitlines()[:12])
    shown = re.findall(r"!\[.+?\]\((.+?\.svg)\)", first)
    assert len(shown) == 1
    ElementTree.parse(RESULTS / shown[0])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_the_numbers_of_its_page(name: str, tmp_path: Path) -> None:
    page = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    (tmp_path / f"{name}.md").write_text(page, encoding="utf-8")
    draw(name, tmp_path)
    assert (tmp_path / f"{name}.md").read_text(encoding="utf-8") == page  # its line is there
    now, kept = ((folder / f"first-{name}.svg").read_text(encoding="utf-8") for folder in (tmp_path, RESULTS))
    assert re.findall(r">([^<>]+)</text>", now) == re.findall(r">([^<>]+)</text>", kept)


def test_a_page_that_was_printed_again_gets_its_figure(tmp_path: Path) -> None:
    page = (RESULTS / "index.md").read_text(encoding="utf-8")
    printed = "\n".join(line for line in page.splitlines() if "first-index.svg" not in line)
    (tmp_path / "index.md").write_text(printed.replace("15 hold, 30", "16 hold, 29"), encoding="utf-8")
    draw("index", tmp_path)
    assert "first-index.svg" in (tmp_path / "index.md").read_text(encoding="utf-8")
    assert ">29<" in (tmp_path / "first-index.svg").read_text(encoding="utf-8")
