"""Every error that twofold raises on purpose, and how it is worded.

::

    TwofoldError
    ├── DataError        MissingColumn · BadValue · BadIdentifier · DuplicateEntries · UnknownItems · EmptyTable
    │                    UnreadableSource · CatalogError · BadBound · UnknownUser · MissingDataset
    │                    MissingExtra
    ├── PrivacyError     BudgetExceeded · UnitMissing · UnsupportedEvent · LedgerBroken · SeededNoise
    │                    BadPrivacyParameter · NotForRealUse · SilentSpending · BadPolicy · PolicyRefused
    │                    NotApproved · LogBroken
    ├── NumericError     BadShape · BadNumber · BadParameter
    ├── ProtocolError    BadPlan · PlanMismatch · BadMessage · ConflictingMessage · TooFewMessages · FactorsChanged
    │                    BadModel · BadCard
    ├── TransportError   NotReady · RoundClosed · Unreachable · UntrustedServer · KeyRefused · ClockSkew
    └── NotFitted

A message says what was found, what was expected and what to type. It may name columns, files, types and public
numbers; it never holds a value, an id or a count that came from private data.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

__all__ = [
    "BadBound",
    "BadCard",
    "BadIdentifier",
    "BadMessage",
    "BadModel",
    "BadNumber",
    "BadParameter",
    "BadPlan",
    "BadPolicy",
    "BadPrivacyParameter",
    "BadShape",
    "BadValue",
    "BudgetExceeded",
    "CatalogError",
    "ClockSkew",
    "ConflictingMessage",
    "DataError",
    "DuplicateEntries",
    "EmptyTable",
    "FactorsChanged",
    "KeyRefused",
    "LedgerBroken",
    "LogBroken",
    "MissingColumn",
    "MissingDataset",
    "MissingExtra",
    "NotApproved",
    "NotFitted",
    "NotForRealUse",
    "NotReady",
    "NumericError",
    "PlanMismatch",
    "PolicyRefused",
    "PrivacyError",
    "ProtocolError",
    "RoundClosed",
    "Run",
    "SeededNoise",
    "Set",
    "SilentSpending",
    "Surface",
    "TooFewMessages",
    "TransportError",
    "TwofoldError",
    "UnitMissing",
    "UnknownItems",
    "UnknownUser",
    "Unreachable",
    "UnreadableSource",
    "UnsupportedEvent",
    "UntrustedServer",
    "install",
]


E = TypeVar("E", bound="TwofoldError")


@dataclass(frozen=True)
class Set:
    """Advice to give a parameter a value; each surface words it in its own way.

    Examples
    --------
    >>> str(Set("max_items", 60))
    'max_items=60'
    """

    parameter: str
    value: object

    def __str__(self) -> str:
        return f"{self.parameter}={self.value!r}"


@dataclass(frozen=True)
class Run:
    """Advice to run a command of `twofold`.

    Examples
    --------
    >>> str(Run("plan new plan.toml"))
    'twofold plan new plan.toml'
    """

    command: str

    def __str__(self) -> str:
        return f"twofold {self.command}"


#: What to type or change: a sentence, a setting, a command, or several of these as alternatives.
Fix = str | Set | Run | tuple[str | Set | Run, ...]


class Surface:
    """How one place where people read errors names parameters, settings and commands. This one is for Python."""

    def name(self, parameter: str) -> str:
        """Name a parameter."""
        return parameter

    def setting(self, advice: Set) -> str:
        """Say which parameter to give which value."""
        return str(advice)

    def command(self, advice: Run) -> str:
        """Say which command to run."""
        return str(advice)

    def fix(self, fix: Fix) -> str:
        """Say what to do; alternatives are joined by "or"."""
        if isinstance(fix, tuple):
            return ", or ".join(self.fix(one) for one in fix)
        if isinstance(fix, Set):
            return self.setting(fix)
        return self.command(fix) if isinstance(fix, Run) else fix


class TwofoldError(Exception):
    """The root of all twofold errors.

    Parameters
    ----------
    summary : str
        One sentence: what went wrong. ``{parameter}`` in it stands for the name of the parameter, which every surface
        writes in its own way (``max_items`` in Python, ``--max-items`` in a shell).
    found, expected : str, optional
        What was found, and what was expected.
    fix : str, Set, Run or tuple of these, optional
        What to type or change.
    parameter : str, optional
        The faulty parameter, field or column; programs and tests check this.

    Examples
    --------
    >>> error = MissingColumn("there is no {parameter} column.", fix=Set("user", "a"), parameter="user")
    >>> print(error)
    there is no user column.
      Do: user='a'
      More: twofold errors missing-column
    >>> error.as_(BadPlan).parameter
    'user'
    """

    def __init__(
        self,
        summary: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        fix: Fix | None = None,
        parameter: str | None = None,
    ) -> None:
        self.parts: dict[str, Any] = {
            "summary": summary,
            "found": found,
            "expected": expected,
            "fix": fix,
            "parameter": parameter,
        }
        self.found = found
        self.expected = expected
        self.parameter = parameter
        super().__init__(self.summary)

    @property
    def summary(self) -> str:
        """What went wrong, in Python's words."""
        return self.summary_for(PYTHON)

    @property
    def fix(self) -> str | None:
        """What to do, in Python's words."""
        return None if self.parts["fix"] is None else PYTHON.fix(self.parts["fix"])

    def summary_for(self, surface: Surface) -> str:
        """Say what went wrong in the words of a surface."""
        summary: str = self.parts["summary"]
        return summary if self.parameter is None else summary.replace("{parameter}", surface.name(self.parameter))

    def render(self, surface: Surface) -> str:
        """Write the whole message in the words of a surface, one part per line."""
        lines = [self.summary_for(surface)]
        fix = None if self.parts["fix"] is None else surface.fix(self.parts["fix"])
        parts = (("Found", self.found), ("Expected", self.expected), ("Do", fix))
        lines += [f"  {label}: {text}" for label, text in parts if text is not None]
        return "\n".join([*lines, f"  More: {surface.command(Run(f'errors {self.anchor()}'))}"])

    def as_(self, kind: type[E], **changes: Any) -> E:
        """Give the same parts, with any changes, as an error of another type."""
        return kind(**(self.parts | changes))

    def as_dict(self) -> dict[str, str | None]:
        """Give the parts as plain text, for JSON."""
        texts = {"error": type(self).__name__, "summary": self.summary, "found": self.found, "expected": self.expected}
        return texts | {"fix": self.fix, "parameter": self.parameter}

    def __str__(self) -> str:
        """Give the message as plain text; KeyError would show its repr."""
        return self.render(PYTHON)

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild from the parts, so that errors survive pickling."""
        return (_rebuild, (type(self), self.parts))

    @classmethod
    def anchor(cls) -> str:
        """Name of this error's section in errors.md, which `twofold errors` prints."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


