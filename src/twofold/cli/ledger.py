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
from twofold.cli.account import account, refuse_other
from twofold.cli.approve import public_of, signer_of
from twofold.cli.card import Format, card_text, write_card
from twofold.cli.options import ForceOption, refuse_output, whole_ledger
from twofold.cli.render import all_verbs, say
from twofold.errors import BadMessage, BadPlan, DataError, LedgerBroken, Set, TransportError
from twofold.privacy.budget import ApproxDP, PureDP
from twofold.privacy.card import card_from_ledger
from twofold.privacy.ledger import Entry, Ledger, LedgerState, Raise, Statement, cost_text
from twofold.privacy.printed import printable
from twofold.privacy.unit import Unit
from twofold.storage.files import write_whole
from twofold.storage.signing import SigningKey, check_public_key

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
    _print(account(path), json)


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
        book = account(path)
        verdict = book.verify(head=head, key=public)
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
    elif isinstance(book, Ledger):
        say("note: no key of the entity signs this ledger, so who can write here can rewrite it; see ledger sign")
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
    before = ledger.state()
    kept = str(before.ceiling.delta) if delta is None else delta
    ledger.raise_ceiling(_ceiling(epsilon, kept), reason=reason)
    _print(ledger, json)
    if delta is None and before.spent.delta > 0 and before.spent.delta >= before.ceiling.delta:
        typer.echo("note: δ is spent, so a release that needs some is still refused; --delta raises it", err=True)


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
    keys: Annotated[
        Path | None, typer.Option(help="Secret keys of the entity, which sign this ledger: they sign the statement.")
    ] = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Write a statement for auditors and archives: every record without its secrets. Nothing can be spent from it.

    Without --keys nobody signs it, and its readers have to trust the way it came.

    Example: twofold ledger export st-anna.ledger --keys st-anna.keys -o st-anna.statement
    """
    refuse_other(path)
    ledger = Ledger(path) if keys is None else _signed_by(path, signer_of(keys)[1])
    _refuse_own(ledger, output, "st-anna.statement")
    refuse_output(output, (path, keys), force=force)
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
    ledger = account(path)
    if output is not None:
        _refuse_own(ledger, output, "card.html")
        refuse_output(output, (path,), force=force)
    write_card(card_text(card_from_ledger(ledger, record=record), Format.json if json else form), output)


def _signed_by(path: Path, key: SigningKey) -> Ledger:
    """Open a ledger with the key that signs it; with another key, nobody could check what was signed."""
    due = Ledger(path).state().signer
    if due != key.public.hex():
        raise DataError(
            "these keys do not sign this ledger.",
            found=f"key {key.public.hex()[:16]}",
            expected=f"key {due[:16]}" if due else "a ledger that some key signs; nobody signs this one",
            fix=("leave --keys out: the statement is then not signed", "twofold ledger sign, which names other keys"),
            parameter="keys",
        )
    return Ledger(path, signer=key)


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
    if state.entries or state.raises:
        say("\n".join(["", *_lines(state)]))


def _summary(state: LedgerState) -> str:
    unit = Unit.from_dict(state.unit)
    times = "once" if state.raised == 1 else f"{state.raised:,} times"
    raised = f" (raised {times}, see below)" if state.raised else ""
    return "\n".join(
        [
            f"[bold]{escape(printable(state.dataset))}[/bold], opened {state.opened}",
            f"  protects   each {unit.holder} ({unit.adjacency})",
            f"  ceiling    {cost_text(state.ceiling)}{raised}",
            f"  spent      {cost_text(state.spent)}",
            f"  remaining  {cost_text(state.remaining)}",
            f"  head       {state.hash}",
        ]
    )


def _lines(state: LedgerState) -> Iterator[str]:
    """Two lines for each release, its numbers and what became of it, and for each raise, in the order of records."""
    told = {one.number: _release(one) for one in state.entries} | {one.number: _raised(one) for one in state.raises}
    yield f"{'record':>6}  {'when (UTC)':<19}  {'bytes':>11}  {'release SHA-256':<16}  cost"
    for _, lines in sorted(told.items()):
        yield from lines
    if state.entries:
        yield "A release has two records: what it costs, before the draw, and what became of it."


def _release(entry: Entry) -> tuple[str, str]:
    when = _moment(entry.request["at"])
    seeded = "; seeded: NOT PRIVATE" if entry.request["seeded"] else ""
    ended = f" (record {entry.ended})" if entry.ended else ""
    return (
        f"{entry.number:>6}  {when:<19}  {entry.size:>11,}  {entry.digest[:16]:<16}  {cost_text(entry.cost)}",
        f"        {STATUS[entry.status]}{ended}; version {printable(entry.request['version'])} of the data{seeded}",
    )


def _raised(one: Raise) -> tuple[str, str]:
    return (
        f"{one.number:>6}  {_moment(one.at):<19}  {'':>11}  {'ceiling raised':<16}  to {cost_text(one.ceiling)}",
        f"        reason: {printable(one.reason)}",
    )


def _moment(at: str) -> str:
    return at.replace("T", " ").removesuffix("Z")


all_verbs(app)
