"""The privacy card as a page: the same sections in HTML, which prints on one sheet, and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twofold.privacy.card import Card, percent
from twofold.report.page import Block, Column, Facts, Notice, Page, Paragraph, Points, Section, Table

__all__ = ["Gauge", "card_page", "headline", "to_html", "to_markdown"]


@dataclass(frozen=True, kw_only=True)
class Gauge(Block):
    """A bar from a coin's 50% to certainty: how often the best guess is right, as a number and in words."""

    guess: float
    text: str


def card_page(card: Card) -> Page:
    """Make the page of a card.

    Its order: what left, the three levels of the pyramid of NIST SP 800-226, what is not promised, and where it is
    recorded.
    """
    gauge = Gauge(guess=card.guess, text=percent(card.guess)) if card.private else None
    return Page(
        title=f"Privacy card: {card.dataset}",
        subtitle=f"One release, {card.at.replace('T', ' ').replace('Z', ' UTC')}",
        notice=Notice(text=headline(card), warning=not card.private, picture=gauge),
        sections=(
            _left(card),
            _guarantee(card),
            _weaken(card),
            _rests(card),
            Section("What is not promised", (Points(card.not_promised),)),
            _record(card),
        ),
        footer=f"Sections follow the pyramid of NIST SP 800-226. Made by {card.software} from the ledger alone.",
        sheet=True,
    )


def to_html(card: Card) -> str:
    """Write the card as one HTML page."""
    return card_page(card).html()


def headline(card: Card) -> str:
    """Give the one sentence that everyone reads.

    Privacy
    -------
    A seeded release or one without a guarantee starts with NOT PRIVATE, whatever its parameters say.
    """
    if not card.private:
        return "NOT PRIVATE. This release protects nobody. Use it for tests only."
    several = card.releases > 1 or card.unit.get("entities", 1) > 1
    seen = "everything that left" if several else "what left"
    seen = seen if card.parties == 1 else f"the sum of {card.parties} such messages, but no message alone,"
    said = (
        f"Someone who sees {seen} and guesses whether one {card.unit['holder']} was in the data is right at most "
        f"{percent(card.guess)} of the time. A coin is right 50%."
    )
    if card.alone is None:
        return said
    return f"{said} If all others collude and see this message alone: {percent(card.alone.guess)}."


def _left(card: Card) -> Section:
    rows = (
        ("What left", f"{card.what_left}, {card.bytes:,} bytes"),
        ("Protects", card.protects),
        ("Against", card.against),
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
    return Section("1. The guarantee", (Paragraph(text), Table(caption="", columns=columns, rows=rows, strong=(0,))))


def _weaken(card: Card) -> Section:
    rows = [("Noise", " ".join(card.mechanisms))]
    if card.noise and card.signal:
        rows.append(("Noise against signal", _ratio(card.noise, card.signal)))
    rows += [
        ("Randomness", f"{card.randomness}; noise is added to whole numbers, so no floating-point trace remains"),
        ("Parameters", "every size, bound and count comes from the public plan, none from the data"),
        ("Software", card.software),
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
    trust = "the entity that holds the records draws the noise itself; nobody who receives the release is trusted"
    if card.parties > 1:
        trust = (
            "each entity draws its share of the noise itself. The server is not trusted. "
            f"{card.parties} entities of the sum are trusted with one thing: to draw their share and to keep it secret"
        )
    rows = (
        ("Trust", trust),
        ("Access", "the raw records, this ledger and the local models stay inside; the entity must protect them"),
        ("Collection", "this card does not decide whether the data may be used"),
        ("Neighbours", f"{card.adjacency}; bounds per {card.unit['holder']} are enforced before the draw"),
    )
    return Section("3. What it rests on", (Facts(rows=rows),))


def _record(card: Card) -> Section:
    rows = (
        ("Ledger", f"spent {card.spent} of {card.ceiling} over {card.releases} release(s); record {card.record}"),
        ("Record hash", card.record_hash),
        ("Release SHA-256", card.digest),
        ("Plan SHA-256", card.plan),
        ("Version of the data", card.version),
    )
    check = Paragraph("Check with: twofold ledger verify LEDGER --head RECORD-HASH")
    return Section("Where it is recorded", (check, Facts(rows=rows)))


def to_markdown(card: Card) -> str:
    """Write the card as Markdown that also reads well unrendered."""
    page = card_page(card)
    parts = [f"# {_safe(page.title)}", f"**{headline(card)}**"]
    for section in page.sections:
        parts += [f"## {section.title}", *map(_markdown, section.blocks)]
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
