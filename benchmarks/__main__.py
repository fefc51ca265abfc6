"""`python -m benchmarks [NAME ...] [--quick] [--people N]`: run the comparisons and print their tables."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Iterable

import benchmarks
from benchmarks.table import Table

INFRASTRUCTURE = {"__main__", "table"}


def names() -> list[str]:
    """Every module of this folder that offers `run(quick=...)`; helper modules start with an underscore."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in found if name not in INFRASTRUCTURE and not name.startswith("_"))


def main() -> None:
    """Run the named benchmarks, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*names(), []], help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that they run")
    parser.add_argument("--people", type=int, metavar="N", help="of secure_sum: single people, 100,000 by default")
    arguments = parser.parse_args()
    for name in arguments.names or names():
        print(f"## {name}\n", flush=True)
        more = {"people": arguments.people} if name == "secure_sum" else {}
        tables: Iterable[Table] = importlib.import_module(f"benchmarks.{name}").run(quick=arguments.quick, **more)
        for table in tables:
            print(table.markdown(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
