"""One writer at a time, and no lock that outlives its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from twofold.errors import LedgerBroken
from twofold.privacy.ledger import Ledger
from twofold.storage.files import locked

HOLD = """
import sys, time
from pathlib import Path
from twofold.storage.files import locked
with locked(Path(sys.argv[1]), wait=0):
    print("held", flush=True)
    time.sleep(60)
"""

RELEASE = """
import os, sys
from twofold.privacy.budget import PureDP
from twofold.privacy.events import ThresholdEvent
from twofold.privacy.ledger import Ledger, digest
from twofold.privacy.unit import Unit
event = ThresholdEvent(unit=Unit.person(), scale=10, threshold=5)
for number in range(6):
    sent = Ledger(sys.argv[1]).release(
        plan=digest(b"plan"), data=digest(b"data"), version=str(number), events=[event], unit=Unit.person(),
        draw=lambda: os.urandom(100))
    print(digest(sent))
"""


def run(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *arguments], stdout=subprocess.PIPE, text=True
    )


def test_a_second_process_is_told_who_holds_the_lock(ledger, ask):
    holder = run(HOLD, f"{ledger.path}.lock")
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LedgerBroken) as refused:
            ledger.release(**ask(), draw=lambda: b"x")
        assert f"{ledger.path.name}.lock held by process {holder.pid}" in str(refused.value.found)
        assert ledger.state().entries == ()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert ledger.release(**ask(), draw=lambda: b"x") == b"x"
    finally:
        holder.kill()
        holder.communicate()


def test_processes_that_ask_for_the_same_get_the_same_and_pay_once(ledger):
    askers = [run(RELEASE, str(ledger.path)) for _ in range(3)]
    answers = [asker.communicate()[0].split() for asker in askers]
    assert answers[0] == answers[1] == answers[2]
    assert len(set(answers[0])) == 6
    assert ledger.state().spent.epsilon * 10 == 6
    ledger.verify()


def test_threads_exclude_each_other_too(path, ledger, ask):
    names = [str(number % 3) for number in range(9)]
    sent: list[tuple[str, bytes]] = []

    def work(name: str) -> None:
        patient = Ledger(path, wait=30)
        sent.append((name, patient.release(**ask(name, epsilon="1/10"), draw=lambda: os.urandom(20))))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == 9
    assert len(set(sent)) == 3
    assert ledger.state().spent.epsilon * 10 == 3


def test_reading_needs_no_lock(ledger, ask):
    with locked(ledger.path.with_name(ledger.path.name + ".lock"), wait=0):
        assert ledger.state().length == 1
        ledger.verify()
