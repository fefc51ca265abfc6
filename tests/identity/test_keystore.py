"""Keys on disk: one plan, one version, one list, one message, one answer; and what never shows."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from twofold.errors import PlanMismatch, PrivacyError, TwofoldError, UnreadableSource
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keystore import KeyStore, new_keys
from twofold.secure_sum import Keys
from twofold.storage import files as disk

PLAN = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
OTHER = PLAN.with_(name="other")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    new_keys(tmp_path / "st-anna.keys", "st-anna")
    return tmp_path / "st-anna.keys"


def test_asked_again_the_same_keys_are_given_and_only_this_user_reads_them(file: Path):
    before = file.read_bytes()
    assert new_keys(file, "st-anna") == new_keys(file, "st-anna")
    assert file.read_bytes() == before
    KeyStore(file).bind(PLAN.hash)
    KeyStore(file).keep_participants("1" * 64)
    KeyStore(file).keep_message("2" * 64)
    KeyStore(file).keep_answer(b"answer")
    if os.name == "posix":
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        assert len(modes) == 6
        assert set(modes.values()) == {0o600}


def test_a_bad_name_makes_no_file(tmp_path: Path):
    with pytest.raises(TwofoldError, match="name"):
        new_keys(tmp_path / "x.keys", "../x")
    assert not list(tmp_path.iterdir())


def test_one_plan_and_one_version_only(file: Path):
    assert KeyStore(file).plan_hash is None
    KeyStore(file).bind(PLAN.hash)
    KeyStore(file).bind(PLAN.hash)
    assert KeyStore(file).plan_hash == PLAN.hash
    with pytest.raises(PlanMismatch, match="another plan"):
        KeyStore(file).bind(OTHER.hash)
    with pytest.raises(PrivacyError, match="another version"):
        KeyStore(file).bind(PLAN.hash, "2")


@pytest.mark.parametrize("in_memory", [False, True])
def test_what_is_kept_is_kept_for_good(file: Path, in_memory: bool):
    store = KeyStore(KeyStore(file).keys) if in_memory else KeyStore(file)
    assert not store.masked
    for keep, one, two in (
        (store.keep_participants, "1" * 64, "2" * 64),
        (store.keep_message, "1" * 64, "2" * 64),
        (store.keep_answer, b"one", b"two"),
    ):
        keep(one)
        keep(one)
        with pytest.raises(TwofoldError):
            keep(two)
        keep(one)
    assert store.masked


def test_two_processes_agree_on_one_answer(file: Path):
    """Also where there are no hard links: the lock makes one wait for the other."""
    given: list[bytes] = []

    def one(data: bytes) -> None:
        with suppress(PrivacyError):
            given.append(KeyStore(file).keep_answer(data))

    threads = [threading.Thread(target=one, args=(f"answer {number}".encode(),)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 1


def test_a_crash_at_any_step_leaves_all_or_nothing(file: Path, monkeypatch: pytest.MonkeyPatch):
    class Crash(BaseException):
        pass

    for last in range(1, 40):
        place = file.with_name(f"{last}.keys")
        place.write_bytes(file.read_bytes())
        seen: list[str] = []

        def end(name: str, last: int = last, seen: list[str] = seen) -> None:
            seen.append(name)
            if len(seen) == last:
                raise Crash

        with monkeypatch.context() as patch:
            patch.setattr(disk, "_listener", end)
            try:
                KeyStore(place).keep_answer(b"one")
            except Crash:
                pass
            else:
                break
        left = place.with_name(f"{last}.keys.answer")
        assert not left.exists() or left.read_bytes() == b"one"
        assert KeyStore(place).keep_answer(b"one") == b"one"
    assert last > 3


def test_lost_keys_are_not_made_anew_over_their_memory(file: Path):
    KeyStore(file).bind(PLAN.hash)
    file.unlink()
    with pytest.raises(PlanMismatch, match=r"gone[\s\S]*st-anna\.keys\.plan"):
        new_keys(file, "st-anna")
    assert not file.exists()


def test_no_file_and_another_file(tmp_path: Path):
    with pytest.raises(UnreadableSource, match="no file of secret keys"):
        KeyStore(tmp_path / "st-anna.keys")
    (tmp_path / "x").write_bytes(b"{}")
    with pytest.raises(TwofoldError):
        KeyStore(tmp_path / "x")


def test_errors_show_no_key(tmp_path: Path):
    secret = Keys.new().to_bytes()
    for change in (secret[:-3], secret.replace(b'"version":1', b'"version":2'), secret.replace(b'"salt"', b'"malt"')):
        (tmp_path / "x").write_bytes(change)
        with pytest.raises(TwofoldError) as error:
            KeyStore(tmp_path / "x")
        text = str(error.value)
        assert not any(secret.hex()[at : at + 16] in text.encode().hex() for at in range(60, 400, 16))


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_in_the_place_of_the_memory_is_refused(file: Path, tmp_path: Path):
    (tmp_path / "elsewhere").write_bytes(b"1" * 64)
    (tmp_path / "st-anna.keys.roll").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TwofoldError):
        KeyStore(file).keep_participants("1" * 64)
