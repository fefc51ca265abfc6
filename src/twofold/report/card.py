"""The privacy card as a page: the same sections in HTML, which prints on two sheets, and in Markdown.

A signed card carries its signed JSON inside both forms, so that one file is enough to check it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twofold.privacy.budget import exact
from twofold.privacy.card import Card
from twofold.privacy.printed import percent, rounded_up
from twofold.privacy.signed_card import SignedCard
from twofold.privacy.trust import NOT_RECORDED, needed, site_assumptions
from twofold.report.page import Block, Column, Facts, Notice, Page, Paragraph, Points, Section, Table

__all__ = ["FENCE", "Gauge", "card_page", "headline", "to_html", "to_markdown"]

#: Begins the block with the signed JSON in Markdown; no other line of a card can be equal to it.
FENCE: Final = "```json signed-card"
#: What hides single messages, by the kind of secure sum.
_HIDES: Final = {"peers": "masks", "operators": "sealed shares"}


@dataclass(frozen=True, kw_only=True)
class Gauge(Block):
    """A bar from a coin's 50% to certainty: how often the best guess is right, as a number and in words."""

    guess: float
    text: str


def card_page(card: Card, signed: SignedCard | None = None) -> Page:
    """Make the page of a card.

    Its order: what left, the three levels of the pyramid of NIST SP 800-226, what is not promised, who decided, and
    where it is recorded.
    """
    gauge = Gauge(guess=card.guess, text=percent(card.guess)) if card.private else None
    more = tuple(f"WEAK: {text}" for text in card.weak)
    return Page(
        title=f"Privacy card: {card.dataset}",
        subtitle=f"One release, {_moment(card.at)}",
        notice=Notice(text=headline(card), more=more, warning=not card.private, picture=gauge),
        sections=(
            _left(card),
            _guarantee(card),
            _weaken(card),
            _rests(card),
            Section("What is not promised", (Points(card.not_promised),)),
            _decided(card),
            _record(card, signed),
        ),
        footer=f"Sections follow the pyramid of NIST SP 800-226. {_source(card)}",
        sheet=True,
        data="" if signed is None else signed.to_json(),
    )


def _moment(at: str) -> str:
    return at.replace("T", " ").replace("Z", " UTC")


def _source(card: Card) -> str:
    return (
        f"Made by {card.software} from the ledger; the site's own words are those under curator, use, region, sector, "
        "tuning and who decided."
    )


def to_html(card: Card | SignedCard) -> str:
    """Write the card as one HTML page."""
    return _page(card).html()


def _page(card: Card | SignedCard) -> Page:
    return card_page(card) if isinstance(card, Card) else card_page(card.card, card)


def headline(card: Card) -> str:
    """Give what everyone reads: a sentence about this release, and one about all releases where there are several.

    Privacy
    -------
    A seeded release or one without a guarantee starts with NOT PRIVATE, whatever its parameters say.
    """
    if not card.private:
        return "NOT PRIVATE. This release protects nobody. Use it for tests only."
    seen = "everything that left" if card.unit.get("entities", 1) > 1 else "what left"
    if card.sharing != "plain":
        least = "" if card.survivors is None else f" (at least {card.survivors:,} messages)"
        seen = f"the published sum{least}"
    who = f"Someone who sees {seen}"
    if card.readers is not None:
        who = f"One operator alone, who sees {seen} and knows its own noise,"
    said = (
        f"{who} guesses right whether one {card.unit['holder']} was in the data at most {percent(card.guess)} of the "
        "time. A coin is right 50%."
    )
    if card.readers is not None and card.unit.get("entities", 1) == 1:
        said += f" Readers of the sum, who know neither operator's noise: {percent(card.readers.guess)}."
    if card.alone is not None:
        lost = "If all others collude with the server and see this message alone"
        if card.sharing == "operators":
            lost = "If both operators work together"
        said += f" {lost}: {percent(card.alone.guess)}."
    return f"{said}{_together(card)}"


