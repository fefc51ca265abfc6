"""Messages in any form, kept without being held."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.refused import refused
from twofold.errors import TransportError
from twofold.federation.messages import decode_release, receipt
from twofold.federation.plan import Plan
from twofold.server import Server
from twofold.server.factorize import arrived, spilled
from twofold.storage import files

MakePlan = Callable[..., Plan]
MakeMessage = Callable[..., bytes]


def test_one_of_each_entity_in_the_order_of_receipts(make_plan: MakePlan, make_message: MakeMessage) -> None:
    plan = make_plan()
    messages = [make_message(plan, number) for number in range(4)]
    taken = arrived([*messages, messages[2]], plan, spilled(Path, 1 << 30))
    assert [one.receipt for one in taken] == sorted(receipt(data) for data in messages)
    assert sorted(one.entity for one in taken) == [f"site-{number}" for number in range(4)]
    assert all(one.seeded and one.size == len(one.read()) for one in taken)
    assert taken[0].load(plan).receipt == taken[0].receipt


def test_a_single_message_need_not_be_in_a_list(make_plan: MakePlan, make_message: MakeMessage, tmp_path: Path) -> None:
    plan = make_plan(n_entities=1)
    data = make_message(plan, 0)
    (tmp_path / "one").write_bytes(data)
    for form in (data, decode_release(data, plan), tmp_path / "one", str(tmp_path / "one")):
        assert Server(plan).factorize(form).entities == 1  # type: ignore[arg-type]


def test_spilled_bytes_are_private_to_their_owner(tmp_path: Path) -> None:
    read = spilled(lambda: tmp_path, 0)(b"abc")
    (path,) = tmp_path.iterdir()
    assert path.stat().st_mode & 0o077 == 0
    assert read() == b"abc"


def test_a_full_disk_is_an_error_of_ours_and_leaves_nothing(
    make_plan: MakePlan, make_message: MakeMessage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan()

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "_write_new", no_room)
    with refused(TransportError, "path", found=os.strerror(errno.ENOSPC)):
        Server(plan, memory_limit=1, scratch=tmp_path).factorize([make_message(plan, 0)])
    assert not list(tmp_path.iterdir())
