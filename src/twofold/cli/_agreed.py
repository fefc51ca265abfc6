"""The agreed plan and what must lie beside it, read and checked before anything is drawn, spent or published."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twofold.errors import PlanMismatch
from twofold.protocol.plan import Plan
from twofold.protocol.plan_file import read_toml

__all__ = ["agreed_name", "listed", "missing_features", "read_agreed"]

#: Names that are printed in one line; --json has them all.
_MOST = 12


def read_agreed(path: Path) -> Plan:
    """Read a plan with the table of features it was made with; without that table all results would be others."""
    if (name := missing_features(path)) is not None:
        raise PlanMismatch(
            "the plan's table of features is missing; nothing was drawn, spent or published.",
            found=f"no {name} beside {path.name}",
            expected=f"the table with hash {str(read_toml(path)['features'].get('hash'))[:12]}",
            fix=f"copy {name} from whoever wrote the plan into the folder of {path.name}, under that name",
        )
    return Plan.read(path)


def missing_features(path: Path) -> str | None:
    """Name the file of features that a plan file needs and that is not there; None when nothing is missing.

    Looked for before the plan is read: where the mechanism needs the table, the plan is refused for other words.
    """
    table = read_toml(path).get("features")
    if not isinstance(table, dict):
        return None
    named = table.get("file")
    if not isinstance(named, str) or not named:
        return f'{path.stem}.features (and no line file = "{path.stem}.features" in the plan)'
    return None if (path.parent / named).exists() else named


def agreed_name(given: str | None, output: Path, plan: Plan) -> str:
    """The entity's public name, as given or from the output's name; one that the plan does not list is refused."""
    name = given if given is not None else output.name.split(".")[0]
    if plan.entities and name not in plan.entities:
        raise PlanMismatch(
            "the plan does not name this entity.",
            found=f"{name}, as given with --entity" if given is not None else f"{name}, taken from -o {output.name}",
            expected=f"one of {listed(plan.entities)}",
            fix=f"--entity NAME with the agreed name{'' if given is not None else '; -o may then have any name'}",
        )
    return name


def listed(names: Sequence[str]) -> str:
    """Name as many as fit into a line.

    Examples
    --------
    >>> listed(["anna", "bern"])
    'anna, bern'
    >>> listed([str(number) for number in range(14)])
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more'
    """
    rest = len(names) - _MOST
    return ", ".join(names[:_MOST]) + (f" and {rest:,} more" if rest > 0 else "")
