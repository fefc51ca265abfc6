"""What may leave an outbox and how what arrives is stored; needs no Flower."""

from __future__ import annotations

import doctest
import hashlib
import os
from pathlib import Path

import pytest

from twofold_flower import folders, guard
from twofold_flower.folders import DOWN, UP, Limits, Parcel, digests, outgoing, store

LIMITS = Limits(size=100, batch=250, files=3, total=300)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("module", [folders, guard], ids=["folders", "guard"])
def test_examples(module: object) -> None:
    tried = doctest.testmod(module, optionflags=doctest.ELLIPSIS)  # type: ignore[arg-type]
    assert tried.attempted
    assert not tried.failed


def test_only_messages_leave(tmp_path: Path) -> None:
    """A table, a link to one, a pipe, an unfinished file and a folder stay where they are."""
    (tmp_path / "anna.round1").write_bytes(b"release")
    (tmp_path / "anna.agreement").write_bytes(b"agreement")
    (tmp_path / "visits.csv").write_bytes(b"user,item")
    (tmp_path / "visits").write_bytes(b"user,item")
    (tmp_path / "x.round2").write_bytes(b"what came down does not go up")
    (tmp_path / "linked.round1").symlink_to(tmp_path / "visits.csv")
    (tmp_path / ".half.round1").write_bytes(b"half")
    (tmp_path / "folder.round1").mkdir()
    (tmp_path / "empty.round1").touch()
    os.mkfifo(tmp_path / "pipe.round1")
    found = outgoing(tmp_path, UP, (), LIMITS)
    assert [(one.kind, one.data) for one in found] == [("agreement", b"agreement"), ("round1", b"release")]
    assert outgoing(tmp_path, UP, [sha(b"agreement"), sha(b"release")], LIMITS) == []
    assert outgoing(tmp_path / "nowhere", UP, (), LIMITS) == []


def test_limits_of_what_leaves(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"{number}.round1").write_bytes(bytes([number]) * 90)
    (tmp_path / "large.round1").write_bytes(b"x" * 101)
    first = outgoing(tmp_path, UP, (), LIMITS)
    assert [one.data[0] for one in first] == [0, 1]  # three would be 270 bytes
    rest = outgoing(tmp_path, UP, [one.digest for one in first], LIMITS)
    assert [one.data[0] for one in rest] == [2, 3]


def test_what_arrives_is_stored_once_under_a_name_of_its_own(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    one = Parcel.of("round2", b"factors")
    assert store(inbox, [one, one], DOWN, LIMITS) == [one.digest, one.digest]
    (file,) = inbox.iterdir()
    assert file.read_bytes() == b"factors"
    assert file.name.split(".")[1:] == [one.digest[:16], "round2"]
    stamp = file.stat().st_mtime_ns
    assert store(inbox, [one], DOWN, LIMITS) == [one.digest]
    assert file.stat().st_mtime_ns == stamp
    assert digests(inbox, DOWN, LIMITS) == [one.digest]


@pytest.mark.parametrize(
    "label",
    ["../../etc/x.round2", f"{'0' * 64}.round2", f"{sha(b'x')}", f"{sha(b'x')}./x", f"{sha(b'x').upper()}.round2", ""],
)
def test_a_label_that_is_not_that_of_the_bytes_is_nothing(label: str) -> None:
    assert Parcel.read(label, b"x") is None


def test_what_is_not_taken(tmp_path: Path) -> None:
    """Of another kind, too large, too many, or too much in all."""
    kinds = [Parcel.of("round1", b"up"), Parcel.of("sh", b"code"), Parcel.of("py", b"code")]
    assert store(tmp_path, kinds, DOWN, LIMITS) == []
    assert store(tmp_path, [Parcel.of("round2", b"x" * 101)], DOWN, LIMITS) == []
    many = [Parcel.of("round2", bytes([number]) * 60) for number in range(10)]
    assert len(store(tmp_path, many, DOWN, LIMITS)) == 3
    assert len(store(tmp_path, many[3:], DOWN, LIMITS)) == 2  # five of sixty bytes are three hundred
    assert len(list(tmp_path.iterdir())) == 5


def test_a_name_that_a_stranger_has_taken_is_not_overwritten(tmp_path: Path) -> None:
    one, outside = Parcel.of("round2", b"factors"), tmp_path / "outside"
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / one.file).symlink_to(outside)
    assert store(inbox, [one], DOWN, LIMITS) == []
    assert not outside.exists()
    (inbox / one.file).unlink()
    (inbox / one.file).write_bytes(b"others")
    assert store(inbox, [one], DOWN, LIMITS) == []
    assert (inbox / one.file).read_bytes() == b"others"
