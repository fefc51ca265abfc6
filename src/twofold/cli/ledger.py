"""`twofold ledger`: the account of a data set, and its privacy card."""

from __future__ import annotations

import json as json_module
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from twofold.checks import is_hash
from twofold.cli.approve import public_of, signer_of
from twofold.cli.card import Format, card_text, write_card
from twofold.cli.options import ForceOption, refuse_output, whole_ledger
from twofold.cli.render import all_verbs, say
from twofold.errors import BadMessage, BadPlan, DataError, LedgerBroken, Set, TransportError
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Ledger, LedgerState, Statement, cost_text, is_statement
from twofold.privacy.unit import Unit
from twofold.storage.files import write_whole
from twofold.storage.signing import check_public_key

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Records of what has left a data set and what may still leave.")

Book = Annotated[Path, typer.Argument(help="The ledger file.")]
Account = Annotated[Path, typer.Argument(help="The ledger file, or a statement of it.")]
#: A file of public keys is small.
_KEY_FILE = 1 << 16
Json = Annotated[bool, typer.Option("--json", help="Print one JSON record and nothing else.")]
Epsilon = Annotated[str, typer.Option(help="Ceiling in ε, such as 1, 0.5 or 1/3.")]
STATUS = {"released": "released", "lost": "lost: spent, nothing left", "open": "open: counts as spent"}


class Holder(StrEnum):
    """Whose presence is hidden."""

    person = "person"
    visit = "visit"


@app.command()
def new(
    path: Book,
    dataset: Annotated[str, typer.Option(help="Public name of the data set, printed on cards.")],
    epsilon: Epsilon,
    delta: Annotated[str, typer.Option(help="Ceiling in δ.")] = "0",
    unit: Annotated[Holder, typer.Option(help="Whose presence is hidden.")] = Holder.person,
    entities: Annotated[int, typer.Option(help="Number of entities in which one person may be found.")] = 1,
    json: Json = False,
) -> None:
    """Start the ledger of a data set. An existing ledger is never changed.

    Example: twofold ledger new st-anna.ledger --dataset "St Anna, visits 2026" --epsilon 3 --delta 1e-5
    """
    protected = Unit(holder=unit.value, entities=entities)
    ceiling = _ceiling(epsilon, delta)
    with whole_ledger(path):
        ledger = Ledger.create(path, dataset=dataset, ceiling=ceiling, unit=protected)
    _print(ledger, json)


@app.command()
def show(path: Account, json: Json = False) -> None:
    """Print what was spent, on what, and what remains. Writes nothing.

    Example: twofold ledger show st-anna.ledger
    """
    _print(_account(path), json)


