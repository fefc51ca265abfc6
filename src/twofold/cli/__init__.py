"""The command line: one file per verb, each of which only parses, calls and prints.

This module loads nothing but the standard library, so that Ctrl-C is answered from the first moment on.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from twofold.cli.verbs import app

__all__ = ["app", "main"]

#: Exit code when nothing is wrong and the round is not complete.
NOT_YET: Final = 3
#: Exit codes of a command that was stopped, and of one whose reader went away, as shells number them.
STOPPED: Final = 128 + signal.SIGINT
UNREAD: Final = 141


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'twofold.cli' has no attribute {name!r}")
    from twofold.cli.verbs import app

    return app


def main() -> None:
    """Run the command line: every end is an exit code and at most one message, never a trace."""
    signal.signal(signal.SIGINT, _at_once)
    try:
        from twofold.cli.verbs import run

        code = run()
    except KeyboardInterrupt:
        code = STOPPED
    sys.exit(_flushed(code))


def _at_once(*_: object) -> None:
    """End while libraries are being loaded: nothing has begun, and an exception there would show a trace."""
    os.write(2, b"Stopped: nothing was begun.\n")
    os._exit(STOPPED)


def _flushed(code: int) -> int:
    """Write what is still buffered, and say so if the other side does not take it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            code = UNREAD
        except OSError as error:
            code = code or 2
            os.write(2, f"TransportError: the output was not written: {error.strerror}.\n".encode(errors="replace"))
        else:
            continue
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # else the interpreter tries once more
    return code
