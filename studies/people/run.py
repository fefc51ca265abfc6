"""Every person as an entity of their own, against the same people in hospitals: what it is worth, and what it costs.

The sum holds every person; some of them are measured. Splits, metrics and seeds are the frontier's, and so is the
fitting of hospitals. MovieLens needs TWOFOLD_DATA; a data set that is not there is left out and named.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from studies.case import load_case
from studies.frontier.release import Sums
from studies.frontier.settings import DataSetting, Release, read_frontier
from studies.people.bench import PeopleBench
from studies.people.page import markdown
from studies.people.release import shared_factors
from studies.people.sizes import sizes
from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.errors import MissingDataset
from twofold.storage.files import write_whole

__all__ = ["PARTS", "Part", "main", "rows_of", "run"]

EPSILONS: Final = (1.0, 3.0, 10.0)
#: Nothing had been run on it, or on those after it, when the settings of this study were fixed.
FIRST_SEED: Final = 11000
#: ε of the sum that holds nothing but noise.
_NOISE_ONLY: Final = 1.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """One data set of the frontier.

    Parameters
    ----------
    name : str
        As the frontier calls it.
    releases : tuple of Release
        What people send; the first is also what hospitals send, and runs under every noise.
    sample : tuple of int
        Hospitals that are fitted and measured, by quarter; 0 for none.
    users : int
        Users of each of them.
    seeds : int
        How many, from the frontier's first.
    hospital_ways : tuple of str
        Noises under which hospitals are measured too.
    """

    name: str
    releases: tuple[Release, ...]
    sample: tuple[int, ...]
    users: int
    seeds: int
    hospital_ways: tuple[str, ...] = ("operators", "peers", "own")

    def setting(self, scale: float) -> DataSetting:
        """The frontier's numbers, with this sample."""
        full = read_frontier("full").of(self.name)
        options = tuple((key, scale if key == "scale" else value) for key, value in full.options)
        return replace(full, users=self.users, options=options)


_GRAM: Final = Release(name="gram", mechanism="gram", noises=(), features=False)
_FEATURES: Final = Release(name="features", mechanism="features", noises=(), features=True)
_SKETCH: Final = Release(name="sketch", mechanism="sketch", noises=(), n_prototypes=40)
PARTS: Final = (
    Part(name="hospitals-middle", releases=(_GRAM,), sample=(2, 2, 2, 2), users=40, seeds=3),
    Part(name="movielens-zip1", releases=(_FEATURES, _SKETCH), sample=(1, 0, 0, 1), users=60, seeds=3),
    Part(
        name="movielens-zip1-implicit",
        releases=(_FEATURES, _SKETCH),
        sample=(1, 0, 0, 0),
        users=200,
        seeds=2,
        hospital_ways=("operators",),
    ),
)


def rows_of(part: Part, seed: int, *, scale: float = 1.0) -> Iterator[dict[str, Any]]:
    """Every figure of one split; the noise of "people" and "hospitals" differs only where every sender adds its own."""
    setting = part.setting(scale)
    bench = PeopleBench(load_case(setting.case, seed), setting, part.sample)
    people = sum(bench.case.sizes.values())

    def row(who: str, mechanism: str, noise: str, epsilon: float, value: float) -> dict[str, Any]:
        told = {"data": part.name, "seed": seed, "people": people, "metric": setting.metric}
        return told | {"who": who, "mechanism": mechanism, "noise": noise, "epsilon": epsilon, "value": value}

    controls = {
        ("hospitals", "alone"): bench.hospital_alone,
        ("hospitals", "own popularity"): bench.own_popularity,
        ("hospitals", "public features only"): lambda: bench.hospital_alone(features=True),
        ("people", "alone"): lambda: bench.person_alone(features=False),
        ("people", "public features only"): lambda: bench.person_alone(features=True),
        ("everybody", "pooled popularity"): bench.pooled_popularity,
        ("everybody", "pooled data (EASE)"): bench.pooled,
    }
    for (who, what), measured in controls.items():
        yield row(who, what, "", math.inf, measured())
    for release in part.releases:
        sums = Sums(case=bench.case, base=bench.plan, release=release, honest_share=read_frontier("full").honest_share)
        cells = [("none", math.inf), ("noise only", _NOISE_ONLY)]
        cells += [(way, epsilon) for way in ("operators", "peers", "own") for epsilon in EPSILONS]
        if release is not part.releases[0]:
            cells = [(way, epsilon) for way, epsilon in cells if way in ("none", "operators")]
        for way, epsilon in cells:
            shared = shared_factors(sums, way, epsilon, seed=seed, senders=people)
            yield row("people", release.name, way, epsilon, bench.people(shared, features=release.features))
            asked = way in ("none", "noise only") or way in part.hospital_ways
            if release is not part.releases[0] or not asked:
                continue
            if way == "own":
                shared = shared_factors(sums, way, epsilon, seed=seed, senders=len(bench.case.sizes))
            yield row("hospitals", release.name, way, epsilon, bench.hospitals(shared, features=release.features))


def run(
    parts: Sequence[Part] = PARTS,
    *,
    scale: float = 1.0,
    seeds: int | None = None,
    keep: Callable[[list[dict[str, Any]]], object] = lambda _: None,
) -> tuple[list[dict[str, Any]], list[str]]:
    """Run everything on one thread; give the rows, and the names of missing data. `keep` gets all rows so far."""
    found: list[dict[str, Any]] = []
    missing: list[str] = []
    with one_blas_thread(), at_most_threads(1):
        for part in parts:
            start = time.process_time()
            try:
                for seed in range(FIRST_SEED, FIRST_SEED + (seeds or part.seeds)):
                    found += rows_of(part, seed, scale=scale)
                    keep(found)
            except MissingDataset:
                missing.append(part.name)
            sys.stderr.write(f"{part.name}: {time.process_time() - start:.0f} CPU seconds\n")
    return found, missing


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print the page."""
    parser = argparse.ArgumentParser(prog="python -m studies people", description=__doc__)
    parser.add_argument("--data", help="data sets, separated by commas (default: all)")
    parser.add_argument("--seeds", type=int, help="number of seeds (default: that of each data set)")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="size of the simulated hospitals (default %(default)s)"
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("people"), help="folder (default %(default)s)")
    parser.add_argument("--only-write", action="store_true", help="run nothing; write the page from existing results")
    asked = parser.parse_args(arguments)
    place = asked.output / "people.json"
    if asked.only_write:
        found, missing = json.loads(place.read_text(encoding="utf-8")), list[str]()
    else:
        names = asked.data.split(",") if asked.data else [one.name for one in PARTS]
        asked.output.mkdir(parents=True, exist_ok=True)
        found, missing = run(
            [one for one in PARTS if one.name in names],
            scale=asked.scale,
            seeds=asked.seeds,
            keep=lambda rows: write_whole(place, json.dumps(rows, indent=1).encode()),
        )
    for name in missing:
        sys.stderr.write(f"{name} was left out: its data is not here\n")
    text = markdown(found, sizes())
    write_whole(asked.output / "people.md", text.encode())
    sys.stdout.write(text)
