"""A ledger or a statement of one from a path, and plain words for a file that is neither."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from twofold.errors import DataError
from twofold.privacy.ledger import Ledger, Statement, is_statement
from twofold.storage.files import open_plain

__all__ = ["account", "refuse_other"]

#: What files hold that people have beside a ledger, and what to do with them; a damaged ledger begins like none.
_CARD: Final = ("a privacy card", "twofold card verify CARD; with --ledger it is compared with its ledger")
_MODEL: Final = ("a model, or another file of numbers", "twofold report MODEL --card CARD")
_OTHERS: Final = (
    (rb'\{"at":', *_CARD),
    (rb'\s*\{\s*"card":', *_CARD),
    (rb"(?i)\s*<!doctype html>", "a web page", "twofold card verify PAGE, if it is a card"),
    (rb"# Privacy card", *_CARD),
    (rb'(?s).{8}\{\s*"__metadata__"', *_MODEL),
    (rb"PAR1|PK\x03\x04|\x1f\x8b", "a table or an archive", "the ledger of this data"),
)


def account(path: Path) -> Ledger | Statement:
    """Open a ledger, or a statement of one."""
    if path.is_file() and is_statement(path):
        return Statement(path)
    refuse_other(path)
    return Ledger(path)


def refuse_other(path: Path) -> None:
    """Refuse a file that is plainly something else than a ledger, and say what it is."""
    try:
        with os.fdopen(open_plain(path), "rb") as file:
            start = file.read(64)
    except OSError:
        return  # the ledger says what is wrong
    for begins, what, instead in _OTHERS:
        if re.match(begins, start):
            raise DataError(
                "this is not a ledger.",
                found=f"{path.name:.80}: {what}",
                expected="a file that twofold ledger new, release or join made, with its .head beside it",
                fix=instead,
                parameter="ledger",
            )
