"""The privacy card as one self-contained HTML page: no script, no font, nothing fetched; prints on one sheet."""

from __future__ import annotations

from html import escape

from twofold.privacy.card import Card
from twofold.privacy.card_page import Section, headline, sections
from twofold.privacy.card_words import percent

__all__ = ["to_html"]

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
