"""`twofold card`: make, check and publish the privacy card of a release."""

from __future__ import annotations

import json as json_module
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from twofold.cli.account import account, refuse_other
from twofold.cli.approve import public_of, signer_of
from twofold.cli.options import ForceOption, Json, refuse_output
from twofold.cli.render import all_verbs, say
from twofold.errors import DataError, Set
from twofold.privacy.card import Card, card_from_ledger
from twofold.privacy.ledger import Ledger
from twofold.privacy.signed_card import LedgerNow, SignedCard, check_ledger, sign_card
from twofold.privacy.site_words import SiteWords, read_audit, read_site_words
from twofold.report.card import headline, to_html, to_markdown
from twofold.report.card_file import read_card_file
from twofold.report.registry import registry_entry, to_yaml
from twofold.storage.files import write_whole

__all__ = ["Format", "app", "card_text", "refuse_ledger", "write_card"]

app = typer.Typer(no_args_is_help=True, help="The privacy card of a release: show, verify, export.")

Output = Annotated[Path | None, typer.Option("--output", "-o", help="A file; standard output by default.")]
CardArgument = Annotated[Path, typer.Argument(help="A signed card: JSON, HTML or Markdown.")]


#: What a statement of the ledger shows about a card, by whether the card's key signed it.
_STATEMENT: Final = {
    "signed": (
        "the statement holds this release, and the card's key signed both. It is no ledger: what was recorded since, "
        "and the stored release itself, were not checked"
    ),
    "unsigned": (
        "the statement agrees with the card, but the card's key has not signed it: that proves nothing by itself. Ask "
        "for one exported with --keys"
    ),
}


class Format(StrEnum):
    """How a card is written."""

    markdown = "markdown"
    html = "html"
    json = "json"


@app.command()
def show(
    ledger: Annotated[Path, typer.Argument(help="The ledger file.")],
    record: Annotated[int | None, typer.Option(help="Number of the release's record; the latest by default.")] = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="By default that of the output's name, else Markdown.")
    ] = None,
    output: Output = None,
    keys: Annotated[Path | None, typer.Option(help="The entity's secret keys: the card is signed with them.")] = None,
    site: Annotated[Path | None, typer.Option(help="TOML file with the site's words, as in the options below.")] = None,
    curator: Annotated[str | None, typer.Option(help="Who publishes.")] = None,
    curator_type: Annotated[str | None, typer.Option(help="Government, Industry or Nonprofit.")] = None,
    use: Annotated[str | None, typer.Option(help="What the release is for.")] = None,
    region: Annotated[str | None, typer.Option(help="Where the people live, or whose law applies.")] = None,
    sector: Annotated[str | None, typer.Option(help="Such as Healthcare or Education.")] = None,
    why_epsilon: Annotated[str | None, typer.Option(help="Why this ε was chosen.")] = None,
    decided_by: Annotated[str | None, typer.Option(help="Who decided.")] = None,
    tuning: Annotated[str | None, typer.Option(help="How the plan's numbers were found, and whether paid for.")] = None,
    dpia: Annotated[str | None, typer.Option(help="Reference of the data-protection impact assessment.")] = None,
    officer: Annotated[str | None, typer.Option(help="The data-protection officer.")] = None,
    advice: Annotated[str | None, typer.Option(help="What the officer advised.")] = None,
    audit: Annotated[Path | None, typer.Option(help="Result of the attack tests: twofold audit --output FILE.")] = None,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Print the privacy card of a release, made from its ledger; with --keys, signed.

    What the site does not say is printed as "not stated".

    Example: twofold card show st-anna.ledger --keys st-anna.keys --site site.toml -o card.html
    """
    said = (SiteWords() if site is None else read_site_words(site)).with_(
        curator=curator,
        curator_type=curator_type,
        use=use,
        region=region,
        sector=sector,
        why_epsilon=why_epsilon,
        decided_by=decided_by,
        tuning=tuning,
        dpia=dpia,
        officer=officer,
        advice=advice,
    )
    result = None if audit is None else read_audit(audit)
    refuse_other(ledger)
    book = Ledger(ledger)
    refuse_ledger(output, book)
    if output is not None:
        refuse_output(output, (keys, site, audit), force=force)
    made = card_from_ledger(book, record=record, statement=said, audit=result)
    written = made if keys is None else sign_card(made, signer_of(keys)[1])
    chosen = Format.json if json else form or _form_of(output)
    write_card(card_text(written, chosen), output)
    if output is not None and not json:
        how = "a draft, which the entity has not signed (--keys)" if keys is None else "signed"
        say(f"{output.name}: {chosen} card of {made.dataset}, {how}")


@app.command()
def verify(
    file: CardArgument,
    key: Annotated[Path | None, typer.Option(help="Public keys of the signer, such as st-anna.pub.")] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger it was made from, if you may read it, or a statement of it.")
    ] = None,
    json: Json = False,
) -> None:
    """Check a card: its signature, that its page shows what was signed, its signer, and its ledger.

    Without --key, compare the printed fingerprint with the institution's. Exit code 2 if anything does not fit.
    A ledger that has grown since still fits: the card was true when it was made. What was spent by now is printed.

    Example: twofold card verify card.html --key st-anna.pub
    """
    found = read_card_file(file)
    signed = found.signed
    if key is not None:
        signed.check_key(public_of(key)[1])
    now = None if ledger is None else check_ledger(signed, account(ledger))
    if json:
        typer.echo(json_module.dumps(_verdict(signed, found.form, key, now), indent=2, ensure_ascii=False))
        return
    say(f"sound: {found.form} card of {signed.card.dataset}, release of {signed.card.at}")
    say(f"  {headline(signed.card)}")
    for text in signed.card.weak:
        say(f"  WEAK: {text}")
    for figure in signed.card.figures:
        say(f"  {figure.cost}: {figure.meaning}")
    say(f"  signed {signed.at} by the key with fingerprint {signed.fingerprint}")
    say("  the signer's key is the one you named" if key else "  signer not checked: compare the fingerprint, or --key")
    say(f"  {_ledger_line(now)}")


@app.command()
def export(
    file: CardArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, such as visits_2020.yaml.")],
    author: Annotated[list[str] | None, typer.Option(help="Who fills in the entry; repeat for several.")] = None,
    registry: Annotated[
        bool, typer.Option("--registry", help="YAML for the OpenDP/NIST deployments registry.")
    ] = False,
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Write a signed card for a registry. Nothing is sent: look at the file, then submit it yourself.

    The card must state curator, curator type, use and region.

    Example: twofold card export card.json --registry --author "A. Officer" -o visits_2020.yaml
    """
    if not registry:
        raise DataError("say which form to write.", fix=Set("registry", True), parameter="registry")
    if not re.fullmatch(r"[a-z0-9_]+\.yaml", output.name):
        raise DataError(
            "the registry takes file names of small letters, digits and underscores.",
            found=output.name,
            expected="a name such as visits_2020.yaml",
            parameter="output",
        )
    refuse_output(output, (file,), force=force)
    entry = registry_entry(read_card_file(file).signed.card, authors=author or ())
    write_whole(output, to_yaml(entry).encode())
    if json:
        typer.echo(json_module.dumps(entry, indent=2, ensure_ascii=False))
        return
    say(f"{output.name}: registry entry, status Draft, tier {entry['deployment']['administrative']['tier']}")
    if "data_product_sector" not in entry["deployment"]["basic"]:
        say("note: the registry has no such sector; the entry names it in its text", err=True)


