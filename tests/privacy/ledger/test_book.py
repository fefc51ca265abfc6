"""The ledger from outside: what it pays for, what it refuses, what it remembers."""

from __future__ import annotations

import errno
import os
from fractions import Fraction

import pytest

from twofold.errors import BadPrivacyParameter, BudgetExceeded, LedgerBroken, PrivacyError, SeededNoise, UnitMissing
from twofold.privacy.budget import ZCDP, ApproxDP, NotPrivate, PureDP
from twofold.privacy.events import DiscreteGaussianEvent, NonPrivateEvent
from twofold.privacy.ledger import Ledger, StaleRelease
from twofold.privacy.unit import Unit
from twofold.storage import files as disk


def never() -> bytes:
    raise AssertionError("nothing may be drawn")


def test_asking_twice_gives_the_same_bytes_and_spends_once(ledger, ask):
    first = ledger.release(**ask(), draw=lambda: os.urandom(1000))
    assert ledger.release(**ask(), draw=never) == first
    assert Ledger(ledger.path).stored(plan=ask()["plan"], version=ask()["version"]) == first
    assert ledger.state().spent.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("changed", ["plan", "version"])
def test_another_plan_or_version_is_another_release(ledger, ask, changed):
    ledger.release(**ask(), draw=lambda: b"one")
    other = {**ask(), changed: "f" * 64}
    assert ledger.release(**other, draw=lambda: b"two") == b"two"
    assert ledger.state().spent.epsilon == 1


def test_data_that_changed_cannot_be_told_from_data_that_did_not(ledger, ask):
    first = ledger.release(**ask(), draw=lambda: b"drawn once")
    before = ledger.path.read_bytes()
    with pytest.warns(StaleRelease, match="new public version") as caught:
        again = ledger.release(**{**ask(), "data": "f" * 64}, draw=never)
    assert (again, ledger.path.read_bytes()) == (first, before)
    assert "f" * 64 not in str(caught[0].message)
    assert caught[0].filename == __file__
    new = {**ask(), "data": "f" * 64, "version": "2"}
    assert ledger.release(**new, draw=lambda: b"newer") == b"newer"
    assert ledger.state().spent.epsilon == 1
    assert [entry["version"] for entry in ledger.state().as_dict()["entries"]] == ["data", "2"]


def test_a_version_is_one_unless_it_is_said(ledger, ask):
    asked = {name: value for name, value in ask().items() if name != "version"}
    assert ledger.release(**asked, draw=lambda: b"x") == ledger.stored(plan=asked["plan"]) == b"x"
    assert ledger.stored(plan=asked["plan"], version="1") == b"x"
    assert ledger.stored(plan=asked["plan"], version="2") is None


def test_a_bad_digest_is_refused_though_the_release_is_stored(ledger, ask):
    ledger.release(**ask(), draw=lambda: b"x")
    with pytest.raises(BadPrivacyParameter):
        ledger.release(**ask(data="patient-17"), draw=never)


def test_the_reservation_is_on_disk_before_the_draw(ledger, ask):
    seen = []
    ledger.release(**ask(), draw=lambda: seen.append(ledger.state()) or b"x")
    assert seen[0].spent.epsilon == Fraction(1, 2)
    assert seen[0].open[0].status == "open"


def test_a_ceiling_refuses_before_anything_is_drawn(ledger, ask):
    ledger.release(**ask("a", epsilon="17/10"), draw=lambda: b"x")
    before = ledger.path.read_bytes()
    with pytest.raises(BudgetExceeded, match=r"requested ε=0\.5; remaining ε=0\.3.*; difference ε=0\.2"):
        ledger.release(**ask("b"), draw=never)
    assert ledger.path.read_bytes() == before


