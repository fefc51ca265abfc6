"""One operator against everything: at most one noisy sum leaves, over one list, each entity once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from studies.operators.forge import OPERATORS, report
from tests.operators import Two
from tests.refused import refused
from twofold.errors import BadMessage, ConflictingMessage, NotReady, PlanMismatch, PrivacyError, RoundClosed
from twofold.federation.exchange import encode_draft, encode_freeze, encode_list, encode_reveal
from twofold.identity.keys import Role, Secrets
from twofold.identity.keystore import KeyStore
from twofold.server.operator import Operator


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path / "two")


def listed(two: Two, *names: str) -> tuple[Operator, Operator]:
    """Both operators with the same reports and each other's list."""
    both = two.operator(0), two.operator(1)
    for one in both:
        for name in names or two.names:
            one.take(two.reports[name])
    for one, other in (both, both[::-1]):
        other.hear_list(one.make_list())
    return both


def frozen(two: Two) -> tuple[Operator, Operator]:
    """Both operators with one final list."""
    first, second = listed(two)
    for one, other in ((first, second), (second, first)):
        pair = one.agreed_pair()
        assert pair is not None
        other.hear_freeze(one.make_freeze(pair))
    return first, second


def test_the_sum_is_exact_and_both_sign(two: Two) -> None:
    first, second = frozen(two)
    first.hear_reveal(second.make_reveal())
    second.hear_reveal(first.make_reveal())
    for one in (first, second):
        total = one.total()
        assert total is not None
        assert np.array_equal(total.numbers, two.total())
    second.hear_draft(first.make_draft())
    second.sign_draft()
    back = second.book.get("draft")
    assert back is not None
    first.hear_draft(back)
    assert first.final == second.final is not None


def test_only_operators_of_the_plan(two: Two) -> None:
    with refused(PlanMismatch, "keys"):
        Operator(two.plan, KeyStore(Secrets.new(OPERATORS[0], Role.OPERATOR)))


def test_a_report_is_taken_once(two: Two) -> None:
    one, name = two.operator(0), two.names[0]
    assert one.take(two.reports[name]) == one.take(two.half(name, 0)) == name
    assert one.book.count == 1
    with refused(ConflictingMessage, "entity"):
        one.take(report(two.made, name, two.numbers[name]))
    with refused(BadMessage, "half"):
        one.take(two.half(name, 1))