def card_text(card: Card | SignedCard, form: Format) -> str:
    """Write a card in one of its forms."""
    if form is Format.json:
        return card.to_json() if isinstance(card, Card) else card.to_json() + "\n"
    return to_html(card) if form is Format.html else to_markdown(card)


def refuse_ledger(output: Path | None, ledger: Ledger) -> None:
    """Refuse to write a card over a file of its ledger."""
    if output is None or (output.is_symlink() and not output.exists()):
        return  # a link that leads nowhere is refused as an output
    if ledger.owns(output):
        raise DataError(
            "that file belongs to the ledger.", found=output.name, fix=Set("output", "card.html"), parameter="output"
        )


def write_card(content: str, output: Path | None) -> None:
    """Print a card, or write it to a file."""
    if output is None:
        typer.echo(content, nl=False)
        return
    write_whole(output, content.encode())


def _form_of(output: Path | None) -> Format:
    endings = {".html": Format.html, ".htm": Format.html, ".json": Format.json}
    return endings.get(output.suffix.lower(), Format.markdown) if output is not None else Format.markdown


def _ledger_line(now: LedgerNow | None) -> str:
    if now is None:
        return "ledger not checked: --ledger"
    if now.statement:
        return _STATEMENT[now.statement]
    if not now.has_grown:
        return "the ledger holds this release, and nothing since"
    count = f"{now.releases:,} {'release' if now.releases == 1 else 'releases'}"
    return (
        "the ledger holds this release; all above is as of the card: "
        f"the ledger has grown since and has now spent {now.spent} in {count}"
    )


def _verdict(signed: SignedCard, form: str, key: Path | None, now: LedgerNow | None) -> dict[str, object]:
    return {
        "sound": True,
        "form": form,
        "signer_checked": key is not None,
        "ledger_checked": now is not None,
        "statement": None if now is None or not now.statement else now.statement,
        "ledger_has_grown": None if now is None else now.has_grown,
        "spent_now": None if now is None else now.spent,
        "releases_now": None if now is None else now.releases,
        "fingerprint": signed.fingerprint,
        "signed_at": signed.at,
        "record_hash": signed.card.record_hash,
        "card": signed.card.as_dict(),
    }


all_verbs(app)
