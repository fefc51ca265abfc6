"""Plots: the same bytes twice, nothing fetched, labels kept as they are, and readable without colour."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib
import pytest

from tests.refused import refused
from twofold.errors import BadShape, MissingExtra
from twofold.report.page import render
from twofold.report.plot import DASHES, MARKERS, Plot, Series, spaced


def plot(names: tuple[str, ...] = ("alone", "private"), **changes: object) -> Plot:
    series = tuple(
        Series(name=name, x=(1.0, 10.0, 100.0), y=(0.1 * k, 0.2, 0.3), spread=(0.01, 0.02, 0.03))
        for k, name in enumerate(names)
    )
    given = {"caption": "c", "description": "d", "x_label": "users", "y_label": "nDCG", "series": series}
    return Plot(**{**given, **changes})  # type: ignore[arg-type]


def test_equal_content_gives_equal_bytes() -> None:
    assert plot().html() == plot().html()
    assert plot().svg() != plot(("alone", "other")).svg()


def test_it_is_well_formed_and_fetches_nothing() -> None:
    text = plot(log_x=True, level=0.1).svg()
    ElementTree.fromstring(text)
    assert "http" not in text
    assert "xlink" not in text
    assert "<style" not in text  # would rule the whole page
    assert "<metadata" not in text
    assert not re.search(r"#[0-9a-f]{6}\b", text)  # every colour is the page's


def test_a_picture_stands_alone() -> None:
    made = plot(log_x=True, x_label="12.3456 <!-- no comment -->")
    text = made.picture()
    root = ElementTree.fromstring(text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert text.count("http") == 1  # the name of the format; nothing is fetched
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= set(re.findall(r"(--[\w-]+):", text))
    words = [one.text for one in root.iter() if one.tag.endswith("text")]
    assert "12.3456 <!-- no comment -->" in words
    assert len(text) < len(made.svg()) + 1_500
    assert text == made.picture()


def test_two_plots_share_no_name() -> None:
    def names(text: str) -> set[str]:
        return set(re.findall(r'\bid="([^"]+)"', text))

    one, other = plot().svg(), plot(("alone", "other")).svg()
    assert names(one)
    assert not names(one) & names(other)
    assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', one)) <= names(one)


@pytest.mark.parametrize("label", ["_hidden", "cost in $ and $", '<b id="x">', "#010101", "url(#a)", "ε ≤ 1 & more"])
def test_words_are_drawn_as_they_are(label: str) -> None:
    root = ElementTree.fromstring(plot((label, "other"), x_label=label).svg())
    words = [text.text for text in root.iter() if text.tag.endswith("text")]
    assert words.count(label) == 2  # axis and legend


def test_the_description_is_read_aloud() -> None:
    text = plot(description='A "line" <up>').svg()
    assert 'role="img" aria-label="A &quot;line&quot; &lt;up&gt;"' in text


def test_lines_differ_without_colour() -> None:
    looks = {(marker, str(dash)) for marker, dash in zip(MARKERS, DASHES, strict=True)}
    assert len(set(MARKERS)) == len({str(dash) for dash in DASHES}) == len(looks) == len(colours(0)) == len(colours(1))


def colours(number: int) -> list[str]:
    """Colours of the lines, on white or on the dark ground, in the order of their names."""
    found = re.findall(r"--line-(\d): (#[0-9a-f]{6});", render("colours.css").split("@media")[number])
    assert [int(name) for name, _ in found] == list(range(len(found)))
    return [colour for _, colour in found]


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("number", "ground"), [(0, "#ffffff"), (1, "#14171a")])
def test_colours_stand_out_on_their_ground(number: int, ground: str) -> None:
    assert f"--ground: {ground.replace('#ffffff', '#fff')};" in render("colours.css").split("@media")[number]
    for colour in colours(number):
        light, dark = sorted((luminance(colour), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, colour


def test_the_numbers_are_beside_the_plot() -> None:
    gap = Series(name="gap", x=(1.0, 2.0), y=(float("nan"), 0.25))
    text = plot(series=(gap,), ticks=((1.0, "first"), (2.0, "second"))).html()
    assert '<th scope="row">gap</th><td class="number">first</td><td class="number">–</td>' in text
    assert '<td class="number">second</td><td class="number">0.25</td>' in text


def test_drawing_leaves_no_trace() -> None:
    before = dict(matplotlib.rcParams)
    plot().svg()
    assert dict(matplotlib.rcParams) == before


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(BadShape):
        Series(name="x", x=(1.0,), y=(1.0, 2.0))
    with pytest.raises(BadShape):
        Series(name="x", x=(1.0,), y=(1.0,), spread=(1.0, 2.0))


def test_points_stand_beside_each_other_and_names_at_the_ends_of_lines() -> None:
    ends = ((0.1, 0.3), (0.1, 0.4), (0.2, 0.5))
    lines = tuple(
        Series(name=name, x=(0.0, 1.0, 2.0), y=(0.2, 0.3, 0.4), interval=ends, offset=0.1 * at)
        for at, name in enumerate(("alone", "model", "random"))
    )
    made = plot(series=lines, direct=True)
    root = ElementTree.fromstring(made.svg())
    words = [text.text for text in root.iter() if text.tag.endswith("text")]
    assert [words.count(one.name) for one in lines] == [1, 1, 1]
    markers = {tuple(sorted(use.attrib.items())) for use in root.iter() if use.tag.endswith("use")}
    assert len(markers) >= 9  # none hides another
    heights = [
        float(re.findall(r"[-\d.]+", text.attrib["transform"])[-1])
        for text in root.iter()
        if text.tag.endswith("text") and text.text in ("alone", "model", "random") and "transform" in text.attrib
    ]
    assert len({round(height) for height in heights}) == len(heights)
    rows = made.numbers().rows
    assert rows[0][1:] == ("0", "0.2", "0.1 to 0.3")
    assert rows[3][1] == "0"  # an offset is for the eye only


@pytest.mark.parametrize("heights", [[0.5] * 6, [0.0, 0.01, 0.99, 1.0], [0.2], [], [0.1, 0.5, 0.5, 0.52, 0.9]])
def test_names_are_moved_apart_and_stay_in_order(heights: list[float]) -> None:
    found = spaced(heights, 0.1)
    assert all(later - earlier > 0.1 - 1e-9 for earlier, later in pairwise(found))
    assert len(found) == len(heights)
    assert all(-1e-9 <= one <= 1 + 1e-9 for one in found)


def test_more_names_than_room_still_have_their_distance() -> None:
    found = spaced([0.5] * 20, 0.1)
    assert all(later - earlier > 0.1 - 1e-9 for earlier, later in pairwise(found))


def test_an_interval_has_one_pair_of_ends_per_point() -> None:
    with pytest.raises(BadShape):
        Series(name="x", x=(1.0, 2.0), y=(1.0, 2.0), interval=((0.5, 1.5),))


def test_without_the_extra_a_page_has_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.report.plot.find_spec", lambda _: None)
    made = plot()
    shown = made.html()
    assert "<svg" not in shown
    assert "twofold[plot]" in shown
    assert made.numbers().html() in shown
    with refused(MissingExtra, parameter="plot"):
        made.svg()
