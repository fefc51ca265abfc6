"""The ledger: an append-only, hash-chained account of what left an entity, and of what may still leave.

Format and reasons: docs/decisions/0007-ledger-format.md. Start with `Ledger`.
"""

from twofold.privacy.ledger.audit import Verdict, events_of, guarantee_of, readable
from twofold.privacy.ledger.book import Ledger
from twofold.privacy.ledger.record import digest
from twofold.privacy.ledger.reservation import Request
from twofold.privacy.ledger.state import Cost, Entry, LedgerState, Raise, StaleRelease, cost_of, cost_text
from twofold.privacy.ledger.statement import Statement, is_statement

__all__ = [
    "Cost",
    "Entry",
    "Ledger",
    "LedgerState",
    "Raise",
    "Request",
    "StaleRelease",
    "Statement",
    "Verdict",
    "cost_of",
    "cost_text",
    "digest",
    "events_of",
    "guarantee_of",
    "is_statement",
    "readable",
]
