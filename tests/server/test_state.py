"""The coordinator's folder after damage by a disk: our errors, no wait, and nothing taken for open that was closed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from twofold.errors import BadMessage, TransportError
from twofold.federation.mailbox import ROUNDS
from twofold.federation.plan import CatalogKey, Plan
from twofold.server.state import FolderState, StepState

PLAN = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with state_of(tmp_path).opened():
        return tmp_path


def state_of(folder: Path) -> StepState:
    return FolderState(folder, PLAN).of(ROUNDS)


def test_what_was_written_is_read(folder: Path):
    state = state_of(folder)
    state.close(["ab" * 32], "everybody came")
    state.refuse({"cd" * 32: ("x.round1", "damaged")})
    assert (state.closed(), state.refused()) == (["ab" * 32], {"cd" * 32: ("x.round1", "damaged")})


@pytest.mark.parametrize(
    "record", [{"a": ["x", "y"]}, {"ab" * 32: 5}, {"ab" * 32: ["x"]}, {"ab" * 32: "xy"}, {"ab" * 32: ["x", 5]}, []]
)
def test_damaged_refusals(folder: Path, record: object):
    """Found by `studies hostile`: TypeError and ValueError came out."""
    (folder / "refused.json").write_text(json.dumps(record))
    with pytest.raises(BadMessage):
        state_of(folder).refused()


@pytest.mark.parametrize("receipt", ["a\0b", "\ud800", "../../x", 5, "AB" * 32, None])
def test_damaged_receipts(folder: Path, receipt: object):
    """Found by `studies hostile`: they became names of files, some of which no file can have."""
    (folder / "closed.json").write_text(json.dumps({"plan": PLAN.hash, "receipts": [receipt], "why": "x"}))
    with pytest.raises(BadMessage):
        state_of(folder).closed()


@pytest.mark.parametrize("name", ["closed.json", "refused.json"])
def test_deep_nesting(folder: Path, name: str):
    (folder / name).write_text('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")
    with pytest.raises(BadMessage):
        (state_of(folder).closed if name == "closed.json" else state_of(folder).refused)()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_the_place_of_a_message_is_not_waited_for(folder: Path):
    os.mkfifo(folder / "messages" / f"{'ab' * 32}.round1")
    with pytest.raises(BadMessage):
        state_of(folder).messages()


def test_a_link_to_nothing_does_not_open_a_closed_step(folder: Path):
    for name in ("closed.json", "items.round2"):
        (folder / name).symlink_to("nowhere")
    with pytest.raises(TransportError):
        state_of(folder).closed()
    with pytest.raises(TransportError):
        state_of(folder).result()
