"""A lock holds while its holder lives, and no longer."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from twofold.storage.files import Busy, locked


def test_one_that_waits_in_vain_is_told_who_holds_the_lock(tmp_path):
    waited = pytest.raises(Busy, match=f"x.lock held by process {os.getpid()}, waited 0.02 s")
    with locked(tmp_path / "x.lock", wait=0), waited, locked(tmp_path / "x.lock", wait=0.02):
        pass


def test_a_deleted_lock_file_locks_nobody_out(tmp_path):
    path = tmp_path / "x.lock"
    with locked(path, wait=0):
        path.unlink()
        with locked(path, wait=0):
            assert path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    code = """
    import os, sys, time
    from pathlib import Path
    from twofold.storage.files import locked
    with locked(Path(sys.argv[1]), wait=0):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
        print("held", flush=True)
        os.kill(os.getpid(), 9)
    """
    holder = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "x.lock")], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.wait()
    with locked(tmp_path / "x.lock", wait=5):
        pass
    holder.stdout.close()
