"""Pages of the reference that are made from the code: every command with its options.

`python -m studies reference [FILE]` prints the page, or writes it where it differs; `make docs` runs it before a build,
so that the page is never older than the code.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from twofold.cli import app

__all__ = ["commands_page", "main", "verbs"]

_HEAD = """# Commands

Made from the program itself by `python -m studies reference`. `twofold COMMAND --help` prints the same in a terminal.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | stopped by you, or by a fault of the program |
| 2 | refused: the message says what was found, what was expected and what to type; `twofold errors NAME` has more |
| 3 | not yet: something is still waited for; run the same command again later |
"""


def verbs() -> Iterator[tuple[str, Any]]:
    """Give every command of the program with its full name, in the order of the help.

    Examples
    --------
    >>> [name for name, _ in verbs() if name.startswith("twofold ledger")][:2]
    ['twofold ledger new', 'twofold ledger show']
    """
    yield from _within("twofold", typer.main.get_command(app))


def _within(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    context = command.make_context(name, [], resilient_parsing=True)
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    for one in command.list_commands(context):
        found = command.get_command(context, one)
        if not found.hidden:
            yield from _within(f"{name} {one}", found)


def commands_page() -> str:
    """Write the page: a list of all commands, then each with its arguments and options.

    Examples
    --------
    >>> "## twofold plan explain" in commands_page()
    True
    """
    found = list(verbs())
    listed = [f"| [`{name}`](#{name.replace(' ', '-')}) | {_first(command.help)} |" for name, command in found]
    parts = [_HEAD, "\n".join(["| command | what it does |", "|---|---|", *listed])]
    return "\n".join([*parts, *(_section(name, command) for name, command in found)])


def _section(name: str, command: Any) -> str:
    shown = [one for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    rows = [f"| {_names(one)} | {_cell(one.help or '')} | {_default(one)} |" for one in shown]
    table = ["| option | meaning | default |", "|---|---|---|", *rows] if rows else []
    more = [_plain(text) for text in (command.help, command.epilog) if text]
    return "\n".join([f"\n## {name}\n", "\n\n".join(more), "", *table])


def _plain(text: str) -> str:
    """Give help as Markdown: lines that a terminal keeps as they are, such as examples, become a block."""
    parts = []
    for part in text.strip().split("\n\n"):
        kept = part.startswith("\b")
        parts.append(f"```bash\n{part.removeprefix(chr(8)).strip()}\n```" if kept else part.strip())
    return "\n\n".join(parts)


def _first(text: str | None) -> str:
    return _cell((text or "").strip().split("\n\n")[0])


def _cell(text: str) -> str:
    """Put text into one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _names(one: Any) -> str:
    """Name an argument in capitals, an option as it is typed."""
    if one.param_type_name == "argument":
        return f"`{one.metavar or str(one.name).upper()}`"
    return ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))


def _default(one: Any) -> str:
    if one.required:
        return "required"
    value = one.show_default if isinstance(one.show_default, str) else one.default
    if value is None or callable(value) or value in ((), [], ""):
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"`{_cell(str(getattr(value, 'value', value)))}`"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page, or write it into a file.

    Examples
    --------
    >>> main([])
    # Commands
    ...
    0
    """
    parser = argparse.ArgumentParser(prog="python -m studies reference", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="where to write the page")
    asked = parser.parse_args(arguments)
    page = commands_page()
    if asked.file is None:
        print(page)
    elif not asked.file.exists() or asked.file.read_text(encoding="utf-8") != page:
        asked.file.write_text(page, encoding="utf-8")
    return 0
