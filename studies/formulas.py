"""Formulas of the documentation as MathML, which browsers set themselves: no script, no font, nothing to fetch.

An extension of Python-Markdown (`mkdocs.yml` names it): ``$x_i$`` within a line, ``$$ ... $$`` on lines of their own.
Markdown and latex2mathml belong to the lock of the documentation only, so they are loaded when a page is made.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

__all__ = ["makeExtension", "mathml"]

#: After code, which keeps its dollar signs, and before emphasis, which would take the underscores.
_PRIORITY = 185
_PATTERN = r"(?<![\\$\w])(\$\$?)(?!\s*\$)((?:[^$`\\]|\\.)+?)\1(?![$\w])"


def mathml(formula: str, *, block: bool) -> str:
    r"""Translate a formula.

    Examples
    --------
    >>> import pytest
    >>> _ = pytest.importorskip("latex2mathml", reason="make .venv/.docs")
    >>> mathml(r"\sqrt{m}", block=False)
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><msqrt>...</msqrt></mrow></math>'
    """
    convert = importlib.import_module("latex2mathml.converter").convert
    return str(convert(" ".join(formula.split()), display="block" if block else "inline"))


def makeExtension(**settings: Any) -> Any:  # the name that Python-Markdown looks for
    """Make the extension."""
    base = importlib.import_module("markdown.extensions").Extension
    inline = importlib.import_module("markdown.inlinepatterns").InlineProcessor

    def handle(self: Any, found: re.Match[str], _: str) -> tuple[str, int, int]:
        made = mathml(found[2], block=found[1] == "$$")
        return self.md.htmlStash.store(made), found.start(0), found.end(0)

    def extend(_: Any, md: Any) -> None:
        formula = type("Formula", (inline,), {"handleMatch": handle})
        md.inlinePatterns.register(formula(_PATTERN, md), "formulas", _PRIORITY)

    return type("Formulas", (base,), {"extendMarkdown": extend})(**settings)
