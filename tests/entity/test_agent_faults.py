"""An entity whose draw fails, is stopped, or finds the disk full: one message, one price, and the same noise only for
the same ratings.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from tests.enrolled import enrolled, fixed_secrets
from tests.refused import refused
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.errors import BudgetExceeded, LedgerBroken, PrivacyError
from twofold.federation.plan import Plan
from twofold.privacy.budget import ApproxDP
from twofold.privacy.events import Released
from twofold.privacy.ledger import Ledger
from twofold.privacy.unit import Unit
from twofold.release.buckets import Popularity
from twofold.storage import files as disk

ITEMS = 12
CATALOG = Catalog([f"item-{number}" for number in range(ITEMS)])
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
SECRETS = fixed_secrets("st-anna")


def table(users: int = 30) -> Ratings:
    rng = np.random.default_rng(0)
    values = rng.integers(1, 6, (users, ITEMS)) * (rng.random((users, ITEMS)) < 0.4)
    names = Identifiers([f"patient-secret-{number}" for number in range(users)])
    return Ratings(sparse.csr_array(values.astype(np.float32)), names, CATALOG, "counts")


def without(ratings: Ratings, row: int) -> Ratings:
    return ratings.take([one for one in range(ratings.n_users) if one != row])


def agreed() -> Plan:
    given = {"catalog": CATALOG, "feedback": "counts", "bound": 5, "max_items": 6, "n_prototypes": 3, "rank": 2}
    return enrolled(Plan(**given, mechanism="popularity"), secrets=SECRETS).plan


def member(ratings: Ratings, ledger: Ledger | Path) -> Entity:
    """St. Anna, in the real plan to which everybody has agreed."""
    return Entity("st-anna", ratings, agreed(), ledger=ledger, **enrolled(agreed(), secrets=SECRETS).given("st-anna"))


def tight(path: Path) -> Ledger:
    """A ledger with room for one release and no more."""
    return Ledger.create(path, dataset="d", ceiling=agreed().budget, unit=Unit.person())


@pytest.fixture
def ledger(tmp_path):
    """A ledger with room for three releases."""
    ceiling = ApproxDP(epsilon=3 * EPSILON, delta=3 * DELTA)
    return Ledger.create(tmp_path / "st-anna.ledger", dataset="d", ceiling=ceiling, unit=Unit.person())


@pytest.fixture
def draws(monkeypatch):
    """Count how often the mechanism runs."""
    seen, real = [], Popularity.release

    def release(self, rows, public, *, rng=None):
        seen.append(rows)
        return real(self, rows, public, rng=rng)

    monkeypatch.setattr(Popularity, "release", release)
    return seen


def test_a_mechanism_that_fails_costs_and_sends_nothing(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise FloatingPointError

    book = tight(tmp_path / "x.ledger")
    entity = member(table(), book)
    with monkeypatch.context() as patch:
        patch.setattr(Popularity, "release", fail)
        with pytest.raises(FloatingPointError):
            entity.release()
    assert book.state().spent.epsilon == EPSILON
    assert book.stored(plan=agreed().hash) is None
    with refused(BudgetExceeded, "draw", found="remaining ε=0"):
        entity.release()
    signed = Ledger(book.path, signer=SECRETS["st-anna"].sign)
    signed.raise_ceiling(ApproxDP(epsilon=2 * EPSILON, delta=2 * DELTA), reason="the mechanism was mended")
    assert entity.release().data == book.stored(plan=agreed().hash)


@contextmanager
def stopped(kind: type[BaseException], seen: list[bytes]) -> Iterator[None]:
    """Have the mechanism draw, and stop before anybody can have what it drew."""
    real = Popularity.release

    def release(*given, **named):
        seen.append(real(*given, **named).value.sums.tobytes())
        raise kind

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Popularity, "release", release)
        with pytest.raises(kind):
            yield


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_a_draw_that_was_stopped_is_made_again_for_nothing(tmp_path, kind):
    book, seen = tight(tmp_path / "x.ledger"), []
    for _ in range(2):
        with stopped(kind, seen):
            member(table(), book).release()
    sent = member(table(), book.path).release()
    assert seen == [sent.content.sums.tobytes()] * 2
    (entry,) = book.state().entries
    assert (entry.status, entry.resumed, book.state().spent.epsilon) == ("released", True, EPSILON)
    assert not list(tmp_path.rglob("*.key"))


def test_ratings_that_changed_after_a_kill_do_not_meet_the_old_noise(tmp_path, ledger):
    seen: list[bytes] = []
    with stopped(KeyboardInterrupt, seen):
        member(table(), ledger).release()
    sent = member(without(table(), 4), ledger).release()
    assert sent.content.sums.tobytes() not in seen
    assert [entry.status for entry in ledger.state().entries] == ["lost", "released"]
    assert ledger.state().spent.epsilon == 2 * EPSILON


def test_ratings_that_changed_are_refused_without_room_and_the_old_ones_still_served(tmp_path, draws):
    book, seen = tight(tmp_path / "x.ledger"), []
    with stopped(KeyboardInterrupt, seen):
        member(table(), book).release()
    draws.clear()
    with refused(BudgetExceeded, "draw", "software"):
        member(without(table(), 4), book).release()
    assert draws == []
    assert member(table(), book).release().content.sums.tobytes() == seen[0]
    assert book.state().spent.epsilon == EPSILON


def test_in_a_simulation_foreign_noise_is_used_as_it_is(tmp_path):
    class Other:
        seeded = False
        words = staticmethod(lambda count: np.zeros(count, dtype=np.uint64))
        bits = staticmethod(lambda count: 0 * count)

    plan = agreed().with_(simulation=True, roster=None, writer=None)
    first, second = (
        Entity("st-anna", table(), plan, ledger=tight(tmp_path / name), rng=Other()).release() for name in "ab"
    )
    assert first.data == second.data
    assert "draw" not in Ledger(tmp_path / "a").state().entries[0].request


def other_event(drawn):
    return Released(value=drawn.value, event=type(drawn.event)(**{**vars(drawn.event), "coordinates": 1}))


def seeded_event(drawn):
    return Released(value=drawn.value, event=type(drawn.event)(**{**vars(drawn.event), "seeded": True}))


def seeded_value(drawn):
    fields = {name: getattr(drawn.value, name) for name in drawn.value.__dataclass_fields__}
    return Released(value=type(drawn.value)(**{**fields, "seeded": True}), event=drawn.event)


@pytest.mark.parametrize("change", [other_event, seeded_event, seeded_value])
def test_a_mechanism_that_does_something_else_sends_nothing(ledger, monkeypatch, change):
    real = Popularity.release
    monkeypatch.setattr(Popularity, "release", lambda *given, **named: change(real(*given, **named)))
    with refused(PrivacyError, "event"):
        member(table(), ledger).release()
    assert ledger.stored(plan=agreed().hash) is None
    assert [entry.status for entry in ledger.state().entries] == ["lost"]


@contextmanager
def listening(listener: Callable[[str], None]) -> Iterator[None]:
    """Hear of every touch of the disk; the two announcements that touch nothing are left out."""
    disk._listener = lambda name: None if name in ("reserved", "drawn") else listener(name)
    try:
        yield
    finally:
        disk._listener = None


def filling(fatal: int) -> Callable[[str], None]:
    """Fill the disk just before the touch with this number; there is room again afterwards."""
    left = [fatal]

    def listen(_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    return listen


def test_a_full_disk_at_every_step_loses_and_doubles_nothing(tmp_path, draws):
    touches: list[str] = []
    book = tight(tmp_path / "0.ledger")
    with listening(touches.append):
        member(table(), book).release()
    needed = touches.index("destroy: open")  # from here on the release is done, and a full disk keeps nobody from it
    assert needed > 15
    for fatal in range(1, len(touches) + 1):
        draws.clear()
        book = tight(tmp_path / f"{fatal}.ledger")
        entity = member(table(), book)
        with listening(filling(fatal)):
            if fatal <= needed:
                with refused(LedgerBroken, "disk"):
                    entity.release()
                assert not draws or book.state().entries  # never drawn without having been paid for
            else:
                entity.release()
        sent = entity.release().data
        assert entity.release().data == sent == book.stored(plan=agreed().hash)
        assert [entry.status for entry in book.state().entries] == ["released"]
        assert book.state().spent.epsilon == EPSILON
        assert not list(tmp_path.glob(f"{fatal}.ledger.releases/*.key"))
        book.verify()