PYTHON: Final = Surface()


def _rebuild(kind: type[TwofoldError], parts: dict[str, Any]) -> TwofoldError:
    return kind(**parts)


class DataError(TwofoldError, ValueError):
    """A fault of a table, a catalog or a file on disk."""


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
    """The table has no rows."""


class UnreadableSource(DataError):
    """A file, frame or database is missing, damaged, truncated or of the wrong kind."""


class CatalogError(DataError):
    """A catalog is empty, repeats an id, or is not the agreed one."""


class BadBound(DataError):
    """A public bound is not a usable number."""


class UnknownUser(DataError, KeyError):
    """The requested user is not in the table."""


class MissingDataset(DataError):
    """A published data set was not found."""


class MissingExtra(TwofoldError, ImportError):
    """An optional package is needed for this source and is not installed."""


def install(extra: str, source: Path | None = None) -> str:
    """Say how to install the optional packages of an extra; a checkout's are installed from its own folder.

    Parameters
    ----------
    extra : str
        A name under ``[project.optional-dependencies]``.
    source : Path, optional
        Where the package lies; this very file's folder by default.

    Examples
    --------
    >>> install("network", Path("/usr/lib/python3/site-packages/twofold"))
    "pip install 'twofold[network]'"
    """
    checkout = (source or Path(__file__).resolve().parent).parents[1]
    if not (checkout / "pyproject.toml").is_file():
        return f"pip install 'twofold[{extra}]'"
    within = Path(sys.prefix).is_relative_to(checkout) and Path(sys.prefix) != checkout
    pip = (Path(sys.prefix).relative_to(checkout) / "bin" / "pip").as_posix() if within else "pip"
    return f"{pip} install '.[{extra}]' in the folder of the checkout"


