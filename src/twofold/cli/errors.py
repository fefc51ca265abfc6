"""`twofold errors`: explain an error or an exit code, and what to do about it."""

from __future__ import annotations

import json as jsonlib
import re
import sys
from difflib import get_close_matches
from importlib.resources import files
from typing import Annotated

import typer

from twofold.cli.options import Json
from twofold.cli.render import say
from twofold.errors import BadParameter

__all__ = ["errors", "pages"]


def errors(
    name: Annotated[
        str | None, typer.Argument(help="Such as missing-column, MissingColumn or exit-code-3; all names by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Explain an error, or list the names of all.

    Every message of twofold ends with the command that prints its page.

    Examples
    --------
    twofold errors
    twofold errors bad-plan
    twofold errors exit-code-3
    """
    found = pages()
    if name is None:
        typer.echo(jsonlib.dumps(found, indent=2) if json else "\n".join(found))
        return
    key = re.sub(r"(?<=[a-z])(?=[A-Z])|[ _]", "-", name.strip()).lower()
    if key not in found:
        near = get_close_matches(key, found, n=1)
        expected = f"perhaps {near[0]}" if near else "a name that twofold errors lists"
        raise BadParameter("this name is unknown.", found=f"{name:.40}", expected=expected, parameter="name")
    if json:
        typer.echo(jsonlib.dumps({"name": key, "text": found[key]}, indent=2))
        return
    text = found[key]
    if sys.stdout.isatty():  # the lines of the file are longer than those of most terminals
        text = re.sub(r"(?<!\n)\n(?![\n*-])", " ", text)
    say(f"{key}\n\n{text}")


def pages() -> dict[str, str]:
    """Read the section of every error and exit code from the packaged file.

    Examples
    --------
    >>> pages()["unit-missing"][:19]
    'The unit is missing'
    """
    sections = files("twofold").joinpath("errors.md").read_text(encoding="utf-8").split("\n## ")[1:]
    split = [section.partition("\n") for section in sections]
    return {heading.strip().lower().replace(" ", "-"): text.strip() for heading, _, text in split}