def test_a_ceiling_is_exact(ledger, ask):
    for number in range(20):
        ledger.release(**ask(str(number), epsilon="1/10"), draw=lambda: b"x")
    assert ledger.state().remaining.epsilon == 0
    with pytest.raises(BudgetExceeded):
        ledger.release(**ask("more", epsilon="1/1000000000000000000"), draw=never)


def test_delta_has_a_ceiling_of_its_own(ledger, ask):
    dear = ApproxDP(epsilon="1/2", delta="1/50000")
    with pytest.raises(BudgetExceeded, match="δ=2e-05"):
        ledger.release(**ask(cost=dear), draw=never)


def test_a_draw_that_fails_counts_as_spent(ledger, ask):
    with pytest.raises(ZeroDivisionError):
        ledger.release(**ask(), draw=lambda: bytes(1 // 0))
    (entry,) = ledger.state().entries
    assert entry.status == "lost"
    assert ledger.state().spent.epsilon == Fraction(1, 2)
    assert ledger.release(**ask(), draw=lambda: b"again") == b"again"
    assert ledger.state().spent.epsilon == 1


def test_leaving_a_reservation_without_a_commit_counts_as_spent(ledger, ask, reserve):
    with reserve(ledger, **ask()):
        pass
    assert [entry.status for entry in ledger.state().entries] == ["lost"]


def test_a_reservation_commits_once_and_only_bytes(ledger, ask, reserve):
    with reserve(ledger, **ask()) as reservation:
        with pytest.raises(PrivacyError, match="bytes"):
            reservation.commit("text")
        assert reservation.commit(b"sent") == b"sent"
        with pytest.raises(PrivacyError, match="one release"):
            reservation.commit(b"more")
    assert ledger.release(**ask(), draw=never) == b"sent"
    assert ledger.state().spent.epsilon == Fraction(1, 2)


def test_raising_is_recorded_with_its_reason(ledger, ask):
    raised = ledger.raise_ceiling(ApproxDP(epsilon=3, delta=1e-5), reason="agreed on 3 May")
    assert raised.ceiling.epsilon == 3
    assert b"agreed on 3 May" in ledger.path.read_bytes()
    assert ledger.state().raised == 1


@pytest.mark.parametrize("ceiling", [ApproxDP(epsilon=2, delta=1e-5), ApproxDP(epsilon=3), PureDP(epsilon=1)])
def test_a_ceiling_is_never_lowered(ledger, ceiling):
    with pytest.raises(BadPrivacyParameter, match="only be raised"):
        ledger.raise_ceiling(ceiling, reason="a reason")


def test_raising_needs_a_reason(ledger):
    with pytest.raises(BadPrivacyParameter, match="reason"):
        ledger.raise_ceiling(PureDP(epsilon=9), reason="  ")


def test_another_unit_is_refused(ledger, ask):
    with pytest.raises(UnitMissing):
        ledger.release(**ask(unit=Unit.visit()), draw=never)
    of_visits = [event.__class__(**{**vars(event), "unit": Unit.visit()}) for event in ask()["events"]]
    with pytest.raises(UnitMissing):
        ledger.release(**ask(events=of_visits), draw=never)


def test_seeded_noise_is_refused_under_a_ceiling(ledger, ask):
    for cost in (None, NotPrivate(reason="seeded")):
        with pytest.raises(SeededNoise):
            ledger.release(**ask(seeded=True, cost=cost), draw=never)


def test_what_is_not_private_does_not_fit_any_ceiling(ledger, ask):
    exact = NonPrivateEvent(unit=Unit.person(), reason="exact counts")
    with pytest.raises(BudgetExceeded, match="requested ε=infinite"):
        ledger.release(**ask(events=[exact]), draw=never)


def test_the_accountant_sets_the_price(ledger, ask):
    ledger.release(**ask(events=ask()["events"] * 3), draw=lambda: b"x")
    assert ledger.state().spent.epsilon == Fraction(3, 2)


@pytest.mark.parametrize("cost", [PureDP(epsilon="49/100"), ApproxDP(epsilon="49/100", delta=1e-6)])
def test_a_cost_below_the_price_is_refused(ledger, ask, cost):
    with pytest.raises(BadPrivacyParameter, match="below what the events cost"):
        ledger.release(**ask(cost=cost), draw=never)


@pytest.mark.parametrize("seeded", [False, True])
def test_a_finite_cost_for_what_is_not_private_is_refused(ledger, ask, seeded):
    events = ask(seeded=True)["events"] if seeded else [NonPrivateEvent(unit=Unit.person(), reason="exact")]
    with pytest.raises(BadPrivacyParameter, match="at least ε=infinite"):
        ledger.release(**ask(events=events, cost=PureDP(epsilon=1)), draw=never)


def test_a_cost_above_the_price_is_charged(ledger, ask):
    ledger.release(**ask(cost=PureDP(epsilon="3/4")), draw=lambda: b"x")
    assert ledger.state().spent.epsilon == Fraction(3, 4)


def test_gaussian_noise_needs_its_delta(ledger, ask):
    gauss = DiscreteGaussianEvent(unit=Unit.person(), sensitivity_squared=1, variance=50, coordinates=9)
    with pytest.raises(BadPrivacyParameter, match="no pure"):
        ledger.release(**ask(events=[gauss]), draw=never)
    ledger.release(**ask(events=[gauss], cost=ApproxDP(epsilon="0.63", delta=1e-6)), draw=lambda: b"x")
    assert ledger.state().spent.delta == Fraction(1, 10**6)


def test_a_ledger_without_a_ceiling_records_what_is_not_private(tmp_path, ask):
    free = Ledger.create(tmp_path / "free", dataset="demo", ceiling=NotPrivate(reason="demo"), unit=Unit.person())
    free.release(**ask(seeded=True), draw=lambda: b"x")
    assert free.state().spent.epsilon == float("inf")
    assert free.state().entries[0].request["seeded"] is True


def test_a_ledger_without_a_ceiling_records_a_second_release(tmp_path, ask):
    free = Ledger.create(tmp_path / "free", dataset="demo", ceiling=NotPrivate(reason="demo"), unit=Unit.person())
    for name in ("a", "b", "c"):
        assert free.release(**ask(name, seeded=True), draw=lambda name=name: name.encode()) == name.encode()
    assert (free.state().spent.epsilon, free.state().spent.delta) == (float("inf"), 1)
    assert free.state().remaining.epsilon == float("inf")


@pytest.mark.parametrize(
    "bad",
    [
        {"plan": "short"},
        {"data": "patient-17"},
        {"data": 7},
        {"version": ""},
        {"version": " "},
        {"version": "patient-17\n"},
        {"version": "v" * 65},
        {"version": 2020},
        {"events": []},
        {"events": ["text"]},
        {"cost": ZCDP(rho=1)},
    ],
)
def test_a_bad_request_is_refused_without_naming_it(ledger, ask, bad):
    before = ledger.path.read_bytes()
    with pytest.raises(BadPrivacyParameter) as caught:
        ledger.release(**ask(**bad), draw=never)
    assert "patient-17" not in str(caught.value)
    assert ledger.path.read_bytes() == before


@pytest.mark.parametrize("about", [{"noise": float("nan")}, {"noise": object()}])
def test_about_must_be_plain_json(ledger, ask, about):
    before = ledger.path.read_bytes()
    with pytest.raises(BadPrivacyParameter, match="plain JSON"):
        ledger.release(**ask(about=about), draw=never)
    assert ledger.path.read_bytes() == before


def test_an_existing_ledger_is_never_replaced(ledger):
    with pytest.raises(LedgerBroken, match="already"):
        Ledger.create(ledger.path, dataset="x", ceiling=PureDP(epsilon=100), unit=Unit.person())


def test_a_missing_ledger_says_how_to_make_one(tmp_path):
    with pytest.raises(LedgerBroken, match="twofold ledger new"):
        Ledger(tmp_path / "none")
    with pytest.raises(LedgerBroken, match="folder"):
        Ledger.create(tmp_path / "no" / "x", dataset="x", ceiling=PureDP(epsilon=1), unit=Unit.person())


@pytest.mark.parametrize(
    ("code", "words"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EIO, "refused")]
)
@pytest.mark.parametrize("place", ["room", "append: write", "append: sync", "replace: open", "replace: rename"])
def test_a_disk_that_refuses_before_the_draw(ledger, ask, monkeypatch, code, words, place):
    ledger.release(**ask("old"), draw=lambda: b"kept")
    with monkeypatch.context() as patch:
        patch.setattr(disk, "_listener", _fails_at(place, code))
        with pytest.raises(LedgerBroken, match=words):
            ledger.release(**ask("new"), draw=never)
    assert ledger.release(**ask("old"), draw=never) == b"kept"
    assert ledger.release(**ask("new"), draw=lambda: b"later") == b"later"
    ledger.verify()
    assert ledger.state().spent.epsilon <= Fraction(3, 2)


@pytest.mark.parametrize("place", ["replace: open", "replace: write", "append: write", "replace: rename"])
def test_a_disk_that_fills_after_the_draw_loses_nothing(ledger, ask, monkeypatch, place, reserve):
    with reserve(ledger, **ask()) as reservation:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "_listener", _fails_at(place, errno.ENOSPC))
            with pytest.raises(LedgerBroken, match="No space left"):
                reservation.commit(b"drawn once")
        assert reservation.commit(b"drawn once") == b"drawn once"
    ledger.verify()
    assert ledger.release(**ask(), draw=never) == b"drawn once"
    assert ledger.state().spent.epsilon == Fraction(1, 2)


