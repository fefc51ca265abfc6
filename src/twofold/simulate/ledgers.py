"""The folder of ledgers of a simulation: where each one lies, and what happens when one is missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from twofold.entity.agent import NewLedger
from twofold.errors import BadParameter, LedgerBroken, TransportError

__all__ = ["check_new_ledgers", "ledger_paths", "settle_missing"]

#: Frames between the warning and whoever called `simulate` or `fit`.
_CALLER = 4


def ledger_paths(folder: str | PathLike[str], names: Mapping[Any, str], *, make: bool = True) -> dict[Any, Path]:
    """Name every entity's ledger in a folder, which is made when missing.

    Parameters
    ----------
    folder : path
        Where the ledgers are.
    names : mapping
        Label of each entity to its name in the plan.
    make : bool
        Whether a missing folder is made.

    Examples
    --------
    >>> [str(path) for path in ledger_paths("ledgers", {7: "seven"}, make=False).values()]
    ['ledgers/seven.ledger']
    """
    home = Path(folder)
    try:
        if make:
            home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TransportError(
            "the folder for the ledgers cannot be made.", found=type(error).__name__, expected="a folder to write to"
        ) from None
    return {label: home / f"{name}.ledger" for label, name in names.items()}


def settle_missing(paths: Iterable[Path | None], new_ledgers: bool | None) -> None:
    """Say in the calling process which ledgers are about to be made, or refuse; before anyone has drawn.

    Parameters
    ----------
    paths : iterable of paths or None
        Everybody's ledger, None for who has none.
    new_ledgers : bool, optional
        True says nothing, False refuses, None warns.

    Raises
    ------
    LedgerBroken
        A ledger is missing and none may be made.

    Warns
    -----
    NewLedger
        Once, with the folder and the number of ledgers.

    Examples
    --------
    >>> settle_missing([None, Path("no folder") / "north.ledger"], True)
    """
    every = [path for path in paths if path is not None]
    missing = [path for path in every if not path.exists()]
    if not missing or new_ledgers is True:
        return
    found = f"{len(missing)} of {len(every)} ledgers are not in {missing[0].parent}"
    if new_ledgers is False:
        raise LedgerBroken(
            "ledgers are missing, and none may be made; nothing was drawn.",
            found=found,
            expected="the folder that holds these people's ledgers",
            fix="name that folder; new_ledgers=True only for people about whom nothing was ever released",
        )
    warnings.warn(
        f"{found}: new ones are made there, each with room for this one plan. If these people already have ledgers, "
        "stop: name their folder, or what they were promised is spent twice. new_ledgers=True makes them without this "
        "warning, new_ledgers=False refuses.",
        NewLedger,
        stacklevel=_CALLER,
    )


def check_new_ledgers(new_ledgers: object) -> None:
    """Refuse anything that is neither a yes, a no nor None.

    Examples
    --------
    >>> check_new_ledgers(None)
    """
    if not (new_ledgers is None or isinstance(new_ledgers, bool)):
        raise BadParameter(
            "new_ledgers is unknown.", found=f"a {type(new_ledgers).__name__}", expected="True, False or None"
        )
