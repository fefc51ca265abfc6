"""`twofold completion`: a script with all verbs and options in it, so that completing words loads no Python at all."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from twofold.cli.options import Json

__all__ = ["completion"]


class Kind(StrEnum):
    """A shell."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Kind, typer.Argument(help="Which shell: bash, zsh or fish.")],
    json: Json = False,
) -> None:
    """Print a script that completes verbs, options and file names. Print it again after an update.

    Examples
    --------
    twofold completion bash > ~/.local/share/bash-completion/completions/twofold
    twofold completion zsh > ~/.zfunc/_twofold
    twofold completion fish > ~/.config/fish/completions/twofold.fish
    """
    from twofold.cli.verbs import app  # it knows this verb

    words = dict(_words(typer.main.get_command(app)))
    if json:
        import json as jsonlib

        typer.echo(jsonlib.dumps(words, indent=2))
        return
    typer.echo({Kind.bash: _bash, Kind.zsh: _zsh, Kind.fish: _fish}[shell](words), nl=False)


def _words(command: Any, path: str = "") -> Iterator[tuple[str, list[str]]]:
    """Give what may follow the words of each path: names of verbs, and options."""
    names = list(getattr(command, "commands", {}))
    options = [one for parameter in command.params for one in parameter.opts if one.startswith("--")]
    yield path, [*names, *options, "--help"]
    for name in names:
        yield from _words(command.commands[name], f"{path} {name}".strip())


def _cases(words: dict[str, list[str]]) -> str:
    return "\n".join(f'    "{path}") words="{" ".join(found)}" ;;' for path, found in words.items())


def _function(words: dict[str, list[str]]) -> str:
    """Find the longest path among the words typed so far; the same in both shells."""
    return f"""_twofold_words() {{
  local path="" next one words=""
  for one in "$@"; do
    next="${{path:+$path }}$one"
    case "$next" in
    {"|".join(f'"{path}"' for path in words if path)}) path="$next" ;;
    *) break ;;
    esac
  done
  case "$path" in
{_cases(words)}
  esac
  echo "$words"
}}
"""


def _bash(words: dict[str, list[str]]) -> str:
    return f"""# twofold completion bash
{_function(words)}
_twofold() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}"
  COMPREPLY=($(compgen -W "$(_twofold_words "${{COMP_WORDS[@]:1:COMP_CWORD-1}}")" -- "$word"))
}}
complete -o default -o bashdefault -F _twofold twofold
"""


def _zsh(words: dict[str, list[str]]) -> str:
    return f"""#compdef twofold
# twofold completion zsh
{_function(words)}
_twofold() {{
  local -a found
  found=(${{(z)"$(_twofold_words "${{(@)words[2,CURRENT-1]}}")"}})
  compadd -- $found
  _files
}}
compdef _twofold twofold
"""


def _fish(words: dict[str, list[str]]) -> str:
    lines = ["# twofold completion fish", "function __twofold_at", "  set -l path", "  set -l typed (commandline -opc)"]
    paths = " ".join(f"'{path}'" for path in words if path)
    lines += [
        f"  set -l known {paths}",
        "  for one in $typed[2..]",
        '    set -l next (string trim -- "$path $one")',
        '    if contains -- "$next" $known',
        '      set path "$next"',
        "    else",
        "      break",
        "    end",
        "  end",
        '  test "$path" = "$argv[1]"',
        "end",
    ]
    for path, found in words.items():
        names = " ".join(one for one in found if not one.startswith("-"))
        if names:
            lines.append(f"complete -c twofold -f -n \"__twofold_at '{path}'\" -a '{names}'")
        lines += [
            f"complete -c twofold -n \"__twofold_at '{path}'\" -l {one.removeprefix('--')}"
            for one in dict.fromkeys(found)
            if one.startswith("--")
        ]
    return "\n".join(lines) + "\n"