@app.command()
def verify(
    path: Account,
    head: Annotated[
        str | None, typer.Option(help="A hash kept elsewhere, such as on a card; it must still be in the chain.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="Public key that must have signed it: a .pub file, or 64 hexadecimal digits.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every record, price, total and stored release, and the head. Exit code 2 if anything was changed.

    Example: twofold ledger verify st-anna.ledger --key st-anna.pub
    """
    public = None if key is None else _public_key(key)
    try:
        verdict = _account(path).verify(head=head, key=public)
    except LedgerBroken as error:
        if not json:
            raise
        typer.echo(json_module.dumps({"sound": False, "summary": error.summary, "found": error.found}, indent=2))
        raise typer.Exit(2) from None
    if json:
        typer.echo(json_module.dumps({"sound": True, **vars(verdict)}, indent=2))
        return
    say(f"sound: {verdict.records} records, {verdict.releases} stored releases, head {verdict.head}")
    if verdict.signer:
        say(f"signed by {verdict.signer}")
    for note in verdict.notes:
        say(f"note: {note}")


@app.command("raise")
def raise_ceiling(
    path: Book,
    epsilon: Epsilon,
    reason: Annotated[str, typer.Option(help="Why, and who agreed. Recorded in the ledger permanently.")],
    delta: Annotated[str | None, typer.Option(help="Ceiling in δ; unchanged by default.")] = None,
    keys: Annotated[Path | None, typer.Option(help="Secret keys of the entity, if they sign this ledger.")] = None,
    json: Json = False,
) -> None:
    """Raise the ceiling. It is never lowered, and the raise is recorded with its reason.

    Example: twofold ledger raise st-anna.ledger --epsilon 5 --reason "ethics board, 2027-01-31"
    """
    ledger = Ledger(path, signer=None if keys is None else signer_of(keys)[1])
    kept = str(ledger.state().ceiling.delta) if delta is None else delta
    ledger.raise_ceiling(_ceiling(epsilon, kept), reason=reason)
    _print(ledger, json)


@app.command("sign")
def sign(
    path: Book,
    keys: Annotated[Path, typer.Option(help="Secret keys of the entity, which sign the ledger from now on.")],
    reason: Annotated[str, typer.Option(help="Why the key changes. Recorded in the ledger permanently.")],
    json: Json = False,
) -> None:
    """Have other keys sign the ledger, after keys were replaced or lost. Those who verify with the old key see it.

    Example: twofold ledger sign st-anna.ledger --keys st-anna.keys --reason "keys were replaced"
    """
    ledger = Ledger(path)
    ledger.change_signer(signer_of(keys)[1], reason=reason)
    _print(Ledger(path), json)


@app.command()
def export(
    path: Book,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")],
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Write a statement for auditors and archives: every record without its secrets. Nothing can be spent from it.

    Example: twofold ledger export st-anna.ledger -o st-anna.statement
    """
    ledger = Ledger(path)
    _refuse_own(ledger, output, "st-anna.statement")
    refuse_output(output, (path,), force=force)
    content = ledger.statement()
    write_whole(output, content)
    if json:
        typer.echo(json_module.dumps({"file": output.name, "bytes": len(content)}, indent=2))
        return
    say(f"{output.name}: {len(content):,} bytes; twofold ledger show, verify and card read it")


@app.command()
def card(
    path: Account,
    record: Annotated[int | None, typer.Option(help="Number of the release's record; the latest by default.")] = None,
    form: Annotated[Format, typer.Option("--format", help="Format of the card.")] = Format.markdown,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output by default.")] = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Print the privacy card of a release, not signed. `twofold card show` adds the site's words and a signature.

    Example: twofold ledger card st-anna.ledger --format html -o card.html
    """
    ledger = _account(path)
    if output is not None:
        _refuse_own(ledger, output, "card.html")
        refuse_output(output, (path,), force=force)
    write_card(card_text(card_from_ledger(ledger, record=record), Format.json if json else form), output)


def _account(path: Path) -> Ledger | Statement:
    return Statement(path) if path.is_file() and is_statement(path) else Ledger(path)


def _refuse_own(ledger: Ledger | Statement, output: Path, instead: str) -> None:
    if output.is_symlink() and not output.exists():
        return  # a link that leads nowhere is refused as an output
    if ledger.owns(output):
        raise DataError(
            "that file belongs to the ledger.", found=output.name, fix=Set("output", instead), parameter="output"
        )


def _public_key(text: str) -> bytes:
    """Read a public key: hexadecimal digits, or a public part."""
    try:
        return check_public_key(bytes.fromhex(text)) if is_hash(text) else public_of(Path(text))[1]
    except (BadMessage, BadPlan, TransportError):
        raise DataError(
            "{parameter} is not a public key.",
            found=f"{Path(text).name:.80}",
            expected="64 hexadecimal digits, or the public file that twofold keys new writes",
            fix=Set("key", "st-anna.pub"),
            parameter="key",
        ) from None


def _ceiling(epsilon: str, delta: str) -> PureDP | ApproxDP:
    budget = ApproxDP(epsilon=epsilon, delta=delta)
    return budget if budget.delta else PureDP(epsilon=epsilon)


def _print(ledger: Ledger | Statement, json: bool) -> None:
    state = ledger.state()
    if json:
        typer.echo(json_module.dumps({"ledger": ledger.path.name, **state.as_dict()}, indent=2))
        return
    Console(soft_wrap=True).print(_summary(state))
    if state.entries:
        say("\n".join(["", *_lines(state)]))


def _summary(state: LedgerState) -> str:
    unit = Unit.from_dict(state.unit)
    raised = f" (raised {state.raised} time(s))" if state.raised else ""
    return "\n".join(
        [
            f"[bold]{escape(_printable(state.dataset))}[/bold], opened {state.opened}",
            f"  protects   each {unit.holder} ({unit.adjacency})",
            f"  ceiling    {cost_text(state.ceiling)}{raised}",
            f"  spent      {cost_text(state.spent)}",
            f"  remaining  {cost_text(state.remaining)}",
            f"  head       {state.hash}",
        ]
    )


def _printable(text: str) -> str:
    """Replace control characters: the ledger may be a stranger's."""
    return "".join(one if one.isprintable() else "?" for one in text)


def _lines(state: LedgerState) -> Iterator[str]:
    """Two lines for each release: its numbers, and what became of it."""
    yield f"{'record':>6}  {'when (UTC)':<19}  {'bytes':>11}  {'release SHA-256':<16}  cost"
    for entry in state.entries:
        when = entry.request["at"].replace("T", " ").removesuffix("Z")
        yield f"{entry.number:>6}  {when:<19}  {entry.size:>11,}  {entry.digest[:16]:<16}  {cost_text(entry.cost)}"
        seeded = "; seeded: NOT PRIVATE" if entry.request["seeded"] else ""
        yield f"        {STATUS[entry.status]}; version {_printable(entry.request['version'])} of the data{seeded}"


all_verbs(app)
