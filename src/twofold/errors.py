"""Every error twofold raises on purpose, and how each one talks.

::

    TwofoldError
    ├── DataError        MissingColumn · BadValue · BadIdentifier · DuplicateEntries · UnknownItems · EmptyTable
    │                    UnreadableSource · CatalogError · BadBound · UnknownUser · MissingDataset
    │                    MissingExtra
    ├── PrivacyError     BudgetExceeded · UnitMissing · UnsupportedEvent · LedgerBroken · SeededNoise
    │                    BadPrivacyParameter · NotForRealUse · SilentSpending
    ├── NumericError     BadShape · BadNumber · BadParameter
    ├── ProtocolError    BadPlan · PlanMismatch · BadMessage · ConflictingMessage · TooFewMessages · FactorsChanged
    │                    BadModel
    ├── TransportError   NotReady · RoundClosed
    └── NotFitted

A message says what was found, what was expected and what to type. It may name columns, files, types and public
numbers; it never holds a value, an id or a count that came from private data.
"""

from __future__ import annotations

import re

__all__ = [
    "BadBound",
    "BadIdentifier",
    "BadMessage",
    "BadModel",
    "BadNumber",
    "BadParameter",
    "BadPlan",
    "BadPrivacyParameter",
    "BadShape",
    "BadValue",
    "BudgetExceeded",
    "CatalogError",
    "ConflictingMessage",
    "DataError",
    "DuplicateEntries",
    "EmptyTable",
    "FactorsChanged",
    "LedgerBroken",
    "MissingColumn",
    "MissingDataset",
    "MissingExtra",
    "NotFitted",
    "NotForRealUse",
    "NotReady",
    "NumericError",
    "PlanMismatch",
    "PrivacyError",
    "ProtocolError",
    "RoundClosed",
    "SeededNoise",
    "SilentSpending",
    "TooFewMessages",
    "TransportError",
    "TwofoldError",
    "UnitMissing",
    "UnknownItems",
    "UnknownUser",
    "UnreadableSource",
    "UnsupportedEvent",
]


class TwofoldError(Exception):
    """The root of all our errors.

    Parameters
    ----------
    summary : str
        One sentence: what went wrong.
    found, expected, fix : str, optional
        What was there, what should have been, and what to type or change.

    Examples
    --------
    >>> print(MissingColumn("the table has no user column.", found="columns a, b", fix='user="a"'))
    the table has no user column.
      Found: columns a, b
      Do: user="a"
      See docs/errors.md#missing-column
    """

    def __init__(
        self, summary: str, *, found: str | None = None, expected: str | None = None, fix: str | None = None
    ) -> None:
        self.summary = summary
        self.found = found
        self.expected = expected
        self.fix = fix
        lines = [summary]
        parts = (("Found", found), ("Expected", expected), ("Do", fix))
        lines += [f"  {label}: {text}" for label, text in parts if text is not None]
        lines.append(f"  See docs/errors.md#{self.anchor()}")
        super().__init__("\n".join(lines))

    def __str__(self) -> str:
        """The message as it is; KeyError would show its repr."""
        return str(self.args[0])

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the parts, so that errors cross process borders whole."""
        return (_rebuild, (type(self), self.summary, self.found, self.expected, self.fix))

    @classmethod
    def anchor(cls) -> str:
        """Heading of this error in docs/errors.md."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


def _rebuild(
    kind: type[TwofoldError], summary: str, found: str | None, expected: str | None, fix: str | None
) -> TwofoldError:
    return kind(summary, found=found, expected=expected, fix=fix)


class DataError(TwofoldError, ValueError):
    """Something about a table, a catalog or a file on disk."""


class MissingColumn(DataError):
    """A named column is not in the table."""


class BadValue(DataError):
    """A value column holds text, nothing, NaN, infinity, a forbidden sign or something out of range."""


class BadIdentifier(DataError):
    """A user or item column holds nulls or a mix of types."""


class DuplicateEntries(DataError):
    """The same user and item occur in more than one row."""


class UnknownItems(DataError):
    """The table names items that the catalog does not have."""


class EmptyTable(DataError):
    """There is no row to work with."""


class UnreadableSource(DataError):
    """A file, frame or database is missing, damaged, cut off or of another kind."""


class CatalogError(DataError):
    """A catalog is empty, repeats an id, or is not the agreed one."""


class BadBound(DataError):
    """A public bound is not a usable number."""


class UnknownUser(DataError, KeyError):
    """Somebody asked for a user who is not in the table."""


class MissingDataset(DataError):
    """A published data set is not where it was looked for."""


class MissingExtra(TwofoldError, ImportError):
    """An optional package is needed for this source and is not installed."""


class PrivacyError(TwofoldError):
    """A refusal of the privacy layer: nothing was drawn and nothing was sent."""


class BudgetExceeded(PrivacyError):
    """The ledger's ceiling would be crossed."""


class UnitMissing(PrivacyError):
    """Nobody said whose presence is hidden."""


class UnsupportedEvent(PrivacyError):
    """The accountant does not know this event and refuses to guess."""


class LedgerBroken(PrivacyError):
    """The ledger file was edited, cut, reordered or is of a newer version."""


class SeededNoise(PrivacyError):
    """Repeatable noise was offered where real randomness is required."""


class BadPrivacyParameter(PrivacyError, ValueError):
    """An ε, δ, sensitivity or grid that no mechanism can honour."""


class NumericError(TwofoldError, ValueError):
    """An input a numeric kernel cannot take."""


class BadShape(NumericError):
    """Arrays whose shapes do not fit together."""


class BadNumber(NumericError):
    """NaN, infinity, or a negative number where none may be."""


class BadParameter(NumericError):
    """A parameter outside its range."""


class NotForRealUse(PrivacyError):
    """Something without a proof, or with repeatable noise, in a federation that is not a simulation."""


class SilentSpending(PrivacyError):
    """A fit that would spend a budget again without anyone having said so."""


class ProtocolError(TwofoldError):
    """The sides do not agree on a plan, a message or a model."""


class BadPlan(ProtocolError, ValueError):
    """A plan with a field that is missing, unknown or out of range."""


class PlanMismatch(ProtocolError):
    """A message that belongs to another plan or another catalog."""


class BadMessage(ProtocolError, ValueError):
    """Bytes that are not a whole, sound message of ours."""


class ConflictingMessage(ProtocolError):
    """Two different messages from one entity."""


class TooFewMessages(ProtocolError):
    """Fewer entities answered than the plan asks for."""


class FactorsChanged(ProtocolError):
    """The shared item factors are not what arrived."""


class BadModel(ProtocolError, ValueError):
    """A file that is not a whole, sound model of ours."""


class TransportError(TwofoldError):
    """Bytes could not be carried."""


class NotReady(TransportError):
    """The other side has not answered yet; ask again later."""


class RoundClosed(TransportError):
    """The item factors are published; no further message is taken."""


class NotFitted(TwofoldError, ValueError, AttributeError):
    """Asked for something that only a fitted model has."""