def test_two_processes_store_one_report(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, name = two.operator(0), two.operator(0), two.names[0]
    first.take(two.reports[name])
    monkeypatch.setattr(again.book, "digest_of", lambda _: None)  # it looked before the other one wrote
    assert again.take_all([(name, report(two.made, name, two.numbers[name]))]) == 1
    assert first.book.count == 1
    assert first.take(two.reports[name]) == name


def test_no_more_reports_than_the_plan_has_entities(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    one = two.operator(0)
    monkeypatch.setattr(one.book, "_most", 1)
    one.take(two.reports[two.names[0]])
    with refused(RoundClosed):
        one.take(two.reports[two.names[1]])
    assert one.book.count == 1


def test_a_late_report_is_refused(two: Two) -> None:
    both = listed(two, *two.names[:2])
    pair = both[0].agreed_pair()
    assert pair is not None
    both[0].make_freeze(pair)
    with refused(RoundClosed):
        both[0].take(two.reports[two.names[2]])


def test_the_half_that_was_missing_is_kept_for_the_other_operator(two: Two) -> None:
    one, name = two.operator(0), two.names[0]
    one.take(two.half(name, 0))
    assert one.book.halves(10**6) == []
    one.take(two.reports[name])
    assert one.book.halves(10**6) == [(name, two.half(name, 1))]
    one.book.handed_on([name])
    one.take(two.reports[name])
    assert one.book.halves(10**6) == []


def test_below_the_floor_nothing_is_frozen(two: Two) -> None:
    first, _ = listed(two, two.names[0])
    pair = first.agreed_pair()
    assert pair is not None
    with refused(RoundClosed, "secure.floor"):
        first.make_freeze(pair)
    assert not first.frozen
    assert first.keys.frozen is None


def test_two_processes_freeze_one_sum(two: Two) -> None:
    first, _ = listed(two)
    again = two.operator(0)
    pair = first.agreed_pair()
    assert pair is not None
    assert not again.frozen
    assert first.make_freeze(pair) == again.make_freeze(pair)
    assert first.book.get("share") == again.book.get("share")


def test_a_kill_between_the_two_records_of_a_freeze(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = listed(two)
    pair = first.agreed_pair()
    assert pair is not None
    monkeypatch.setattr(first.keys, "keep_freeze", _killed)
    with pytest.raises(KeyboardInterrupt):
        first.make_freeze(pair)
    stored, again = first.book.get("share"), two.operator(0)
    assert again.keys.frozen is None
    again.make_freeze(pair)
    assert again.book.get("share") == stored
    assert again.keys.frozen is not None


def _killed(_: str) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("how", ["older state", "second folder"])
def test_no_second_noise_under_the_same_keys(two: Two, how: str) -> None:
    first, second = listed(two)
    first.book.close()
    older = two.folder / "older"
    shutil.copytree(two.folder / OPERATORS[0], older)
    first = two.operator(0)
    pair = first.agreed_pair()
    assert pair is not None
    first.make_freeze(pair)
    other = two.operator(0, "older" if how == "older state" else "new")
    if how == "second folder":
        for name in two.names[:2]:
            other.take(two.reports[name])
        other.make_list()
        other.hear_list(second.own_lists[0].data)
        pair = other.agreed_pair()
        assert pair is not None
    with refused(PrivacyError, "freeze"):
        other.make_freeze(pair)
    assert other.book.get("share") is None


def test_the_first_operator_decides_while_the_second_makes_another_list(two: Two) -> None:
    """Each saw another newest pair: the first would freeze (2, 1), the second (2, 2)."""
    first, second = two.operator(0), two.operator(1)
    a, b, c = two.names
    first.take(two.reports[a])
    second.take(two.reports[b])
    first.make_list()
    second.make_list()
    first.hear_list(second.own_lists[0].data)
    second.hear_list(first.own_lists[0].data)
    for name in (a, b, c):
        first.take(two.reports[name])
    for name in (c, a):
        second.take(two.reports[name])
    first.make_list()
    second.make_list()
    second.hear_list(first.own_lists[1].data)
    assert second.agreed_pair() is None
    first.hear_list(second.own_lists[1].data)
    pair = first.pair(first.own_lists[1], second.own_lists[1])
    second.hear_freeze(first.make_freeze(pair))
    agreed = second.agreed_pair()
    assert agreed is not None
    first.hear_freeze(second.make_freeze(agreed))
    assert first.freeze is not None
    assert second.freeze is not None
    assert first.freeze.reports == second.freeze.reports
    first.make_reveal()
    second.make_reveal()


def test_the_second_operator_waits_for_a_list_on_its_way(two: Two) -> None:
    first, second = two.operator(0), two.operator(1)
    for one in (first, second):
        for name in two.names:
            one.take(two.reports[name])
    first.hear_list(second.make_list())
    first.make_list()
    pair = first.agreed_pair()
    assert pair is not None
    second.hear_freeze(first.make_freeze(pair))
    assert second.agreed_pair() is None
    second.hear_list(first.own_lists[0].data)
    assert second.agreed_pair() == pair


def forged_freeze(two: Two, lists: tuple[str, str], *, reports: str = "1" * 64, commitment: str = "2" * 64) -> bytes:
    signer = two.made.operator(0).sign
    return encode_freeze(
        two.plan, operator=OPERATORS[0], lists=lists, reports=reports, count=2, commitment=commitment, signer=signer
    )


@pytest.mark.parametrize("known", [True, False])
def test_a_final_list_that_does_not_follow_is_refused_before_anything_is_drawn(two: Two, known: bool) -> None:
    first, second = listed(two)
    pair = first.agreed_pair()
    assert pair is not None
    second.hear_freeze(forged_freeze(two, pair.lists if known else (pair.lists[0], "3" * 64)))
    with refused(ConflictingMessage, "freeze"):
        second.agreed_pair()
    assert second.keys.frozen is None
    assert second.book.get("share") is None


def test_different_final_lists_show_nothing(two: Two) -> None:
    first, _ = listed(two)
    pair = first.agreed_pair()
    assert pair is not None
    first.make_freeze(pair)
    forged = encode_freeze(
        two.plan, operator=OPERATORS[1], lists=pair.lists, reports="1" * 64, count=3, commitment="2" * 64,
        signer=two.made.operator(1).sign,
    )  # fmt: skip
    first.hear_freeze(forged)
    with refused(ConflictingMessage, "freeze"):
        first.make_reveal()
    assert first.book.get("reveal") is None


def test_two_final_lists_are_evidence_that_stays(two: Two) -> None:
    first, second = frozen(two)
    assert first.freeze is not None
    with refused(ConflictingMessage, "operators"):
        second.hear_freeze(forged_freeze(two, first.freeze.lists))
    with refused(ConflictingMessage, "operators"):
        two.operator(1).check_peer()
    assert second.peer_freeze == first.freeze


def test_two_lists_under_one_number_are_evidence(two: Two) -> None:
    first, second = listed(two)
    own = first.own_lists[0]
    other = encode_list(
        own.digests[1:], own.words[1:], two.plan, operator=OPERATORS[0], number=1, signer=two.made.operator(0).sign
    )
    with refused(ConflictingMessage, "operators"):
        second.hear_list(other)
    far = encode_list(
        own.digests, own.words, two.plan, operator=OPERATORS[0], number=10**6, signer=two.made.operator(0).sign
    )
    with refused(BadMessage, "number"):
        two.operator(1).hear_list(far)


def test_a_sum_that_was_not_committed_to_is_evidence(two: Two) -> None:
    first, second = frozen(two)
    kept = first.book.get("share")
    assert kept is not None
    other = encode_reveal(
        bytes(len(kept) - 32), kept[-32:], two.plan, operator=OPERATORS[0], signer=two.made.operator(0).sign
    )
    with refused(BadMessage, "operators"):
        second.hear_reveal(other)
    assert second.book.get("peer reveal") is None
    with refused(ConflictingMessage, "operators"):
        second.check_peer()


def test_a_sum_before_the_final_list_waits(two: Two) -> None:
    first, second = frozen(two)
    late = two.operator(1, "late")
    with refused(NotReady, "freeze"):
        late.hear_reveal(first.make_reveal())
    with refused(NotReady, "freeze"):
        late.make_reveal()
    assert second.total() is None


def test_messages_under_the_own_name_are_not_the_others(two: Two) -> None:
    first, _ = frozen(two)
    for hear, data in (
        (first.hear_list, first.own_lists[0].data),
        (first.hear_freeze, first.book.get("freeze")),
        (first.hear_reveal, first.make_reveal()),
    ):
        assert data is not None
        with refused(BadMessage):
            hear(data)


def test_a_false_check_word_leaves_out_and_never_lets_in(two: Two) -> None:
    first, second = listed(two)
    own = second.own_lists[0]
    words = own.words.copy()
    words[0, 0] ^= 1
    changed = encode_list(
        own.digests, words, two.plan, operator=OPERATORS[1], number=2, signer=two.made.operator(1).sign
    )
    first.hear_list(changed)
    pair = first.agreed_pair()
    assert pair is not None
    assert set(pair.digests) == {one.tobytes() for one in own.digests[1:]}


def test_other_item_factors_are_not_signed_and_not_taken(two: Two) -> None:
    first, second = frozen(two)
    first.hear_reveal(second.make_reveal())
    second.hear_reveal(first.make_reveal())
    draft = first.make_draft()
    with refused(BadMessage):  # only one signature
        first.hear_final(draft)
    nonsense = encode_draft(b"nonsense", two.plan, operator=OPERATORS[0], signer=two.made.operator(0).sign)
    second.hear_draft(nonsense)
    with refused(BadMessage):
        second.sign_draft()
    assert second.final is None


def test_shares_are_erased_only_when_both_have_signed(two: Two) -> None:
    first, second = frozen(two)
    first.erase()
    assert len([*first.book.reports(pair.digests)] if (pair := first.agreed_pair()) else []) == 3
    first.hear_reveal(second.make_reveal())
    second.hear_reveal(first.make_reveal())
    second.hear_draft(first.make_draft())
    second.sign_draft()
    second.erase()
    held = (two.folder / OPERATORS[1]).glob("operator.db*")
    assert second.book.count == 3
    second.book.close()
    boxes = [two.reports[name][-80:] for name in two.names]
    assert not any(box in path.read_bytes() for path in held for box in boxes)
