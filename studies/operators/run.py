"""``python -m studies operators faults``: federations with two operators, random faults, and what came of them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from studies.operators.faults import FAULTS, Outcome, federation

__all__ = ["fault_rows", "main"]


def main(arguments: Sequence[str]) -> int:
    """Run many federations and print two tables; return 1 if one ended in anything but a right sum or a refusal."""
    parser = argparse.ArgumentParser(prog="python -m studies operators", description=__doc__)
    parser.add_argument("study", choices=("faults",))
    parser.add_argument("--runs", type=int, default=10_000, help="federations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes")
    asked = parser.parse_args(arguments)
    seeds = range(asked.seed * 1_000_003, asked.seed * 1_000_003 + asked.runs)
    with ProcessPoolExecutor(asked.workers) as pool:
        outcomes = [*(pool.map(federation, seeds, chunksize=100) if asked.workers > 1 else map(federation, seeds))]
    print("| fault | federations with it | right sum | refused | anything else |\n|---|---:|---:|---:|---:|")
    for name, *counts in fault_rows(outcomes):
        print(f"| {name} | " + " | ".join(f"{count:,}" for count in counts) + " |")
    print("\n| end | federations |\n|---|---:|")
    for result, count in Counter(one.result for one in outcomes if not one.wrong).most_common():
        print(f"| {result} | {count:,} |")
    kills, left_out = sum(one.kills for one in outcomes), sum(one.left_out for one in outcomes)
    print(f"\nOperators killed and started again: {kills:,}. Entities left out of a sum: {left_out:,}.")
    wrong = [(number, one) for number, one in enumerate(outcomes) if one.wrong]
    for number, one in wrong[:20]:
        print(f"WRONG: federation {number}: {one.wrong}; {', '.join(one.faults)}")
    return int(bool(wrong))


def fault_rows(outcomes: Iterable[Outcome]) -> list[tuple[str, int, int, int, int]]:
    """Count for every fault: federations with it, right sums, refusals, anything else; none and all at the end."""
    every = list(outcomes)
    groups = [(name, [one for one in every if name in one.faults]) for name in FAULTS]
    groups += [("none", [one for one in every if not one.faults]), ("all federations", every)]
    return [
        (
            name,
            len(found),
            sum(one.result == "sum" and not one.wrong for one in found),
            sum(one.result != "sum" and not one.wrong for one in found),
            sum(bool(one.wrong) for one in found),
        )
        for name, found in groups
    ]
