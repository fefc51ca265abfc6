"""The privacy card as Markdown."""

from __future__ import annotations

from twofold.privacy.card import Card
from twofold.privacy.card_page import Section, headline, sections

__all__ = ["to_markdown"]


def to_markdown(card: Card) -> str:
    """Write the card as Markdown that also reads well unrendered."""
    parts = [f"# Privacy card: {_safe(card.dataset)}", f"**{headline(card)}**"]
    parts += [_section(section) for section in sections(card)]
    return "\n\n".join(parts) + "\n"


def _section(section: Section) -> str:
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
