"""A missing ledger is announced, refused or made, as was said."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.entity.account import NewLedger
from twofold.errors import BadParameter, LedgerBroken, TransportError
from twofold.simulation.members import check_new_ledgers, ledger_paths, settle_missing

NAMES = {"a": "a", 7: "seven"}


def test_the_folder_is_made_only_when_asked_for(tmp_path: Path) -> None:
    paths = ledger_paths(tmp_path / "new", NAMES, make=False)
    assert [path.name for path in paths.values()] == ["a.ledger", "seven.ledger"]
    assert not (tmp_path / "new").exists()
    assert ledger_paths(tmp_path / "new", NAMES) == paths
    assert (tmp_path / "new").is_dir()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TransportError) as caught:
        ledger_paths(tmp_path / "file", NAMES)
    assert (caught.value.parameter, caught.value.found) == ("ledgers", "FileExistsError")


@pytest.mark.parametrize("new_ledgers", [True, False, None])
def test_nothing_is_said_where_nothing_is_missing(tmp_path: Path, new_ledgers: bool | None) -> None:
    (tmp_path / "a.ledger").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settle_missing([None, tmp_path / "a.ledger"], new_ledgers)
        settle_missing([None], new_ledgers)


def test_missing_ones_are_counted_among_those_that_should_be_there(tmp_path: Path) -> None:
    (tmp_path / "a.ledger").write_text("")
    paths = [tmp_path / "a.ledger", tmp_path / "b.ledger", None]
    settle_missing(paths, True)
    with pytest.warns(NewLedger, match="1 of 2 ledgers"):
        settle_missing(paths, None)
    with refused(LedgerBroken, "new_ledgers", found="1 of 2"):
        settle_missing(paths, False)


@pytest.mark.parametrize("value", [1, "yes", 0.0])
def test_only_yes_no_or_nothing(value: object) -> None:
    with pytest.raises(BadParameter) as caught:
        check_new_ledgers(value)
    assert caught.value.parameter == "new_ledgers"
