"""What an installation of twofold holds: megabytes of every package that it needs.

A package is as large as the files that its own record lists, compiled files included. The closure is that of twofold's
requirements in the running environment, so packages which are there for other reasons, pip among them, do not count. In
a checkout, twofold itself is only linked and counts as nothing; it has 8 MB.

`python -m studies size`
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["main", "megabytes", "needed", "table"]

#: Smaller packages share one line.
SHOWN: Final = 10.0


def needed(root: str = "twofold", extras: Iterable[str] = ()) -> dict[str, Distribution]:
    """Give everything that a package needs here, itself included.

    Examples
    --------
    >>> found = needed()
    >>> "numpy" in found, "matplotlib" in found, "matplotlib" in needed(extras=["plot"])
    (True, False, True)
    """
    found: dict[str, Distribution] = {}
    due = [(root, tuple(extras))]
    while due:
        name, wanted = due.pop()
        found[canonicalize_name(name)] = here = distribution(name)
        for line in here.requires or ():
            one = Requirement(line)
            applies = one.marker is None or any(one.marker.evaluate({"extra": each}) for each in (*wanted, ""))
            if applies and (one.extras or canonicalize_name(one.name) not in found):
                due.append((one.name, tuple(one.extras)))
    return found


def megabytes(one: Distribution) -> float:
    """Add up the files of a package.

    Examples
    --------
    >>> 10 < megabytes(distribution("numpy")) < 1000
    True
    """
    files = (Path(str(one.locate_file(file))) for file in one.files or ())
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def table() -> str:
    """Write the table of the core, largest first.

    Examples
    --------
    >>> table().splitlines()[0]
    '| package | version | MB |'
    """
    sizes = sorted(((megabytes(one), one) for one in needed().values()), key=lambda pair: -pair[0])
    total = sum(size for size, _ in sizes)
    lines = [f"| {one.name} | {one.version} | {size:.0f} |" for size, one in sizes if size >= SHOWN]
    rest = [size for size, _ in sizes if size < SHOWN]
    lines += [f"| {len(rest)} smaller ones | | {sum(rest):.0f} |", f"| **together** | | **{total:.0f}** |"]
    return "\n".join(["| package | version | MB |", "|---|---|---|", *lines])


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and what the extra for drawings would add.

    Examples
    --------
    >>> main([])
    | package | version | MB |
    ...
    with the extra plot: ...
    0
    """
    parser = argparse.ArgumentParser(prog="python -m studies size", description=__doc__)
    parser.parse_args(arguments)
    print(table())
    print(f"\nwith the extra plot: {sum(map(megabytes, needed(extras=['plot']).values())):.0f} MB")
    return 0
