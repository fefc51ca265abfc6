"""Keys on disk: one plan, one version, one list, one message, one answer; agreements; and what never shows."""

from __future__ import annotations

import json
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.refused import refused
from twofold.errors import BadPlan, PlanMismatch, PrivacyError, TwofoldError, UnreadableSource
from twofold.federation.plan import CatalogKey, Plan
from twofold.identity.keys import Role, Secrets
from twofold.identity.keystore import KeyStore, agreement_text, new_keys
from twofold.storage import files as disk
from twofold.storage.signing import Purpose, verify

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
    KeyStore(file).agree(PLAN.hash)
    KeyStore(file).confirm(PLAN.hash)
    if os.name == "posix":
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        assert len(modes) == 8
        assert set(modes.values()) == {0o600}


def test_a_bad_name_makes_no_file(tmp_path: Path):
    with refused(BadPlan, "entity"):
        new_keys(tmp_path / "x.keys", "../x")
    assert not list(tmp_path.iterdir())


def test_one_plan_and_one_version_only(file: Path):
    assert KeyStore(file).plan_hash is None
    KeyStore(file).bind(PLAN.hash)
    KeyStore(file).bind(PLAN.hash)
    assert KeyStore(file).plan_hash == PLAN.hash
    with refused(PlanMismatch, "plan"):
        KeyStore(file).bind(OTHER.hash)
    with refused(PrivacyError, "version"):
        KeyStore(file).bind(PLAN.hash, "2")


@pytest.mark.parametrize("in_memory", [False, True])
def test_what_is_kept_is_kept_for_good(file: Path, in_memory: bool):
    store = KeyStore(Secrets.from_bytes(file.read_bytes())) if in_memory else KeyStore(file)
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
    with refused(PlanMismatch, "keys", found="st-anna.keys.plan"):
        new_keys(file, "st-anna")
    assert not file.exists()


def test_no_file_and_another_file(tmp_path: Path):
    with refused(UnreadableSource, "keys"):
        KeyStore(tmp_path / "st-anna.keys")
    (tmp_path / "x").write_bytes(b"{}")
    with pytest.raises(TwofoldError):
        KeyStore(tmp_path / "x")


def test_errors_show_no_key(tmp_path: Path):
    secret = Secrets.new("st-anna").to_bytes()
    parts = [text for text in json.loads(secret).values() if len(text) == 64]
    assert len(parts) == 5
    for change in (secret[:-3], secret.replace(b"secrets/1", b"secrets/2"), secret.replace(b'"salt"', b'"malt"')):
        (tmp_path / "x").write_bytes(change)
        with refused(BadPlan, "keys") as error:
            KeyStore(tmp_path / "x")
        assert not any(text[at : at + 16] in str(error.value) for text in parts for at in range(0, 64, 16))


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_in_the_place_of_the_memory_is_refused(file: Path, tmp_path: Path):
    (tmp_path / "elsewhere").write_bytes(b"1" * 64)
    (tmp_path / "st-anna.keys.roll").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TwofoldError):
        KeyStore(file).keep_participants("1" * 64)


# Agreements and confirmations


@pytest.mark.parametrize("in_memory", [False, True])
def test_an_agreement_is_remembered_for_its_plan_alone(file: Path, in_memory: bool):
    store = KeyStore(Secrets.from_bytes(file.read_bytes())) if in_memory else KeyStore(file)
    assert store.agreement(PLAN.hash) is None
    signature = store.agree(PLAN.hash)
    assert store.agree(PLAN.hash) == store.agreement(PLAN.hash) == signature
    assert store.agreement(OTHER.hash) is None
    assert verify(store.identity.sign, Purpose.AGREEMENT, agreement_text(PLAN.hash, "st-anna"), signature)
    for purpose, text in (
        (Purpose.MESSAGE, agreement_text(PLAN.hash, "st-anna")),
        (Purpose.AGREEMENT, agreement_text(OTHER.hash, "st-anna")),
        (Purpose.AGREEMENT, agreement_text(PLAN.hash, "st-bern")),
    ):
        assert not verify(store.identity.sign, purpose, text, signature)
    store.agree(OTHER.hash)
    assert store.agreement(PLAN.hash) == signature
    if not in_memory:
        assert KeyStore(file).agreement(PLAN.hash) == signature


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_confirmation_is_for_one_plan_and_is_no_agreement(file: Path, in_memory: bool):
    store = KeyStore(Secrets.from_bytes(file.read_bytes())) if in_memory else KeyStore(file)
    assert not store.confirmed(PLAN.hash)
    store.confirm(PLAN.hash)
    store.confirm(PLAN.hash)
    assert (store.confirmed(PLAN.hash), store.confirmed(OTHER.hash)) == (True, False)
    assert store.agreement(PLAN.hash) is None
    store.agree(OTHER.hash)
    assert not store.confirmed(OTHER.hash)
    assert store.plan_hash is None  # neither ties the keys to a plan