@pytest.mark.parametrize("lasts", [True, False])
def test_bytes_stored_but_not_committed_are_found_again(ledger, ask, monkeypatch, lasts):
    def draw() -> bytes:
        monkeypatch.setattr(disk, "_listener", _fails_at("append: open", errno.EIO, lasts=lasts))
        return b"drawn once"

    with pytest.raises(LedgerBroken, match="the disk refused"):
        ledger.release(**ask(), draw=draw)
    monkeypatch.setattr(disk, "_listener", None)
    assert ledger.release(**ask(), draw=never) == b"drawn once"
    assert ledger.state().entries[0].recovered
    assert ledger.state().spent.epsilon == Fraction(1, 2)


def test_a_limit_of_the_operating_system_tears_a_write_and_loses_nothing(ledger, ask, reserve):
    """No mock here: the kernel cuts the write short and answers EFBIG, as a quota would."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with reserve(ledger, **ask()) as reservation:
        resource.setrlimit(resource.RLIMIT_FSIZE, (ledger.path.stat().st_size + 100, before[1]))
        try:
            with pytest.raises(LedgerBroken, match="disk is full"):
                reservation.commit(b"drawn once")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert ledger.verify().notes[0].startswith("a piece of a record")
        assert reservation.commit(b"drawn once") == b"drawn once"
    assert ledger.state().repaired == 1
    assert ledger.release(**ask(), draw=never) == b"drawn once"


def test_the_stored_release_is_given_on_a_read_only_disk(ledger, ask, monkeypatch):
    ledger.release(**ask(), draw=lambda: b"kept")
    monkeypatch.setattr(disk, "_listener", _fails_at("", errno.EROFS))
    ledger.path.with_name(ledger.path.name + ".lock").unlink()
    assert ledger.release(**ask(), draw=never) == b"kept"
    ledger.state()
    ledger.verify()


def _fails_at(place: str, code: int, *, lasts: bool = True):
    left = [1]

    def listen(name: str) -> None:
        if name.startswith(place) and (lasts or left):
            left.clear()
            raise OSError(code, os.strerror(code))

    return listen