class PrivacyError(TwofoldError):
    """A refusal of the privacy layer: nothing was drawn and nothing was sent."""


class BudgetExceeded(PrivacyError):
    """The ledger's ceiling would be crossed."""


class UnitMissing(PrivacyError):
    """The unit is missing: whose presence is hidden."""


class UnsupportedEvent(PrivacyError):
    """The accountant cannot price this event and refuses to guess."""


class LedgerBroken(PrivacyError):
    """The ledger file was edited, cut, reordered or is of a newer version."""


class SeededNoise(PrivacyError):
    """Repeatable noise was offered where real randomness is required."""


class BadPrivacyParameter(PrivacyError, ValueError):
    """An ε, δ, sensitivity or grid that no mechanism can honour."""


class NumericError(TwofoldError, ValueError):
    """An input that a numeric kernel cannot take."""


class BadShape(NumericError):
    """Arrays whose shapes do not fit together."""


class BadNumber(NumericError):
    """NaN, infinity, or a negative number where none is allowed."""


class BadParameter(NumericError):
    """A parameter outside its range."""


class NotForRealUse(PrivacyError):
    """Something without a proof, or with repeatable noise, in a federation that is not a simulation."""


class SilentSpending(PrivacyError):
    """A fit that would spend a budget again without anyone's consent."""


class BadPolicy(PrivacyError, ValueError):
    """A site policy with a field that is missing, unknown or out of range."""


class PolicyRefused(PrivacyError):
    """A plan that the site's policy does not allow."""


class NotApproved(PrivacyError):
    """The people whom the site's policy names have not approved this release."""


class LogBroken(PrivacyError):
    """The security log was edited, cut or reordered, or cannot be written."""


class ProtocolError(TwofoldError):
    """The sides do not agree on a plan, a message or a model."""


class BadPlan(ProtocolError, ValueError):
    """A plan with a field that is missing, unknown or out of range."""


class PlanMismatch(ProtocolError):
    """A message that belongs to another plan or another catalog."""


class BadMessage(ProtocolError, ValueError):
    """Bytes that are not a complete, valid twofold message."""


class ConflictingMessage(ProtocolError):
    """Two different messages from one entity."""


class TooFewMessages(ProtocolError):
    """Fewer entities answered than the plan requires."""


class FactorsChanged(ProtocolError):
    """The shared item factors are not what arrived."""


class BadCard(ProtocolError, ValueError):
    """A privacy card that is not what its signer signed."""


class BadModel(ProtocolError, ValueError):
    """A file that is not a complete, valid twofold model."""


class TransportError(TwofoldError):
    """Bytes could not be transferred."""


class NotReady(TransportError):
    """The other side has not answered yet; ask again later."""


class RoundClosed(TransportError):
    """The item factors are published; no further message is accepted."""


class Unreachable(TransportError):
    """The server did not answer, or answered something that no server of ours does."""


class UntrustedServer(TransportError):
    """The server's certificate is expired, not from the expected authority, or not the pinned one."""


class KeyRefused(TransportError):
    """A request that no member of the federation signed, or that was sent before."""


class ClockSkew(TransportError):
    """The clocks of the two sides differ by more than a few minutes."""


class NotFitted(TwofoldError, ValueError, AttributeError):
    """The request needs a fitted model."""
