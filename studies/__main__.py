"""The command line of the laboratory: ``python -m studies COMMAND``, each with ``--help``."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final

from twofold.errors import TwofoldError

__all__ = ["COMMANDS", "main"]

#: Command to the function that runs it, and what it does. Modules are loaded when asked for.
COMMANDS: Final = {
    "reproduce": ("studies.paper.run:main", "run the paper's experiments again, with a verdict on every claim"),
    "paper": ("studies.pages.paper_page:main", "write the page of all claims from stored results of reproduce"),
    "compare": (
        "studies.compare:main",
        "compare tuned baselines on every data set; --paper: every system of the paper",
    ),
    "frontier": ("studies.frontier.run:main", "show when private federation pays, by mechanism, noise and ε"),
    "people": ("studies.people.run:main", "show what it is worth if every person is an entity of their own"),
    "prediction": ("studies.prediction:main", "find the constants of plan explain's prediction again, and test them"),
    "adaptation": ("studies.adaptation:main", "measure what joining adds to staying alone, without noise"),
    "mechanisms": ("studies.mechanisms:main", "compare all release mechanisms on clustered data in one table"),
    "theorem": ("studies.theorem:main", "print exact privacy losses of Theorem 1 as printed and as corrected"),
    "bounds": ("studies.bounds:main", "print error bounds of what is shared beside what is measured"),
    "calibration": ("studies.data.calibration:main", "compare simulated hospitals with eICU"),
    "trust": ("studies.trust.run:main", "attack secure sums and the edges of data, beside what is promised"),
    "coalitions": ("studies.coalitions:main", "price every coalition of a secure sum, and attack each at small size"),
    "hostile": ("studies.hostile.run:main", "feed hostile files to every parser and count what happens"),
    "operators": ("studies.operators.run:main", "run sums with two operators under random faults"),
    "federation": ("studies.federation_demo.run:main", "run a federation over TLS between network namespaces"),
    "network": ("studies.network.run:main", "load, hostile uploads, kills and a soak of a real service"),
    "torture": ("studies.torture:main", "kill writers of a ledger and check that nothing is lost"),
    "figures": ("studies.figures:main", "draw the first figure of every page of results from its own tables"),
    "reference": ("studies.reference:main", "write the reference page of all commands from the program itself"),
    "screenshots": ("studies.screenshots:main", "take the pictures of the documentation with Chromium"),
    "size": ("studies.size:main", "print how large an installation is, package by package"),
    "shape": ("studies.shape:main", "count the files and lines of the code"),
    "same": ("studies.same_numbers:main", "record every number of this version, or compare with a record"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code.

    Examples
    --------
    >>> main(["reproduce", "fig9"])
    Traceback (most recent call last):
    SystemExit: BadParameter: this figure is unknown...
    """
    parser = argparse.ArgumentParser(
        prog="python -m studies",
        description="The laboratory of twofold: experiments, comparisons, checks of the code.",
        epilog="\n".join(["commands:", *(f"  {name:12} {about}" for name, (_, about) in COMMANDS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below; each has --help"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    asked = parser.parse_args(arguments)
    module, _, name = COMMANDS[asked.command][0].partition(":")
    try:
        return int(getattr(importlib.import_module(module), name)(asked.arguments) or 0)
    except TwofoldError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main())
