"""Self-contained HTML pages from one set of templates: no network, no script, and readable without colour."""

from __future__ import annotations

from twofold.report.page import Column, Facts, Links, Notice, Page, Paragraph, Points, Section, Table
from twofold.report.plot import Plot, Series

__all__ = ["Column", "Facts", "Links", "Notice", "Page", "Paragraph", "Plot", "Points", "Section", "Series", "Table"]
