r"""The page as a list of sections, so that Markdown and HTML say the same in the same order.

The privacy card as one self-contained HTML page: no script, no font, nothing fetched; prints on one sheet.

The privacy card as Markdown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from twofold.privacy.card import Card, percent

__all__ = ["Section", "headline", "sections", "to_html", "to_markdown"]


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


STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 14px/1.4 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: #111; background: #fff;
  max-width: 760px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 22px; margin: 0 0 2px; }
h2 { font-size: 15px; margin: 14px 0 4px; border-bottom: 1px solid #111; padding-bottom: 2px; }
p { margin: 4px 0 6px; }
.when { color: #444; margin: 0 0 10px; }
.headline { display: flex; flex-wrap: wrap; gap: 10px 18px; align-items: center;
  border: 2px solid #111; padding: 12px 16px; margin: 8px 0; }
.headline p { font-size: 16px; font-weight: 600; margin: 0; flex: 1 1 260px; }
.headline.broken { background: #111; color: #fff; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 3px 8px 3px 0; border-bottom: 1px solid #ccc; }
th { font-weight: 600; }
thead th { color: #444; font-weight: 400; white-space: nowrap; }
tbody.figures th { font-weight: 400; }
tbody.figures tr:first-child { font-size: 1.1em; }
tbody.figures tr:first-child th, tbody.figures tr:first-child td { font-weight: 700; }
tbody.facts th { width: 140px; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
.hash { font: 11px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
ul { margin: 4px 0; padding-left: 18px; }
li { margin: 1px 0; }
svg { flex: none; }
footer { color: #444; font-size: 12px; margin-top: 12px; }
@page { size: A4; margin: 12mm; }
@media print {
  body { margin: 0; padding: 0; max-width: none; font-size: 10.5px; line-height: 1.3; }
  h1 { font-size: 18px; }
  h2 { font-size: 12.5px; margin: 8px 0 2px; break-after: avoid; }
  td, th { padding-top: 2px; padding-bottom: 2px; }
  tr, li { break-inside: avoid; }
  .when { margin-bottom: 4px; }
  .headline { padding: 6px 12px; }
  .headline p { font-size: 13px; }
  .hash, footer { font-size: 9.5px; }
  footer { margin-top: 6px; }
  * { print-color-adjust: exact; }
}
"""


def to_html(card: Card) -> str:
    """Write the card as one HTML page."""
    body = "\n".join(_section(section) for section in sections(card))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Privacy card: {escape(card.dataset)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Privacy card: {escape(card.dataset)}</h1>
<p class="when">One release, {escape(card.at.replace("T", " ").replace("Z", " UTC"))}</p>
<div class="headline{"" if card.private else " broken"}">{_gauge(card)}<p>{escape(headline(card))}</p></div>
{body}
<footer>Order after the pyramid of NIST SP 800-226. Made by {escape(card.software)} from the ledger alone.</footer>
</body>
</html>
"""


def _gauge(card: Card) -> str:
    """Draw how far the best guess has moved from a coin's 50% towards certainty; hatching, not colour."""
    if not card.private:
        return ""
    guess = card.guess
    width, reach = 170, round(170 * (guess - 0.5) * 2)
    return f"""<svg width="190" height="58" viewBox="0 0 190 58" role="img" aria-label="best guess {percent(guess)}">
<defs><pattern id="h" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="5" height="5" fill="#fff"/><rect width="2.2" height="5" fill="#111"/></pattern></defs>
<text x="10" y="14" font-size="15" font-weight="700" fill="#111">{percent(guess)}</text>
<rect x="10" y="21" width="{width}" height="16" fill="#fff" stroke="#111"/>
<rect x="10" y="21" width="{reach}" height="16" fill="url(#h)" stroke="#111"/>
<text x="10" y="52" font-size="11" fill="#111">50% coin</text>
<text x="180" y="52" font-size="11" text-anchor="end" fill="#111">100% certain</text></svg>"""


def _section(section: Section) -> str:
    parts = [f"<section><h2>{escape(section.title)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.columns:
        parts.append(_figures(section))
    elif section.rows:
        parts.append(_facts(section))
    if section.points:
        parts.append("<ul>" + "".join(f"<li>{escape(point)}</li>" for point in section.points) + "</ul>")
    return "\n".join([*parts, "</section>"])


def _figures(section: Section) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in section.columns)
    rows = "".join(f"<tr>{_heading(first)}{''.join(map(_number, rest))}</tr>" for first, *rest in section.rows)
    return f'<table><thead><tr>{head}</tr></thead><tbody class="figures">{rows}</tbody></table>'


def _facts(section: Section) -> str:
    rows = "".join(f"<tr>{_heading(name)}<td{_look(text)}>{escape(text)}</td></tr>" for name, text in section.rows)
    return f'<table><tbody class="facts">{rows}</tbody></table>'


def _heading(text: str) -> str:
    return f'<th scope="row">{escape(text)}</th>'


def _number(text: str) -> str:
    return f'<td class="number">{escape(text)}</td>'


def _look(text: str) -> str:
    return ' class="hash"' if len(text) == 64 and " " not in text else ""


def to_markdown(card: Card) -> str:
    """Write the card as Markdown that also reads well unrendered."""
    parts = [f"# Privacy card: {_safe(card.dataset)}", f"**{headline(card)}**"]
    parts += [_section_card_markdown(section) for section in sections(card)]
    return "\n\n".join(parts) + "\n"


def _section_card_markdown(section: Section) -> str:
    lines = [f"## {section.title}"]
    if section.text:
        lines.append(section.text)
    if section.rows:
        lines.append(_table(section))
    if section.points:
        lines.append("\n".join(f"- {_safe(point)}" for point in section.points))
    return "\n\n".join(lines)


def _table(section: Section) -> str:
    columns = section.columns or ("", "")
    lines = ["| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(_safe(cell) for cell in row) + " |" for row in section.rows]
    return "\n".join(lines)


def _safe(text: str) -> str:
    """Keep a name from a file from breaking a table or becoming markup."""
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, "\\" + mark)
    return " ".join(text.split())
