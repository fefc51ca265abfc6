"""From labels of any kind to names that a plan, a message header and a file can hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Hashable, Iterable
from typing import Any

from twofold.errors import BadIdentifier, BadPlan
from twofold.protocol.plain_checks import check_entity_name

__all__ = ["plan_name", "plan_names"]

#: Letters of a label that stay readable in front of its digest.
_READABLE = 40


def plan_name(label: Hashable) -> str:
    """Name an entity by its label; the same label has the same name in every run, whatever the other labels are.

    Parameters
    ----------
    label : hashable
        How a table or a Federation calls the entity.

    Returns
    -------
    str
        The label's own text where a plan can hold it, else a readable part of it and a digest.

    Examples
    --------
    >>> plan_name("st-anna"), plan_name(73)
    ('st-anna', '73')
    >>> plan_name("St. Anna / Köln")
    'St.-Anna-K-ln-5d70727d'
    """
    text = str(label)
    if isinstance(label, str) or (isinstance(label, int) and not isinstance(label, bool)):
        try:
            return check_entity_name(text)
        except BadPlan:
            pass
    readable = re.sub("[^A-Za-z0-9_.]+", "-", text).strip("-._")[:_READABLE] or "entity"
    digest = hashlib.sha256(f"twofold entity 1 {type(label).__name__} {text}".encode("utf-8", "surrogatepass"))
    return check_entity_name(f"{readable}-{digest.hexdigest()[:8]}")


def plan_names(labels: Iterable[Any]) -> dict[Any, str]:
    """Name every entity; two labels that would share a name, or a file on some disks, are refused.

    Examples
    --------
    >>> plan_names(["north", "south", 3])
    {'north': 'north', 'south': 'south', 3: '3'}
    >>> plan_names(["North", "north"])
    Traceback (most recent call last):
    twofold.errors.BadIdentifier: two entities have names that a file system may not tell apart...
    """
    names = {label: plan_name(label) for label in labels}
    if len({name.casefold() for name in names.values()}) < len(names):
        raise BadIdentifier(
            "two entities have names that a file system may not tell apart.",
            expected="names that differ in more than capital letters and type",
            fix="rename one in the entity column: its ledger is a file of that name",
        )
    return names
