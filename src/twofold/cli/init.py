"""`twofold init`: make keys, folders and a plan, and say what to type next."""

from __future__ import annotations

import json as jsonlib
import shlex
import sys
from contextlib import redirect_stdout
from enum import StrEnum
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from twofold.cli.options import Json, read_items, refuse_output
from twofold.cli.render import say
from twofold.errors import BadParameter, Set

__all__ = ["init"]


class Part(StrEnum):
    """What somebody is in a federation."""

    entity = "entity"
    operator = "operator"
    trial = "trial"


def init(
    folder: Annotated[Path, typer.Argument(help="Where everything goes; made if it is missing.")] = Path(),
    part: Annotated[
        Part | None, typer.Option(help="entity: holds data. operator: runs the server. trial: simulates all of it.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Public name of the entity or operator, such as st-anna.")] = None,
    catalog: Annotated[
        Path | None, typer.Option(help="The agreed item list, if you write the plan; a trial needs it.")
    ] = None,
    public_key: Annotated[
        list[Path] | None, typer.Option(help="Public part of another entity or operator, for the plan; repeat for all.")
    ] = None,
    n_users: Annotated[int | None, typer.Option(help="Users that every entity promises to have; agreed.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="Price ε of each entity's message.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: options, and usual values for the rest.")] = False,
    json: Json = False,
) -> None:
    """Ask a few questions, write keys, folders and, where there is enough for one, a plan; print the next commands.

    Nothing is overwritten; running it again adds what is missing. Reads no data and spends nothing.

    Examples
    --------
    twofold init
    twofold init site --part entity --name st-anna --yes
    twofold init server --part operator --name coordinator --catalog items.csv --public-key st-anna.pub
      --public-key st-benno.pub --n-users 5000 --yes
    twofold init trial --part trial --catalog items.csv --yes
    """
    ask = not yes and not json and _can_ask()
    chosen = part or Part(_asked(ask, "part", "What are you: entity, operator or trial", "entity"))
    if chosen is Part.trial:
        named = ""
        items: Path | None = catalog or Path(_asked(ask, "catalog", "File of the item list", None))
    else:
        named = name or _asked(ask, "name", "Public name, such as st-anna", None)
        items = catalog or _maybe(ask and chosen is Part.operator, "File of the item list, if you write the plan")
    if items is not None and ask:
        n_users = n_users or int(_asked(ask, "n_users", "Users that every entity promises to have", "1000"))
        epsilon = epsilon or _asked(ask, "epsilon", "Price ε of each message", "1")
    with redirect_stdout(StringIO()):  # the verbs called here tell what to do in a shell of their own
        made = _make(folder, chosen, named, items, public_key or [], n_users, epsilon)
    following = _next(folder, chosen, named, planned=any(path.name == "plan.toml" for path in made))
    if json:
        typer.echo(jsonlib.dumps({"part": chosen, "made": [str(one) for one in made], "next": following}, indent=2))
        return
    for one in made:
        say(f"{one}: {_what(one)}")
    say("Next:")
    for line in following:
        say(f"  {line}")


def _can_ask() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin.isatty()


def _asked(ask: bool, parameter: str, question: str, usual: str | None) -> str:
    """Ask, or refuse where nobody can be asked."""
    if ask:
        return str(typer.prompt(question, default=usual))
    if usual is not None and parameter != "part":
        return usual
    raise BadParameter("{parameter} is missing.", fix=Set(parameter, usual or "st-anna"), parameter=parameter)


def _maybe(ask: bool, question: str) -> Path | None:
    answer = typer.prompt(question, default="", show_default=False) if ask else ""
    return Path(answer) if answer else None


def _make(
    folder: Path,
    part: Part,
    name: str,
    items: Path | None,
    public_keys: list[Path],
    n_users: int | None,
    epsilon: str | None,
) -> list[Path]:
    """Write what is missing, and give all of it."""
    from twofold.cli.keys import new as new_keys  # these load what asking does not need
    from twofold.cli.plan import new_plan_file
    from twofold.federation.plan import Plan
    from twofold.identity.roster import Roster

    if items is not None:
        asked = {"n_users": n_users, "epsilon": epsilon}
        Plan(catalog=read_items(items), simulation=True, **{key: one for key, one in asked.items() if one is not None})
    for one in public_keys:
        Roster.read(one)  # refused before anything is made
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    boxes = {Part.entity: ("inbox", "outbox"), Part.operator: ("inbox", "outbox", "state"), Part.trial: ("models",)}
    if part is not Part.trial:
        keys, public = folder / f"{name}.keys", folder / f"{name}.pub"
        own = name if part is Part.entity else None
        new_keys(keys=keys, output=public, entity=own, operator=name if own is None else None)
        made += [keys, public]
        public_keys = [*public_keys, public]
    for box in boxes[part]:
        (folder / box).mkdir(exist_ok=True)
        made.append(folder / box)
    plan = folder / "plan.toml"
    if items is not None and (part is Part.trial or len(public_keys) > 1):
        if not plan.exists():
            given: dict[str, Any] = {"mechanism": None, "n_users": n_users, "epsilon": epsilon}
            given |= {"simulation": True} if part is Part.trial else {"public_key": public_keys}
            refuse_output(plan)
            new_plan_file(plan, items, **given)
        made.append(plan)
    return made


def _what(path: Path) -> str:
    words = {".keys": "secret keys, for you only", ".pub": "public part, to send to the author of the plan"}
    folders = {
        "inbox": "what arrives from the other side",
        "outbox": "what goes to the other side",
        "state": "the server's memory, for you only",
        "models": "where the models go",
    }
    return words.get(path.suffix) or folders.get(path.name) or "the plan, commented; edit it before anybody agrees"


def _next(folder: Path, part: Part, name: str, *, planned: bool) -> list[str]:
    """Commands to type, in their order."""

    def at(file: str) -> str:
        return shlex.quote(str(folder / file))

    plan, keys = at("plan.toml"), at(f"{name}.keys")
    if part is Part.trial:
        return [
            f"twofold plan explain {plan}",
            f"twofold simulate --plan {plan} --data all.csv --entity entity -o {at('models')}",
        ]
    boxes = f"--inbox {at('inbox')} --outbox {at('outbox')}"
    agree = f"twofold plan agree {plan} --keys {keys}"
    if part is Part.operator:
        new = f"twofold plan new {plan} --catalog items.csv --public-key {at(f'{name}.pub')} --public-key st-anna.pub"
        first = [f"twofold plan explain {plan}"] if planned else [f"{new}, with the public part of every entity"]
        return [
            *first,
            agree,
            f"twofold coordinate --plan {plan} --keys {keys} {boxes} --state {at('state')} --wait 3600",
        ]
    return [
        f"send {at(f'{name}.pub')} to the author of the plan, who sends plan.toml, plan.roster and the item list back",
        f"twofold check visits.csv --plan {plan}",
        f"twofold plan explain {plan}",
        agree,
        f"twofold join --plan {plan} --data visits.csv --keys {keys} --ledger {at(f'{name}.ledger')} --new-ledger "
        f"{boxes} -o {at(f'{name}.model')} --wait 3600",
    ]
