"""A page: a title, one sentence in a box, sections of blocks. Everything is in the one file."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Protocol

from twofold.report._style import STYLE
from twofold.report.words import Notice, slug

__all__ = ["Block", "Page", "Section"]

#: Nothing is fetched and nothing runs, whatever text found its way in.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class Block(Protocol):
    """Anything that can write itself as markup, everything in it escaped."""

    def html(self) -> str:
        """Give the markup."""
        ...


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, kw_only=True)
class Page:
    """One self-contained HTML page: no script, no font, nothing fetched; readable narrow, dark, printed and offline.

    Parameters
    ----------
    title, subtitle : str
        The heading and a line below it.
    notice : Notice, optional
        The sentence that everybody reads.
    sections : tuple of Section
        In order; a list of links to them stands at the top when there are more than three.
    footer : str
        The last line.

    Examples
    --------
    >>> from twofold.report.words import Paragraph
    >>> page = Page(title="Two rounds", sections=(Section("Words", (Paragraph("a < b"),)),))
    >>> "<p>a &lt; b</p>" in page.html()
    True
    """

    title: str
    sections: tuple[Section, ...]
    subtitle: str = ""
    notice: Notice | None = None
    footer: str = ""

    def html(self) -> str:
        """Give the page as text; equal content gives equal bytes."""
        keys = _keys([section.title for section in self.sections])
        parts = [f"<h1>{escape(self.title)}</h1>"]
        if self.subtitle:
            parts.append(f'<p class="when">{escape(self.subtitle)}</p>')
        if self.notice is not None:
            parts.append(self.notice.html())
        if len(self.sections) > 3:
            parts.append(_contents(keys, self.sections))
        parts += [_section(key, section) for key, section in zip(keys, self.sections, strict=True)]
        return _document(self.title, "\n".join(parts), self.footer)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the page to a file, whole or not at all."""
        from twofold.protocol.files import write_whole

        write_whole(path, self.html().encode())


def _document(title: str, main: str, footer: str) -> str:
    foot = f"<footer>{escape(footer)}</footer>\n" if footer else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{main}
</main>
{foot}</body>
</html>
"""


def _section(key: str, section: Section) -> str:
    blocks = "\n".join(block.html() for block in section.blocks)
    return f'<section aria-labelledby="{key}">\n<h2 id="{key}">{escape(section.title)}</h2>\n{blocks}\n</section>'


def _contents(keys: list[str], sections: tuple[Section, ...]) -> str:
    links = (
        f'<li><a href="#{key}">{escape(section.title)}</a></li>' for key, section in zip(keys, sections, strict=True)
    )
    return f'<nav aria-label="Contents"><ol>{"".join(links)}</ol></nav>'


def _keys(titles: list[str]) -> list[str]:
    """One name per heading, numbered where two would be alike."""
    keys: list[str] = []
    for title in titles:
        key, number = f"section-{slug(title)}", 1
        while (name := key if number == 1 else f"{key}-{number}") in keys:
            number += 1
        keys.append(name)
    return keys
