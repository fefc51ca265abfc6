"""What a site runs in the place of `flwr-clientapp`: the app that is installed here, never the one that was sent.

Flower hands Python code from the server to every SuperNode and runs it there. Its SuperExec starts each task as a
command found on the PATH, and `twofold-flower site` gives it a PATH on which `flwr-clientapp` is this module and every
other kind of task is refused. This module does Flower's own work (fetch the task, run the app, send the reply) with
three functions replaced: the archive that was sent is not unpacked, nothing is installed, and the app that is loaded is
`twofold_flower.apps.client`. If a release of Flower has moved these functions, nothing runs.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

__all__ = ["guard", "main"]

#: Exit code for what is refused (EX_NOPERM of sysexits).
REFUSED: Final = 77


def guard(runtime: ModuleType, app: object) -> None:
    """Replace what would unpack, install and load foreign code.

    Parameters
    ----------
    runtime : module
        `flwr.supernode.runtime.run_clientapp`.
    app : ClientApp
        The only app that may run.

    Examples
    --------
    >>> moved = ModuleType("moved")
    >>> guard(moved, object())
    Traceback (most recent call last):
    SystemExit: this release of Flower is not the one that was tested: it has no install_from_fab; nothing was run
    """

    def nothing(*_: Any, **__: Any) -> None:
        """Leave the archive as it is."""

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("this site installs nothing for a run")

    def load(*_: Any, **__: Any) -> Any:
        return lambda *_: app

    instead = {"install_from_fab": nothing, "install_app_dependencies": refuse, "get_load_client_app_fn": load}
    for name, function in instead.items():
        if not callable(getattr(runtime, name, None)):
            raise SystemExit(
                f"this release of Flower is not the one that was tested: it has no {name}; nothing was run"
            )
        setattr(runtime, name, function)


def main() -> None:
    """Run one task with the app of this site, or refuse a kind of task that is code and nothing else."""
    if sys.argv[1:2] == ["--refuse"]:
        print(f"twofold-flower: this site does not run {sys.argv[2]}", file=sys.stderr)
        sys.exit(REFUSED)
    from flwr.supernode.cli.flwr_clientapp import flwr_clientapp
    from flwr.supernode.runtime import run_clientapp

    from twofold_flower.apps import client

    guard(run_clientapp, client)
    flwr_clientapp()


if __name__ == "__main__":
    main()
