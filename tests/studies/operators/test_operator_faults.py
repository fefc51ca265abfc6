"""Random federations with two operators: every fault, alone and with others, ends in the right sum or in a refusal."""

from __future__ import annotations

import pytest

from studies.operators.faults import FAULTS, federation
from studies.operators.parts import DISHONEST
from studies.operators.run import fault_rows, main
from twofold.server.operate import _Look
from twofold.server.operator import Operator
from twofold.server.operator_terms import Pair

#: Faults that a sum survives, whatever else: an entity's, a kill, and an operator without noise.
SURVIVED = [name for name in FAULTS if name not in DISHONEST or name == "operator adds no noise"]


@pytest.mark.parametrize("fault", SURVIVED)
def test_the_sum_survives(fault: str) -> None:
    for seed in range(2):
        found = federation(seed, only=fault)
        assert (found.wrong, found.result) == ("", "sum"), found


@pytest.mark.parametrize("fault", [name for name in DISHONEST if name not in SURVIVED and "differ" not in name])
def test_a_dishonest_operator_is_refused(fault: str) -> None:
    for seed in range(2):
        found = federation(seed, only=fault)
        assert found.wrong == ""
        assert found.result != "sum"


def test_many_faults_at_once() -> None:
    wrong = [(seed, found) for seed in range(25) if (found := federation(seed)).wrong]
    assert not wrong, wrong[:3]


@pytest.mark.slow
def test_many_more_faults_at_once() -> None:
    wrong = [(seed, found) for seed in range(1_000, 1_200) if (found := federation(seed)).wrong]
    assert not wrong, wrong[:3]


def test_the_tables_count_every_federation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["faults", "--runs", "8", "--seed", "3"]) == 0
    assert "| all federations | 8 |" in capsys.readouterr().out
    outcomes = [federation(seed) for seed in range(5)]
    assert all(total == right + refused + wrong for _, total, right, refused, wrong in fault_rows(outcomes))


def broken(seeds: range) -> set[str]:
    return {federation(seed).wrong for seed in seeds} - {""}


def test_a_report_counted_without_its_check_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.server.operator_terms.words_match", lambda *_, bits: bits > 0)
    assert federation(0, only="wrong seed under a valid seal").wrong


def test_noise_drawn_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operator, "_noisy_share", _twice(Operator._noisy_share))
    assert federation(0, only="report sent twice").wrong


def test_a_signature_that_is_not_sent_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def send_unless_done(self: _Look) -> None:
        if self.operator.final is None or self.operator.book.get("draft") is None:
            real(self)

    real = _Look._send
    monkeypatch.setattr(_Look, "_send", send_unless_done)
    assert broken(range(20)) == {"it ended neither in a sum nor in a refusal"}


def _twice(real):  # type: ignore[no-untyped-def]
    def share(self: Operator, pair: Pair) -> bytes:
        real(self, pair)
        return bytes(real(self, pair))

    return share
