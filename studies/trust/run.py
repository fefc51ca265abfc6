"""``python -m studies trust strip|edges``: print what attacks reach, beside what is promised."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import Final

from studies.trust.strip import strip
from twofold.federation.secure import SecureSum, usual_survivors
from twofold.secure_sum import honest_in_any_sum

__all__ = ["SIZES", "main", "strip_row", "strip_table"]

SIZES: Final = (3, 5, 10, 20, 50, 205)
_STRIP: Final = (
    ("plan", 8),
    ("entities", 8),
    ("survivors", 9),
    ("threshold", 9),
    ("colluders", 9),
    ("allies", 6),
    ("honest", 6),
    ("group", 5),
    ("result", 30),
)


def main(arguments: Sequence[str]) -> int:
    """Run one of the two studies; return 1 if an attack reached more than is promised."""
    parser = argparse.ArgumentParser(prog="python -m studies trust", description=__doc__)
    parser.add_argument("study", choices=("strip", "edges"))
    parser.add_argument("--runs", type=int, default=4000, help="edges: runs on each side of a pair of neighbours")
    parser.add_argument("--most", type=int, default=max(SIZES), help="strip: largest number of entities")
    asked = parser.parse_args(arguments)
    if asked.study == "strip":
        return _print_strip([size for size in SIZES if size <= asked.most])
    from studies.trust.edges import print_edges

    return print_edges(runs=asked.runs)


def strip_row(entities: int, *, before: bool = False) -> dict[str, object]:
    """Attack a plan at its defaults; with `before`, the loosest one that was accepted when nobody was said to collude.

    The adversary is the server with the plan's colluders and the shares of one reader; before, with one colluder.

    Examples
    --------
    >>> strip_row(5)["result"], strip_row(5, before=True)["result"]
    ('kept', 'BROKEN: one message lies bare')
    """
    secure = _loosest(entities) if before else SecureSum(survivors=usual_survivors(entities))
    allies = 1 if before else secure.colluders + 1
    honest = _honest_before(secure, entities) if before else secure.honest(entities)
    found = strip(entities=entities, survivors=secure.survivors, threshold=secure.answers, allies=allies)
    if not found.right:
        result = "kept: every mask stays on"
    elif found.bare:
        result = "BROKEN: one message lies bare"
    else:
        result = "kept" if len(found.group) >= honest else f"BROKEN: {len(found.group)} shares of {honest}"
    return {
        "plan": "before" if before else "default",
        "entities": entities,
        "survivors": secure.survivors,
        "threshold": secure.answers,
        "colluders": secure.colluders,
        "allies": allies,
        "honest": honest,
        "group": len(found.group),
        "result": result,
    }


def strip_table(sizes: Iterable[int]) -> list[dict[str, object]]:
    """Rows of all sizes: the default, and below five no plan of before, which had no drop-outs to lie about."""
    return [strip_row(size, before=before) for size in sizes for before in (False, True) if size > 3 or not before]


def _loosest(entities: int) -> SecureSum:
    """The fewest survivors that a plan could ask for when nobody was counted as a colluder."""
    for survivors in range(entities // 2 + 1, entities + 1):
        secure = SecureSum(survivors=survivors, colluders=0)
        if _honest_before(secure, entities) >= 1:
            return secure
    return SecureSum(survivors=entities, colluders=0)


def _honest_before(secure: SecureSum, entities: int) -> int:
    numbers = {"threshold": secure.answers, "least_survivors": secure.survivors, "least_present": entities}
    return min(honest_in_any_sum(entities=entities, **numbers), secure.survivors - 1)


def _print_strip(sizes: Sequence[int]) -> int:
    print("  ".join(f"{name:>{width}}" for name, width in _STRIP))
    broken, started = 0, time.monotonic()
    for size in sizes:
        for before in (False, True) if size > 3 else (False,):
            row = strip_row(size, before=before)
            broken += not before and str(row["result"]).startswith("BROKEN")
            print("  ".join(f"{row[name]!s:>{width}}" for name, width in _STRIP), flush=True)
    print(
        "honest: shares of which the noise is made whole; group: honest entities in the smallest sum that opened.\n"
        "allies: participants whose keys and shares the dishonest server has; by default one more than the plan's\n"
        f"colluders, the reader. {time.monotonic() - started:.0f} seconds."
    )
    return int(broken > 0)