def _together(card: Card) -> str:
    """Say the same of all releases, and of draws that were charged though nothing left."""
    total, alone = card.together, card.all_alone
    if total is None or (card.releases == 1 and alone is None and total.cost == card.figures[0].cost):
        return ""
    what = f"All {card.releases:,} releases together" if card.releases > 1 else "With all that was charged so far"
    worst = "" if alone is None else f"; if all others collude each time: {percent(alone.guess)}"
    return f" {what}: at most {percent(total.guess)}{worst}."


def _left(card: Card) -> Section:
    site = card.statement
    kind = f" ({site.curator_type})" if site.curator_type else ""
    rows = (
        ("What left", f"{card.what_left}, {card.bytes:,} bytes in all"),
        ("Protects", card.protects),
        ("Against", card.against),
        ("Curator", site.said("curator") + kind),
        ("Intended use", site.said("use")),
        ("Region", site.said("region")),
        ("Sector", site.said("sector")),
    )
    return Section("What left, and whom it protects", (Facts(rows=rows),))


def _guarantee(card: Card) -> Section:
    rows = tuple((figure.meaning, figure.cost, percent(figure.guess)) for figure in card.figures)
    text = (
        "Smaller ε and δ protect more. The last column says how often an attacker's best guess can be right, starting "
        "from even odds (50%) and with δ included."
    )
    if any(figure.delta for figure in card.figures):
        text += " δ is slack: with about that probability, more may be learned than ε allows."
    if not card.private:
        text = "There is no guarantee. The figures show what the ledger holds."
    columns = (Column("what is hidden", numeric=False), Column("cost"), Column("best guess"))
    table = Table(caption="", columns=columns, rows=rows, strong=(0,))
    return Section("1. The guarantee", (Paragraph(text), table, Facts(rows=_account(card))))


def _account(card: Card) -> tuple[tuple[str, str], ...]:
    noise = ""
    if card.rho is not None:
        noise = f"; the noise has ρ = {rounded_up(exact(card.rho))} of zero-concentrated differential privacy"
    return (
        ("Variant", f"{card.variant}{noise}"),
        ("Composition", card.composition),
        ("Budget", f"spent {card.spent} of {card.ceiling}; renews: {card.renews}"),
        ("Releases", card.release_type),
        ("Data", card.data_source),
    )


def _weaken(card: Card) -> Section:
    rows = [("Noise", " ".join(card.mechanisms))]
    if card.noise and card.signal:
        rows.append(("Noise against signal", _ratio(card.noise, card.signal)))
    tested = "not run here" if card.audit is None else card.audit.said(card.software)
    if card.audit is not None and card.sharing != "plain":
        tested += f"; they attack the noise and its shares, not the {_HIDES[card.sharing]}"
    rows += [
        ("Randomness", f"{card.randomness}; noise is added to whole numbers, so no floating-point trace remains"),
        ("Parameters", "every size, bound and count comes from the public plan, none from the data"),
        ("Preprocessing", card.preprocessing),
        (
            "Tuning",
            f"none on the data for this release; how the plan's numbers were found: {card.statement.said('tuning')}",
        ),
        ("Post-processing", card.post_processing),
        ("Timing", card.timing),
        ("Software", card.software),
        ("Attack tests", f"twofold audit: {tested}"),
    ]
    return Section("2. What could weaken it", (Facts(rows=tuple(rows)),))


def _ratio(noise: float, signal: Mapping[str, float]) -> str:
    low, high = signal["low"] / noise, signal["high"] / noise
    return (
        f"The noise on one number is {noise:.3g}; the signal, from public numbers alone, is {signal['low']:.3g} to "
        f"{signal['high']:.3g}: {low:.2g} to {high:.2g} times the noise. {_useful(low, high)}"
    )


def _useful(low: float, high: float) -> str:
    if low >= 1:
        return "Single numbers stand out."
    if high >= 1:
        return "Single numbers stand out if the people in a group are alike."
    return "Noise hides single numbers; only many of them together are useful."


def _rests(card: Card) -> Section:
    holder = card.unit["holder"]
    bounds = f"bounds per {holder} are enforced before the draw"
    rows = [("Model", f"{card.model}. {card.noise_by}")]
    if card.sharing != "plain":
        rows.append(("Secure sum", _numbers(card) if card.sharing == "peers" else _operator_numbers(card)))
    rows += [
        ("Site", site_assumptions(card.sharing)),
        ("Access", "the raw records, the ledger and the local models stay inside; the entity must protect them"),
        ("Collection", "this card does not decide whether the data may be used"),
        ("Neighbours", f"{card.adjacency}: data with and without one {holder}; {bounds}"),
        ("Shown without noise", "; ".join(card.unprotected)),
    ]
    return Section("3. What it rests on", (Paragraph(card.trust), Facts(rows=tuple(rows))))


