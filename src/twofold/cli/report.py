"""`twofold report`: one page about an entity's model, its two messages and its privacy card."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.evaluate import (
    Against,
    Data,
    Factors,
    HoldOut,
    LeaveOut,
    Lists,
    PlanFile,
    Seed,
    Test,
    Unknown,
    judged_model,
    table_columns,
)
from twofold.cli.formats import with_formats
from twofold.cli.options import (
    Decimal,
    Duplicates,
    Encoding,
    ForceOption,
    ItemColumn,
    Json,
    Missing,
    Separator,
    UserColumn,
    ValueColumn,
    read_agreed,
    refuse_output,
)
from twofold.entity.evaluate import AGAINST
from twofold.entity.held_out import factors_of, plan_of
from twofold.entity.model import Model
from twofold.errors import DataError, PlanMismatch
from twofold.privacy.card import Card, card_from_ledger
from twofold.privacy.ledger import Ledger
from twofold.privacy.signed_card import SignedCard
from twofold.privacy.site_words import read_site_words
from twofold.report.card_file import read_card_file
from twofold.report.model_page import model_page
from twofold.storage.files import write_whole

__all__ = ["report"]

_AGAINST = ",".join(AGAINST)


@with_formats
def report(
    model: Annotated[Path, typer.Argument(help="A model made by `twofold personalize` or `join`.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, such as report.html.")],
    factors: Factors = None,
    plan: PlanFile = None,
    data: Data = None,
    test: Test = None,
    against: Against = _AGAINST,
    leave_out: LeaveOut = None,
    hold_out: HoldOut = None,
    n: Lists = 10,
    seed: Seed = 0,
    ledger: Annotated[
        Path | None, typer.Option(help="The entity's ledger: the card of the model's release is made from it.")
    ] = None,
    card: Annotated[Path | None, typer.Option(help="A signed card (twofold card show), instead of --ledger.")] = None,
    site: Annotated[Path | None, typer.Option(help="With --ledger: TOML file with the site's words.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="For readers outside: leave out all that was computed from private data.")
    ] = False,
    user: UserColumn = "user",
    item: ItemColumn = "item",
    value: ValueColumn = "value",
    duplicates: Duplicates = "error",
    unknown_items: Unknown = "drop",
    missing: Missing = "error",
    separator: Separator = ",",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: ForceOption = False,
    json: Json = False,
) -> None:
    """Write one page: whether joining paid, what left and came back, the model, and the privacy card.

    Quality is measured as `twofold evaluate` does, with --factors or --test; without them, and with --public, it is
    left out. The page is one file without scripts. Unless --public is given it holds figures of private data.

    Examples
    --------
    twofold report st-anna.model --plan plan.toml --factors items.round2 --ledger st-anna.ledger -o report.html
    twofold report st-anna.model --public --card st-anna.card -o public.html
    """
    inputs = (model, factors, plan, data, test, card, site)
    refuse_output(output, inputs, force=force, ledger=ledger)
    if ledger is not None and card is not None:
        raise typer.BadParameter("give one of --ledger and --card")
    if site is not None and ledger is None:
        raise typer.BadParameter("belongs to --ledger", param_hint="--site")
    if public and (data is not None or test is not None or leave_out is not None or hold_out is not None):
        raise typer.BadParameter("a public page has no quality: leave out --data, --test and the splitters")
    loaded = Model.load(model)
    told = _card(loaded, ledger, card, site)
    agreed = plan_of(loaded, None if plan is None else read_agreed(plan))
    shared = None if factors is None else factors_of(loaded, factors, agreed)
    judged = None
    if not public and (loaded.alone or factors is not None or test is not None or data is not None):
        judged = judged_model(
            loaded,
            data=data,
            test=test,
            factors=factors,
            plan=agreed,
            against=against,
            leave_out=leave_out,
            hold_out=hold_out,
            seed=seed,
            columns=table_columns(user, item, value, duplicates, unknown_items, missing, separator, encoding, decimal),
            n=n,
        )
    received = None if factors is None else factors.stat().st_size
    page = model_page(loaded, evaluation=judged, card=told, factors=shared, received=received, public=public)
    text = page.html().encode()
    write_whole(output, text, mode=0o666 if public else 0o600)
    verdict = None if judged is None else judged.verdict
    record = {"file": output.name, "bytes": len(text), "public": public, "verdict": verdict, "card": told is not None}
    if json:
        typer.echo(jsonlib.dumps(record, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{output}: {len(text):,} bytes, one file")
    if verdict is not None:
        typer.echo(f"  {verdict}")
    if judged is not None and judged.another:
        typer.echo(f"  {judged.another}")
    if judged is None and not public:
        typer.echo("  without quality: give --factors or --test to measure it")
    typer.echo("  for readers outside, too" if public else "  holds figures of private data: keep it inside")


def _card(model: Model, ledger: Path | None, card: Path | None, site: Path | None) -> Card | SignedCard | None:
    """Read the card, or make it from the record of the model's plan."""
    if card is not None:
        return read_card_file(card).signed
    if ledger is None:
        return None
    book = Ledger(ledger)
    if model.plan is None or model.alone:
        raise DataError("nothing was released for this model, so it has no card.", parameter="ledger")
    made = [one.number for one in book.state().entries if one.status == "released" and one.key[0] == model.plan.hash]
    if not made:
        raise PlanMismatch(
            "this ledger has no release of the model's plan.",
            expected=f"a release of plan {model.plan.hash[:12]}",
            parameter="ledger",
        )
    return card_from_ledger(book, record=made[-1], statement=None if site is None else read_site_words(site))
