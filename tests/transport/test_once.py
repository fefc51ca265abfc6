"""A file that is written once, whole, on disks that fill up and shares without links."""

from __future__ import annotations

import errno
import os
import stat
import time

import pytest

from twofold.errors import TransportError
from twofold.protocol import files
from twofold.transport import once
from twofold.transport.once import put_once


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_once(tmp_path):
    path = tmp_path / "x"
    assert put_once(path, b"one")
    assert put_once(path, b"one")
    assert not put_once(path, b"two")
    assert not put_once(path, b"o")
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["x"]


def test_the_first_of_two_writers_wins(tmp_path, monkeypatch):
    path, link = tmp_path / "x", os.link

    def late(source, target):
        path.write_bytes(b"first")  # the other one comes in at the last moment
        link(source, target)

    monkeypatch.setattr(os, "link", late)
    assert not put_once(path, b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["x"]


def test_a_share_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "x"
    assert put_once(path, b"one")
    assert not put_once(path, b"two")
    assert path.read_bytes() == b"one"
    assert names(tmp_path) == ["x"]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("module", "name"),
    [(files, "write_all"), (os, "fsync"), (os, "link"), (once, "sync_folder"), (files, "sync_folder")],
)
def test_a_full_disk_leaves_a_whole_file_or_none(tmp_path, monkeypatch, module, name):
    path = tmp_path / "x"
    with monkeypatch.context() as patch:
        patch.setattr(module, name, full)
        if name == "link":
            patch.setattr(type(path), "replace", full)
        with pytest.raises(TransportError, match="No space left"):
            put_once(path, b"one")
    assert not path.exists() or path.read_bytes() == b"one"
    assert set(names(tmp_path)) <= {"x"}
    assert put_once(path, b"one")


def test_as_readable_as_its_folder(tmp_path):
    for mode, expected in ((0o750, 0o640), (0o700, 0o600), (0o755, 0o644)):
        folder = tmp_path / f"{mode:o}"
        folder.mkdir()
        folder.chmod(mode)
        put_once(folder / "x", b"one")
        assert stat.S_IMODE((folder / "x").stat().st_mode) == expected


def test_old_temporary_files_are_cleared_and_young_ones_left(tmp_path):
    old, young, foreign = tmp_path / ".x.0.part", tmp_path / ".x.1.part", tmp_path / ".y.0.part"
    for path in (old, young, foreign):
        path.write_bytes(b"half")
    for path in (old, foreign):
        os.utime(path, (time.time() - 2 * once.OLD,) * 2)
    put_once(tmp_path / "x", b"one")
    assert names(tmp_path) == [".x.1.part", ".y.0.part", "x"]


def test_no_folder(tmp_path):
    with pytest.raises(TransportError):
        put_once(tmp_path / "gone" / "x", b"one")
