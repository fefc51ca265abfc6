"""What a service's process keeps."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

#: Threads that take and drop 20 MB, as uploads do; prints the megabytes that stay with the process.
_UPLOADS = """
import sys, threading
from pathlib import Path
from twofold.server.service.run import give_back_memory

def held():
    return int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0]) / 1024

def upload():
    for _ in range(3):
        data = bytes(range(256)) * 80_000
        turn.wait()
        del data

if sys.argv[1] == "give back":
    give_back_memory()
turn = threading.Barrier(8)
before = held()
threads = [threading.Thread(target=upload) for _ in range(8)]
[one.start() for one in threads]
[one.join() for one in threads]
print(held() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries keep what they like")
def test_memory_of_uploads_goes_back_to_the_system() -> None:
    def kept(asked: str) -> float:
        told = subprocess.run([sys.executable, "-c", _UPLOADS, asked], capture_output=True, text=True, check=True)
        return float(told.stdout)

    assert kept("give back") < 20 < kept("keep")
