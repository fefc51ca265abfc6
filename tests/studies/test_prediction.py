"""The study behind the prediction: a tiny case, the fit, its command."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from studies import prediction
from studies.case import load_case
from studies.frontier.settings import read_frontier
from studies.prediction import Constants, Point, fit, markdown, picture, points
from twofold.release.usefulness import HALF_CLOSED, SPECTRUM


def test_the_curve_that_made_the_points_is_found_again() -> None:
    true = Constants(spectrum=(0.05, 0.9), half_closed=10.0, growth=0.375, spread=0.0)
    spectra = [[(place, 0.05 * place**-0.9) for place in (2, 4, 8, 16)]]
    given = [
        Point(data="x", epsilon=1.0, edge=edge, n_items=300, users=users, share=0.0)
        for edge in np.geomspace(1e-4, 1, 30)
        for users in (20, 900)
    ]
    made = fit(spectra, [replace(one, share=true.share(one)) for one in given])
    assert made.spectrum == pytest.approx(true.spectrum)
    assert made.half_closed == pytest.approx(10, rel=0.03)
    assert made.growth == 0.375
    assert made.spread < 0.01
    assert fit(spectra, [replace(one, share=1.0) for one in given]).half_closed == pytest.approx(1.0)


@pytest.mark.slow
def test_a_tiny_case_gives_points_with_more_noise_at_a_smaller_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "_LEAST_GAP", -np.inf)  # so few people have no gap to speak of
    plan = read_frontier("tiny")
    data = replace(plan.data[0], sample=(1, 1, 1, 1), users=10)
    case = load_case(data.case | {"scale": 0.01}, plan.development)
    found = points(case, data, (0.3, 10.0))
    assert [one.epsilon for one in found] == [0.3, 10.0]
    assert found[0].edge > found[1].edge > 0
    assert found[0].directions(SPECTRUM) <= found[1].directions(SPECTRUM)


def test_the_command_prints_what_the_source_holds(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [Point(data="x", epsilon=1.0, edge=0.001, n_items=300, users=50, share=0.5)]
    monkeypatch.setattr(prediction, "points", lambda *_: made)
    prediction.main(["--size", "tiny", "-o", str(tmp_path)])
    told = capsys.readouterr().out
    assert f"{HALF_CLOSED:g} |" in told
    assert markdown(prediction.HELD, made).splitlines()[-1] in told
    assert (tmp_path / "prediction.svg").read_text().startswith("<svg")
    assert picture([]) is None
