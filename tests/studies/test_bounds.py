"""The command of the bounds: what is measured stays below, and the page shows what it prints.

What is measured takes a while, so of that the page is taken at its word; all else is computed anew.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from studies.bounds import Line, Weighing, lines, markdown, moments_with, proved, setting, weighing
from studies.case import load_case
from twofold.errors import MissingDataset
from twofold.release.bilinear.layout import BilinearLayout
from twofold.release.bilinear.records import exact_sums
from twofold.release.contract import check_rows

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "error_bounds.md").read_text(encoding="utf-8")


def test_what_is_not_here_is_left_out_and_named_unless_it_was_asked_for(monkeypatch, capsys) -> None:
    import studies.bounds as module

    def some(names, *, draws):
        if "movielens" in names:
            raise MissingDataset("not here.", parameter="data")
        return iter(())

    monkeypatch.setattr(module, "lines", some)
    module.main([])
    told = capsys.readouterr()
    assert "movielens" in told.err
    assert "| data |" in told.out
    with pytest.raises(MissingDataset):
        module.main(["--data", "movielens"])


def test_measured_errors_stay_below_their_bounds_and_entries_are_as_expected(monkeypatch) -> None:
    import studies.bounds as module

    monkeypatch.setitem(module._DATA, "hospitals", {"source": "hospitals", "scale": 0.002, "n_hospitals": 2})
    found = list(lines(["hospitals"], epsilons=("1", "10"), draws=1))
    assert len(found) == 4
    for one in found:
        assert 0.5 * one.moments < one.moments_found <= one.moments
        assert abs(one.entry_found / one.entry - 1) < 0.02
        for rank, best, most, lost in one.excess:
            assert -1e-9 <= lost <= min(most, 1 - best + 1e-9)
            assert rank in (1, 10, 50)
    assert markdown(found).count("| hospitals |") == 9
    assert len({one.weighing for one in found}) == 1


def rows() -> list[list[list[str]]]:
    """Cells of the page's tables, without their heads."""
    tables = re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)
    return [[line.strip("| ").split(" | ") for line in table.splitlines()[2:]] for table in tables]


def weighed() -> Weighing:
    """Of the hospitals of the page."""
    train = load_case({"source": "hospitals", "scale": 0.1}, 0).train
    public = setting(train.n_users, len(train.catalog), len(train), epsilon="1", noise="")
    layout = BilinearLayout.of(public, "gram")
    sums = [exact_sums(check_rows(one.matrix, public), public, layout) for one in train.values()]
    tables = [moments_with(one, 0.0, public, layout, seed=0) for one in sums]
    return weighing(np.array([float(one.matrix.shape[0]) for one in train.values()]), tables)


def test_the_page_shows_what_the_command_prints() -> None:
    """Its measured numbers, with bounds and expectations from public numbers, give its tables, digit by digit."""
    moments, excess, _ = rows()
    found, by_size = [], weighed()
    for (name, *sizes, epsilon, noise, _, norm, _, entry), (*same, one, two, three) in zip(
        moments, excess, strict=True
    ):
        assert same == [name, epsilon, noise]
        people, items, entities = (int(cell.replace(",", "")) for cell in sizes)
        bounds = proved(setting(people, items, entities, epsilon=epsilon, noise=noise), people)
        cells = [[cell.split(", ")[place] for cell in (one, two, three)] for place in (0, 2)]
        best, lost = ([float(number) for number in part] for part in cells)
        found.append(
            Line(
                data=name,
                people=people,
                items=items,
                entities=entities,
                epsilon=epsilon,
                noise=noise,
                moments=bounds.moments,
                moments_found=float(norm),
                entry=bounds.entry,
                entry_found=float(entry),
                excess=tuple(zip((1, 10, 50), best, bounds.excess, lost, strict=True)),
                weighing=by_size,
            )
        )
    assert [(one.noise, one.epsilon) for one in found] == [
        (noise, epsilon) for epsilon in ("0.1", "1", "10") for noise in ("own, plain sum", "secure sum")
    ]
    for table in markdown(found).split("\n\n"):
        assert f"\n{table}\n" in PAGE


def test_what_the_page_says_of_its_tables_is_in_them() -> None:
    moments, excess, ((*_, share, moved, _, ten, _),) = rows()
    for cells in moments:
        assert 1.05 < float(cells[6]) / float(cells[7]) < 1.13
    times: dict[int, list[float]] = {3: [], 4: []}
    for cells in excess:
        for place, found in times.items():
            _, most, lost = cells[place].split(", ")
            if most != "nothing said":
                found.append(float(most) / float(lost))
    assert [round(min(times[4])), 10 * round(max(times[4]) / 10)] == [9, 120]
    assert round(min(times[3])) == 22
    assert max(times[3]) > 2000
    assert "9 to 120 times at ten directions, 22 to thousands of times at one" in " ".join(PAGE.split())
    assert f"Weights leave {share} of the noise" in PAGE
    own = [float(cells[7]) for cells in moments if cells[5] != "secure sum"]
    assert own[0] * float(share) > float(moved) > max(own[1:])
    at_ten = [float(cells[4].split(", ")[2]) for cells in excess if cells[2] != "secure sum"]
    assert at_ten[1] / 10 > float(ten) > at_ten[2]


def test_a_weighted_sum_moves_what_entities_do_not_share() -> None:
    """Alike entities move nothing; equal sizes neither, and these save no noise."""
    sizes, table = np.array([1.0, 5.0, 30.0]), np.diag([0.5, 0.3, 0.2])
    alike = weighing(sizes, [size * table for size in sizes])
    assert alike.moved < 1e-12
    assert max(map(abs, alike.lost)) < 1e-12
    assert alike.noise == pytest.approx(sizes.sum() / math.sqrt(3) / np.linalg.norm(sizes))
    equal = weighing(np.full(3, 4.0), [np.diag(row) for row in 4 * np.eye(3)])
    assert (equal.noise, equal.moved) == (pytest.approx(1), pytest.approx(0))
