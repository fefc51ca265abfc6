"""The command of the bounds: what is measured stays below, and the page shows what it prints."""

from __future__ import annotations

import pytest

from studies.bounds import lines, markdown
from twofold.errors import MissingDataset


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
    assert markdown(found).count("| hospitals |") == 8
