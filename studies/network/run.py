"""``python -m studies network load|hostile|crash|soak``: the network's tables, each from a real run on this machine."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks._kill_points import fast_folder

__all__ = ["main", "written"]


def main(arguments: Sequence[str]) -> int:
    """Run one study and print its table; exit code 1 if something happened that must not."""
    parser = argparse.ArgumentParser(prog="python -m studies network", description=__doc__)
    parser.add_argument("--page", type=Path, help="also put the table into this page, between its marks")
    parser.add_argument(
        "--folder", type=Path, help="where the files go; by default a temporary folder, in memory if there is one"
    )
    studies = parser.add_subparsers(dest="study", required=True)
    load = studies.add_parser("load", help="many uploads at once: rate, times, memory")
    load.add_argument("--scale", type=float, default=1.0, help="share of the entities")
    studies.add_parser("hostile", help="everything that must be refused, with its status")
    crash = studies.add_parser("crash", help="kill the service and its entities at random points")
    crash.add_argument("--runs", type=int, default=1000, help="federations with at least one kill")
    crash.add_argument("--together", type=int, default=0, help="as many more, with service and entities in one process")
    crash.add_argument("--minutes", type=float, default=25.0, help="most time for each of the two")
    crash.add_argument("--seed", type=int, default=1)
    crash.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="federations at the same time")
    crash.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    soak = studies.add_parser("soak", help="requests for a long time: does anything grow?")
    soak.add_argument("--minutes", type=float, default=30.0)
    for one in studies.choices.values():  # after the study's name, too
        one.add_argument("--page", type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    serve = studies.add_parser("serve", help=argparse.SUPPRESS)
    serve.add_argument("given", nargs=argparse.REMAINDER)
    asked = parser.parse_args(arguments)
    if asked.study == "serve":
        from studies.network.place import main as be_service

        return be_service(asked.given)
    with _place(asked.folder) as folder:
        sound, lines = _STUDIES[asked.study](asked, folder)
    text = "\n".join(lines)
    if text:
        print(text)
    if asked.page is not None and text:
        asked.page.write_text(written(asked.page.read_text(), asked.study, text))
    return int(not sound)


def written(page: str, name: str, text: str) -> str:
    r"""Put a text between the marks of its name in a page.

    Examples
    --------
    >>> written("<!-- load -->old<!-- end of load -->", "load", "new")
    '<!-- load -->\n\nnew\n\n<!-- end of load -->'
    """
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    return re.sub(f"{start}.*?{end}", lambda _: f"{start}\n\n{text}\n\n{end}", page, flags=re.DOTALL)


@contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with fast_folder() as made:
        yield made


def _load(asked: Any, folder: Path) -> tuple[bool, list[str]]:
    from studies.network.load import loads, report

    found = loads(folder, scale=asked.scale)
    return all(one.sound for one in found), report(found)


def _hostile(_: Any, folder: Path) -> tuple[bool, list[str]]:
    from studies.network.hostile import hostile, report

    found = hostile(folder)
    return found.sound, report(found)


def _soak(asked: Any, folder: Path) -> tuple[bool, list[str]]:
    from studies.network.soak import soak

    found = soak(folder, seconds=60 * asked.minutes)
    return found.sound, found.report()


def _crash(asked: Any, folder: Path) -> tuple[bool, list[str]]:
    from studies.network.disk import faults_report
    from studies.network.tally import report
    from studies.network.workers import be_worker, run_workers

    if asked.worker is not None:
        runs, together = (asked.together, True) if asked.together else (asked.runs, False)
        be_worker(folder, runs=runs, seed=asked.seed, minutes=asked.minutes, together=together)
        return True, []
    lines, sound, early = list[str](), True, False
    kinds = [("two processes", "--runs", asked.runs), ("one process", "--together", asked.together)]
    for name, option, runs in kinds:
        if runs and not early:
            tally, early = run_workers(list(_commands(asked, folder, option, runs)))
            sound = sound and tally.failures == 0
            lines += [f"Service and entities as {name}:", "", *report(tally), ""]
    if early:
        return sound, [*lines, "A signal ended the run early; faults of disks and clocks were not tried."]
    more, rows = faults_report(folder)
    return sound and more, [*lines, *rows]


def _commands(asked: Any, folder: Path, option: str, runs: int) -> Iterator[list[str]]:
    """Give the commands that share the runs."""
    for number in range(asked.workers):
        share = runs // asked.workers + (number < runs % asked.workers)
        place = str(folder / f"worker{option}-{number}")
        command = [sys.executable, "-m", "studies", "network", "--folder", place, "crash", option, str(share)]
        command += ["--worker", str(number), "--minutes", str(asked.minutes)]
        yield [*command, "--seed", str(asked.seed * 1_000 + number)]


_STUDIES: Final[dict[str, Callable[[Any, Path], tuple[bool, list[str]]]]] = {
    "load": _load,
    "hostile": _hostile,
    "crash": _crash,
    "soak": _soak,
}
