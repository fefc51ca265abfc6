"""A power cut keeps only what was synced: a model of such a disk, cut at every step of two releases."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from twofold.privacy.budget import PureDP
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.rng import Source
from twofold.privacy.unit import Unit
from twofold.storage import files as disk

UNIT = Unit.person()
EVENT = ThresholdEvent(unit=UNIT, scale=10, threshold=5)
#: Room for the two releases and not one more.
TWICE = Fraction(2, 10)


class PowerCut(BaseException):
    """Nothing runs after this."""


class Disk:
    """What survives at the least: bytes of a file as of its last sync, names of a folder as of its last sync."""

    def __init__(self, cut: int) -> None:
        self.left = cut
        self.content: dict[int, bytes] = {}
        self.names: dict[Path, dict[str, int]] = {}

    def step(self, name: str) -> None:
        self.left -= 1
        if self.left <= 0:
            raise PowerCut(name)

    def fsync(self, descriptor: int) -> None:
        path, number = Path(f"/proc/self/fd/{descriptor}").readlink(), os.fstat(descriptor).st_ino
        if path.is_dir():
            self.names[path] = {one.name: one.stat().st_ino for one in path.iterdir()}
        else:
            self.content[number] = path.read_bytes()

    def adopt(self, folder: Path) -> None:
        """Start from a folder that is wholly on the disk."""
        self.names[folder] = {one.name: one.stat().st_ino for one in folder.iterdir()}
        for one in folder.iterdir():
            if one.is_dir():
                self.adopt(one)
            else:
                self.content[one.stat().st_ino] = one.read_bytes()

    def survivors(self, folder: Path, target: Path) -> None:
        """Write the folder as it would be found after the cut."""
        target.mkdir()
        for name, number in self.names.get(folder, {}).items():
            if (folder / name) in self.names or name.endswith(".releases"):
                self.survivors(folder / name, target / name)
            else:
                (target / name).write_bytes(self.content.get(number, b""))


def release(path: Path, name: str, seen: list[str], *, keyed: bool = False) -> bytes:
    def draw() -> bytes:
        seen.append(f"draw {name}")
        return os.urandom(50)

    def draw_from(source: Source) -> bytes:
        content = source.words(6).tobytes()
        seen.append(f"draw {name} {content.hex()}")
        return content

    draw = draw_from if keyed else draw
    return Ledger(path).release(
        plan=digest(b"p"), data=digest(b"d"), version=name, events=[EVENT], unit=UNIT, draw=draw
    )


def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cut: int, model: Disk | None = None, *, keyed: bool = False
) -> tuple[Disk, list[str], dict[str, bytes]]:
    """Create a ledger if need be and release twice; stop at step `cut`. Give what the disk and the world know."""
    seen, sent = [], {}
    if model is None:
        model = Disk(cut)
        model.adopt(folder)
    model.left = cut
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_listener", model.step)
        patch.setattr(disk, "os", SimpleNamespace(**{**vars(os), "fsync": model.fsync}))
        try:
            if not (folder / "x").exists():
                ceiling = PureDP(epsilon=TWICE if keyed else 1)
                Ledger.create(folder / "x", dataset="x", ceiling=ceiling, unit=UNIT)
            seen.append("created")
            for name in ("a", "b"):
                sent[name] = release(folder / "x", name, seen, keyed=keyed)
        except PowerCut:
            pass
    return model, seen, sent


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_whatever_was_drawn_is_paid_for_and_whatever_was_sent_is_kept(tmp_path, monkeypatch):
    met = set()
    for cut in range(1, 80):
        folder = tmp_path / str(cut)
        folder.mkdir()
        model, seen, sent = run(folder, monkeypatch, cut)
        after = tmp_path / f"{cut} after"
        model.survivors(folder, after)
        met.add((tuple(seen), tuple(sent)))
        if "created" not in seen:
            continue
        ledger = Ledger(after / "x")
        ledger.verify()
        for name, content in sent.items():
            again = ledger.release(
                plan=digest(b"p"), data=digest(b"d"), version=name, events=[EVENT], unit=UNIT, draw=lambda: b"another"
            )
            assert again == content, f"cut at step {cut}"
        draws = sum(one.startswith("draw") for one in seen)
        assert ledger.state().spent.epsilon * 10 >= draws, f"cut at step {cut}"
    # before creation, created, drawn a, sent a, drawn b, sent b: every stage was cut at least once
    assert len(met) == 6


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_kill_and_then_a_cut_loses_nothing(tmp_path, monkeypatch):
    """What a killed process wrote is there for the next one and perhaps not on the disk: it must be synced again."""
    for first in range(11, 62):
        for second in (3, 7, 9, 12, 999):
            folder, after = tmp_path / f"{first} {second}", tmp_path / f"{first} {second} after"
            folder.mkdir()
            model, seen, sent = run(folder, monkeypatch, first)
            _, later, more = run(folder, monkeypatch, second, model)
            model.survivors(folder, after)
            ledger = Ledger(after / "x")
            ledger.verify()
            for name, content in {**more, **sent}.items():
                stored = ledger.release(
                    plan=digest(b"p"),
                    data=digest(b"d"),
                    version=name,
                    events=[EVENT],
                    unit=UNIT,
                    draw=lambda: b"another",
                )
                assert stored == content, f"kill at {first}, cut at {second}"
            draws = sum(one.startswith("draw") for one in seen + later)
            assert ledger.state().spent.epsilon * 10 >= draws, f"kill at {first}, cut at {second}"


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_second_cut_during_the_mending_loses_nothing_either(tmp_path, monkeypatch):
    for first in range(11, 70, 4):
        folder = tmp_path / str(first)
        folder.mkdir()
        model, seen, sent = run(folder, monkeypatch, first)
        after = tmp_path / f"{first} after"
        model.survivors(folder, after)
        for second in (1, 2, 3, 5, 8, 9, 10, 13, 21, 34, 999):
            model, later, more = run(after, monkeypatch, second)
            after, before = tmp_path / f"{first} {second}", after
            model.survivors(before, after)
            seen, sent = seen + later, {**more, **sent}
            assert all(sent[name] == content for name, content in more.items()), f"cut at {first}, then {second}"
        state = Ledger(after / "x").state()
        Ledger(after / "x").verify()
        assert state.spent.epsilon * 10 >= sum(one.startswith("draw") for one in seen)
        assert sorted(sent) == ["a", "b"]


def finish(folder: Path, seen: list[str], sent: dict[str, bytes], where: str) -> None:
    """Start again on what the cut left, with room for what was paid and no more: nothing is paid or drawn anew."""
    for name in ("a", "b"):
        content = release(folder / "x", name, seen, keyed=True)
        assert sent.get(name, content) == content, where
        drawn = {one.split()[2] for one in seen if one.startswith(f"draw {name}")}
        assert drawn == {content.hex()}, where
    state = Ledger(folder / "x").state()
    assert [entry.status for entry in state.entries] == ["released", "released"], where
    assert state.spent.epsilon == TWICE, where
    assert not list(folder.rglob("*.key")), where
    Ledger(folder / "x").verify()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_after_a_cut_anywhere_a_keyed_draw_is_made_again_the_same(tmp_path, monkeypatch):
    redrawn, cut, sent = 0, 0, {}
    while len(sent) < 2:
        cut += 1
        folder, after = tmp_path / str(cut), tmp_path / f"{cut} after"
        folder.mkdir()
        model, seen, sent = run(folder, monkeypatch, cut, keyed=True)
        model.survivors(folder, after)
        if "created" in seen:
            finish(after, seen, sent, f"cut at step {cut}")
            redrawn += len(set(seen)) < len(seen)
    assert redrawn > 8


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_after_a_kill_and_then_a_cut_a_keyed_draw_is_made_again_the_same(tmp_path, monkeypatch):
    for first in range(11, 80, 4):
        for second in (3, 7, 9, 12, 16, 21, 27, 34):
            folder, after = tmp_path / f"{first} {second}", tmp_path / f"{first} {second} after"
            folder.mkdir()
            model, seen, sent = run(folder, monkeypatch, first, keyed=True)
            _, later, more = run(folder, monkeypatch, second, model, keyed=True)
            model.survivors(folder, after)
            finish(after, seen + later, {**more, **sent}, f"kill at {first}, cut at {second}")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("skipped", ["file", "folder"])
def test_the_model_notices_a_missing_sync(tmp_path, monkeypatch, skipped):
    """A writer that forgets to sync files, or folders, loses a release in the model."""
    real = Disk.fsync

    def lazy(self: Disk, descriptor: int) -> None:
        folder = Path(f"/proc/self/fd/{descriptor}").readlink().is_dir()
        if folder != (skipped == "folder"):
            real(self, descriptor)

    folder = tmp_path / "x"
    folder.mkdir()
    monkeypatch.setattr(Disk, "fsync", lazy)
    model, _, sent = run(folder, monkeypatch, 10**6)
    assert len(sent) == 2
    model.survivors(folder, tmp_path / "after")
    with pytest.raises(Exception, match="ledger"):
        Ledger(tmp_path / "after" / "x").verify()
