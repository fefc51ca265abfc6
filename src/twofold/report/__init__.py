"""Self-contained HTML pages: words, tables and plots in one file that needs no network, no script and no colour."""

from __future__ import annotations

from twofold.report.page import Page, Section
from twofold.report.plot import Plot, Series
from twofold.report.table import Column, Facts, Table
from twofold.report.words import Links, Notice, Paragraph, Points

__all__ = ["Column", "Facts", "Links", "Notice", "Page", "Paragraph", "Plot", "Points", "Section", "Series", "Table"]
