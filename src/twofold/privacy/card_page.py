"""The page as a list of sections, so that Markdown and HTML say the same in the same order."""

from __future__ import annotations

from dataclasses import dataclass, field

from twofold.privacy.card import Card
from twofold.privacy.card_words import percent
from twofold.privacy.explain import Range

__all__ = ["Section", "headline", "sections"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading, an opening sentence, a table of facts or figures, and a list."""

    title: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    points: tuple[str, ...] = field(default=())


def headline(card: Card) -> str:
    """Say the one sentence that everybody reads.

    Privacy
    -------
    A seeded release or one without a guarantee starts with NOT PRIVATE, whatever its parameters say.
    """
    if not card.private:
        return "NOT PRIVATE. This release protects nobody; it must not leave a test."
    several = card.releases > 1 or card.unit.get("entities", 1) > 1
    seen = "everything that left" if several else "what left"
    seen = seen if card.parties == 1 else f"the sum of {card.parties} such messages, and no message alone"
    said = (
        f"Whoever sees {seen}, and must say of one {_holder(card)} whether they were in the data, "
        f"is right at most {percent(card.guess)} of the time. A coin is right 50%."
    )
    if card.alone is None:
        return said
    return f"{said} Should all others collude and this message be seen alone: {percent(card.alone.guess)}."


def sections(card: Card) -> list[Section]:
    """Give the page in order: what left, then the three levels of the pyramid, then where it is recorded."""
    return [_left(card), _guarantee(card), _weaken(card), _rests(card), _not_promised(card), _record(card)]


def _holder(card: Card) -> str:
    return str(card.unit["holder"])


def _left(card: Card) -> Section:
    rows = (
        ("What left", f"{card.what_left}, {card.bytes:,} bytes"),
        ("Protecting", card.protects),
        ("Against", card.against),
    )
    return Section(title="What left, and whom it protects", rows=rows)


def _guarantee(card: Card) -> Section:
    rows = tuple((figure.meaning, figure.cost, percent(figure.guess)) for figure in card.figures)
    text = (
        "The smaller ε and δ, the stronger. The last column is how often the best guess of an attacker can be right "
        "who starts from even odds (50%), δ counted in."
    )
    if any(figure.delta for figure in card.figures):
        text += " δ is slack: with about that probability more may be learned than ε allows."
    if not card.private:
        text = "There is no guarantee. The figures show what the ledger holds."
    return Section(title="1. The guarantee", text=text, columns=("what is hidden", "cost", "best guess"), rows=rows)


def _weaken(card: Card) -> Section:
    rows = [("Noise", " ".join(card.mechanisms))]
    if card.noise and card.signal:
        rows.append(("Noise against signal", _ratio(card.noise, card.signal)))
    rows += [
        ("Randomness", card.randomness + "; noise is added to whole numbers, so no floating-point trace remains"),
        ("Parameters", "every size, bound and count comes from the public plan, none from the data"),
        ("Software", card.software),
    ]
    return Section(title="2. What could weaken it", rows=tuple(rows))


def _ratio(noise: float, signal: Range) -> str:
    low, high = signal.low / noise, signal.high / noise
    return (
        f"The noise on one number is {noise:.3g}; the signal, from public numbers alone, is {signal.low:.3g} to "
        f"{signal.high:.3g}: {low:.2g} to {high:.2g} times the noise. {_useful(low, high)}"
    )


def _useful(low: float, high: float) -> str:
    if low >= 1:
        return "Single numbers stand out."
    if high >= 1:
        return "Single numbers stand out if the people of a group are alike."
    return "Single numbers drown; only what many of them say together can be used."


def _rests(card: Card) -> Section:
    rows = (
        ("Trust", _trust(card)),
        (
            "Access",
            "the raw records, this ledger and the local models stay inside; their protection is the entity's duty",
        ),
        ("Collection", "nothing here says whether the data may be used; that was to be decided before"),
        ("Neighbours", f"{card.adjacency}; bounds per {_holder(card)} are enforced before the draw"),
    )
    return Section(title="3. What it rests on", rows=rows)


def _trust(card: Card) -> str:
    own = "the entity that holds the records draws the noise itself; nobody who receives the release is trusted"
    if card.parties == 1:
        return own
    return (
        "each entity draws its share of the noise itself. The server is not trusted. "
        f"{card.parties} entities of the sum are, with one thing: to have drawn their share, and to tell it nobody"
    )


def _not_promised(card: Card) -> Section:
    return Section(title="What is not promised", points=card.not_promised)


def _record(card: Card) -> Section:
    rows = (
        ("Ledger", f"spent {card.spent} of {card.ceiling} over {card.releases} release(s); record {card.record}"),
        ("Record hash", card.record_hash),
        ("Release SHA-256", card.digest),
        ("Plan SHA-256", card.plan),
        ("Version of the data", card.version),
    )
    return Section(
        title="Where it is recorded", text="Check with: twofold ledger verify LEDGER --head RECORD-HASH", rows=rows
    )
