"""A card from a file of any form: find the signed JSON, check it, and check that the page shows nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Final, Literal

from twofold import __version__
from twofold.errors import BadCard
from twofold.privacy.signed_card import LARGEST, SignedCard, parse_signed
from twofold.report.card import FENCE, to_html, to_markdown
from twofold.storage.files import read_limited

__all__ = ["CardFile", "read_card_file"]

Form = Literal["json", "html", "markdown"]
_BEGINS: Final = {"html": '<script type="application/json" id="signed-card">', "markdown": f"\n{FENCE}\n"}
_ENDS: Final = {"html": "</script>", "markdown": "\n```"}
#: A page holds its JSON and the same words again, with markup.
_LARGEST_PAGE: Final = 4 * LARGEST


@dataclass(frozen=True, kw_only=True)
class CardFile:
    """A checked card and the form it came in."""

    signed: SignedCard
    form: Form


def read_card_file(path: str | PathLike[str]) -> CardFile:
    """Read a signed card from JSON, HTML or Markdown, and check it.

    The signature must fit, and a page must be exactly what this version of twofold writes for the signed JSON: then
    no figure on it can have been edited, hidden or added. Line ends may differ.

    Raises
    ------
    BadCard
        Not a signed card, changed after signing, or a page that shows something else.
    """
    try:
        text = read_limited(path, _LARGEST_PAGE).decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _no_card("bytes that are not text") from None
    form = _form(text)
    signed = parse_signed(text.strip() if form == "json" else _inside(text, form))
    _check_form(text, signed, form)
    return CardFile(signed=signed, form=form)


def _form(text: str) -> Form:
    if text.lstrip()[:1] == "{":
        return "json"
    return "html" if re.match(r"\s*<!doctype html>", text, re.IGNORECASE) else "markdown"


def _inside(text: str, form: Form) -> str:
    """Give the one block with the signed JSON; with two, a reader could be shown the wrong one."""
    if text.count(_BEGINS[form]) != 1:
        raise _no_card("no block with a signed card, or several")
    return text.partition(_BEGINS[form])[2].partition(_ENDS[form])[0]


def _check_form(text: str, signed: SignedCard, form: Form) -> None:
    if form == "json":
        if text.rstrip("\n") != signed.to_json():
            raise BadCard(
                "the card is not in its canonical form.",
                found="other spaces, order or escapes than twofold writes",
                fix="ask its signer for the file again",
                parameter="card",
            )
        return
    own = f"twofold {__version__}"
    if signed.software != own:
        raise BadCard(
            "the page was written by another version, so what it shows cannot be compared with what was signed.",
            found=signed.software,
            expected=own,
            fix=f"check it with {signed.software}, or ask its signer for the JSON form",
            parameter="page",
        )
    writers: dict[str, Callable[[SignedCard], str]] = {"html": to_html, "markdown": to_markdown}
    if text != writers[form](signed):
        raise BadCard(
            "the page shows something else than what was signed.",
            expected="exactly the page that twofold card show writes for the signed card in it",
            fix="do not rely on this page; ask its signer for it again",
            parameter="page",
        )


def _no_card(found: str) -> BadCard:
    return BadCard(
        "this is not a signed privacy card.",
        found=found,
        expected="a file that twofold card show wrote with --keys",
        parameter="card",
    )