def test_a_plan_whose_hash_begins_alike_is_another_plan(file: Path):
    """The beginning of the hash names the file; the whole hash is in it."""
    alike = PLAN.hash[:16] + "0" * 48
    store = KeyStore(file)
    store.agree(PLAN.hash)
    store.confirm(PLAN.hash)
    store.agree(alike)
    store.confirm(alike)
    assert (store.agreement(alike), store.confirmed(alike)) == (None, False)
    assert store.confirmed(PLAN.hash)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_is_no_confirmation(file: Path, tmp_path: Path):
    (tmp_path / "elsewhere").write_text(PLAN.hash)
    for what in ("confirmed", "agreed"):
        (tmp_path / f"st-anna.keys.{what}-{PLAN.hash[:16]}").symlink_to(tmp_path / "elsewhere")
    for ask in (KeyStore(file).confirmed, KeyStore(file).agreement):
        with pytest.raises(TwofoldError):
            ask(PLAN.hash)


# Keys for the next plan


def test_renewed_keys_serve_the_next_plan_under_the_same_fingerprint(file: Path):
    """A key in two rosters: the signing key may be, the keys of a sum may not."""
    KeyStore(file).bind(PLAN.hash)
    with refused(PlanMismatch, "plan", expected=OTHER.hash[:12]):
        KeyStore(file).bind(OTHER.hash)
    later = file.with_name("2.keys")
    made = new_keys(later, "st-anna", renew=file)
    assert (made.sign, made.words, made.replaces) == (KeyStore(file).identity.sign, KeyStore(file).identity.words, b"")
    assert made.sum != KeyStore(file).identity.sum
    KeyStore(later).bind(OTHER.hash)
    assert new_keys(later, "st-anna", renew=file) == made
    assert KeyStore(file).plan_hash == PLAN.hash


def test_replaced_keys_are_vouched_for_by_the_earlier_one(file: Path):
    made = new_keys(file.with_name("2.keys"), "st-anna", replace=file)
    assert made.replaces == KeyStore(file).identity.sign != made.sign
    assert KeyStore(file.with_name("2.keys")).identity == made
    assert made.words != KeyStore(file).identity.words


@pytest.mark.parametrize("how", ["renew", "replace"])
def test_the_earlier_keys_are_ones_own(file: Path, how: str):
    target = file.with_name("2.keys")
    with refused(PlanMismatch, "keys", found="entity st-anna", expected="entity st-bern"):
        new_keys(target, "st-bern", **{how: file})
    with refused(PlanMismatch, "keys", found="entity st-anna", expected="operator st-anna"):
        new_keys(target, "st-anna", Role.OPERATOR, **{how: file})
    with refused(UnreadableSource, "keys"):
        new_keys(target, "st-anna", **{how: file.with_name("none.keys")})
    assert not target.exists()


def test_a_file_of_somebody_else_is_kept_and_not_given(file: Path):
    before = file.read_bytes()
    with refused(PlanMismatch, "keys", found="entity st-anna"):
        new_keys(file, "st-bern")
    with refused(PlanMismatch, "keys", found="entity st-anna"):
        new_keys(file, "st-anna", Role.OPERATOR)
    assert file.read_bytes() == before


def test_a_revocation_names_the_key(file: Path):
    assert KeyStore(file).revocation().sign == KeyStore(file).identity.sign
