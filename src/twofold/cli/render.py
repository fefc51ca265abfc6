"""Errors and warnings of the library in the words of the command line: options instead of arguments of functions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from twofold.errors import TwofoldError
from twofold.privacy.ledger.state import StaleRelease

__all__ = ["in_shell_words", "shell_words"]

#: What the library says, and how a shell says it; in this order.
_WORDS: Final = (
    (re.compile(r"pass (?=(?:unknown_items|duplicates)=)"), ""),
    (re.compile(r" \(their number is in ratings\.notes\)"), "; twofold check tells how many they are"),
    (re.compile(r"; or read_features\(.*\)"), ""),
    (re.compile(r"read_features\(path, catalog, classes=\"[^\"]*\"\)"), "leave one column of classes beside the ids"),
)
#: Rules with their words, and fields of a secure sum.
_CHOICE: Final = re.compile(r"\b(unknown_items|duplicates)='(\w+)'((?:, '\w+')*(?: or '\w+')?)")
_FIELD: Final = re.compile(r"\bsecure\.(survivors|present|colluders|threshold|most_alone|share_deadline)\b")
#: What is said of data that changed.
_STALE: Final = (
    "the data changed since this release; the stored bytes are handed out again and nothing is spent. A release of the "
    "data as they are now needs {need}. Keep this message inside: that private data changed is private."
)


@contextmanager
def shell_words(*, secure: bool = False) -> Iterator[None]:
    """Say errors and the warning about changed data as a shell would.

    Parameters
    ----------
    secure : bool
        Whether the plan has a secure sum: its keys serve one version of the data, so no other may be advised.
    """
    need = "a new plan and new keys" if secure else "a new public name of their state: --version"
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
            shown(_STALE.format(need=need) if issubclass(category, StaleRelease) else message, category, *where, **more)

        warnings.showwarning = show
        try:
            yield
        except TwofoldError as error:
            raise in_shell_words(error) from None


def in_shell_words(error: TwofoldError) -> TwofoldError:
    """Say one error as a shell would.

    Examples
    --------
    >>> from twofold.errors import DuplicateEntries
    >>> in_shell_words(DuplicateEntries("twice.", fix="pass duplicates='sum', 'mean' or 'last'")).fix
    '--duplicates sum, mean or last'
    """
    same = (error.found, error.expected, error.fix)
    found, expected, fix = (None if text is None else _said(text) for text in same)
    return type(error)(_said(error.summary), found=found, expected=expected, fix=fix)


def _said(text: str) -> str:
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return _FIELD.sub(_option, _CHOICE.sub(_choice, text))


def _choice(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')} {found[2]}" + found[3].replace("'", "")


def _option(found: re.Match[str]) -> str:
    return "--" + found[1].replace("_", "-")
