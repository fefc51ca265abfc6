"""The ledger: an append-only, hash-chained account of what left an entity, and of what may still leave.

Format and reasons: docs/decisions/0007-ledger-format.md. Start with `Ledger`.
"""

from twofold.privacy.ledger.book import Ledger, Verdict
from twofold.privacy.ledger.record import digest
from twofold.privacy.ledger.reservation import Request
from twofold.privacy.ledger.state import Cost, Entry, LedgerState, StaleRelease, cost_of, cost_text

__all__ = [
    "Cost",
    "Entry",
    "Ledger",
    "LedgerState",
    "Request",
    "StaleRelease",
    "Verdict",
    "cost_of",
    "cost_text",
    "digest",
]