def _numbers(card: Card) -> str:
    """Numbers of the secure sum as the plan has them, each with its meaning."""
    whole = "all " if card.survivors is not None and card.survivors == card.entities else ""
    named = (
        ("entities", "", card.entities, "named in the plan"),
        ("survivors", whole, card.survivors, "needed in the sum" if whole else "or more needed in the sum"),
        ("colluders", "", card.colluders, "may work with the server"),
    )
    said = [
        f"{name}: {NOT_RECORDED if count is None else f'{before}{count:,} {what}'}"
        for name, before, count, what in named
    ]
    return f"{'; '.join(said)}; honest: the noise of {needed(card.parties)}, suffices"


def _operator_numbers(card: Card) -> str:
    """Numbers of a sum with two operators as the plan has them."""
    least = NOT_RECORDED if card.survivors is None else f"{card.survivors:,} entities or more in a published sum"
    named = NOT_RECORDED if card.entities is None else f"at most {card.entities:,} in the plan"
    said = f"entities: {named}; floor: {least}"
    if card.parties == 1:
        return f"{said}; the noise of one honest operator suffices, whatever entities do"
    few = NOT_RECORDED if card.colluders is None else f"{card.colluders:,} may work with one operator"
    return f"{said}; colluders: {few}; honest: the noise of {needed(card.parties)}, suffices"


def _decided(card: Card) -> Section:
    site = card.statement
    rows = (
        ("Why this ε", site.said("why_epsilon")),
        ("Decided by", site.said("decided_by")),
        ("DPIA", site.said("dpia")),
        ("DP officer", f"{site.said('officer')}; advice: {site.said('advice')}"),
    )
    return Section("Who decided", (Facts(rows=rows),))


def _record(card: Card, signed: SignedCard | None) -> Section:
    rows = (
        ("Record", f"number {card.record} of {card.ledger_records} in the ledger of {card.dataset}"),
        ("Record hash", card.record_hash),
        ("Ledger head", card.ledger_head),
        ("Release SHA-256", card.digest),
        ("Plan SHA-256", card.plan),
        ("Data version", card.version),
        ("Signed", "not signed by the entity: a draft" if signed is None else _signer(signed)),
    )
    command = "twofold ledger verify LEDGER --head RECORD-HASH"
    if signed is not None:
        command = "twofold card verify THIS-FILE --key NAME.pub --ledger LEDGER"
    return Section("Where it is recorded", (Paragraph(f"Check with: {command}"), Facts(rows=rows)))


def _signer(signed: SignedCard) -> str:
    return f"{_moment(signed.at)}, by the key whose fingerprint is: {signed.fingerprint}"


def to_markdown(card: Card | SignedCard) -> str:
    """Write the card as Markdown that also reads well unrendered."""
    page = _page(card)
    assert page.notice is not None
    parts = [f"# {_safe(page.title)}", f"**{page.notice.text}**", *page.notice.more, _safe(page.subtitle)]
    for section in page.sections:
        parts += [f"## {section.title}", *map(_markdown, section.blocks)]
    if page.data:
        parts.append(f"{FENCE}\n{page.data}\n```")
    return "\n\n".join(parts) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Paragraph(text):
            return text
        case Points(points):
            return "\n".join(f"- {_safe(point)}" for point in points)
        case Table(columns=columns, rows=rows):
            return _lines([column.name for column in columns], rows)
        case Facts(rows=facts):
            return _lines(["", ""], facts)
    raise AssertionError(block)


def _lines(names: list[str], rows: tuple[tuple[str, ...], ...]) -> str:
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    return "\n".join(lines + ["| " + " | ".join(map(_safe, row)) + " |" for row in rows])


def _safe(text: str) -> str:
    """Escape a name from a file, so that it cannot break a table or become markup."""
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
