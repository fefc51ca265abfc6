"""What a card says that no ledger can know: the site's own public words, and the result of the attack tests.

Nothing here is kept anywhere but on the card. What a site does not say is printed as "not stated" and never guessed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Final

from twofold.errors import BadMessage, DataError, ProtocolError, Run, UnreadableSource
from twofold.storage.container import parse_json, printable
from twofold.storage.files import read_limited

__all__ = ["CURATOR_TYPES", "NOT_STATED", "AuditResult", "SiteWords", "read_audit", "read_site_words"]

NOT_STATED: Final = "not stated"
#: Longest text of one field; a card has to stay readable.
LONGEST: Final = 400
#: The registry's words for who publishes.
CURATOR_TYPES: Final = ("Government", "Industry", "Nonprofit")
_LARGEST: Final = 64 * 1024
_MOST_MECHANISMS: Final = 100
_LARGEST_AUDIT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class SiteWords:
    """Public words of the site about a release; every field is one line of text, empty if not stated.

    Parameters
    ----------
    curator, curator_type : str
        Who publishes, and whether that is "Government", "Industry" or "Nonprofit".
    use, region, sector : str
        What the release is for; where the people live, or whose law applies; "Healthcare", "Education" and so on.
    why_epsilon, decided_by, tuning : str
        Why this ε; who decided; how the plan's numbers were found, and whether looking at data was paid for.
    dpia, officer, advice : str
        Reference of the data-protection impact assessment; the officer's name or office; what the officer advised.

    Examples
    --------
    >>> SiteWords(curator="St. Anna").said("curator"), SiteWords().said("use")
    ('St. Anna', 'not stated')
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    curator: str = ""
    curator_type: str = ""
    use: str = ""
    region: str = ""
    sector: str = ""
    why_epsilon: str = ""
    decided_by: str = ""
    tuning: str = ""
    dpia: str = ""
    officer: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        for name, text in asdict(self).items():
            _check_line(name, text)
        if self.curator_type and self.curator_type not in CURATOR_TYPES:
            raise DataError(
                "{parameter} is not one of the registry's words.",
                found=printable(self.curator_type, 40),
                expected=", ".join(CURATOR_TYPES),
                parameter="curator_type",
            )

    def said(self, name: str) -> str:
        """Give a field as it is printed."""
        return str(getattr(self, name)) or NOT_STATED

    def with_(self, **changes: str | None) -> SiteWords:
        """Return the same with those fields changed that are given."""
        given = {name: text for name, text in changes.items() if text is not None}
        return SiteWords(**asdict(self) | given)


def _check_line(name: str, text: object) -> None:
    if isinstance(text, str) and len(text) <= LONGEST and (not text or (text.isprintable() and text == text.strip())):
        return
    found = f"{len(text):,} characters" if isinstance(text, str) else type(text).__name__
    raise DataError(
        "{parameter} must be one line of text.",
        found=found,
        expected=f"at most {LONGEST} printable characters, no space at either end",
        parameter=name,
    )


def read_site_words(path: str | PathLike[str]) -> SiteWords:
    """Read a site's words from a small TOML file of texts, such as ``curator = "St. Anna"``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "site.toml").write_text('curator = "St. Anna"')
    ...     read_site_words(Path(folder, "site.toml")).curator
    'St. Anna'
    """
    try:
        record: dict[str, Any] = tomllib.loads(read_limited(path, _LARGEST).decode())
    except (ValueError, RecursionError):  # not TOML, not UTF-8, or too large
        raise UnreadableSource(
            "the file of the site's words could not be read.",
            found=Path(path).name,
            expected='a small TOML file with lines such as curator = "St. Anna"',
            parameter="site",
        ) from None
    known = [one.name for one in fields(SiteWords)]
    if strange := [printable(name, 40) for name in record if name not in known]:
        raise DataError(
            "the file of the site's words has a field that a card does not have.",
            found=", ".join(strange[:6]),
            expected=", ".join(known),
            parameter="site",
        )
    return SiteWords(**record)


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """When, with what result, and which mechanisms `twofold audit` attacked.

    `mechanisms` are the sound ones by their short names; empty if the result does not name them.

    Examples
    --------
    >>> ran = AuditResult(at="2026-05-03T10:00:00Z", software="twofold 1", passed=True, sound=9, broken=4)
    >>> ran.said("twofold 1").split("; ")[1:]
    ['all 4 broken on purpose were caught', 'tested: twofold 1']
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}

    at: str
    software: str
    passed: bool
    sound: int
    broken: int
    mechanisms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("at", "software"):
            _check_line(name, getattr(self, name))
        for one in self.mechanisms:
            _check_line("mechanisms", one)
        if len(self.mechanisms) > _MOST_MECHANISMS:
            raise _no_audit(f"{len(self.mechanisms):,} mechanisms")
        _check_time(self.at)
        if type(self.passed) is not bool or not all(type(one) is int and one >= 0 for one in (self.sound, self.broken)):
            raise _no_audit("fields of another type")

    def said(self, software: str) -> str:
        """Give the result in one sentence, for a release that `software` drew."""
        day = self.at[:10]
        if not self.passed:
            return f"FAILED on {day} with {self.software}: do not rely on this card before the cause is known"
        same = software == self.software
        other = "" if same else f" (tested: {self.software}, another version than drew this)"
        named = f" ({', '.join(self.mechanisms)})" if self.mechanisms else ""
        return (
            f"passed on {day}{other}: {self.sound:,} attempts disproved no sound mechanism{named}; all {self.broken:,} "
            f"broken on purpose were caught{f'; tested: {self.software}' if same else ''}"
        )


def read_audit(path: str | PathLike[str]) -> AuditResult:
    """Read the file that `twofold audit --output` wrote; only its verdict and numbers are taken."""
    try:
        record = parse_json(read_limited(path, _LARGEST_AUDIT).decode())
        return _result(record)
    except (ProtocolError, UnicodeDecodeError, DataError):
        raise _no_audit(Path(path).name) from None


def _result(record: Mapping[str, Any]) -> AuditResult:
    if record.get("schema") != "twofold.audit/1":
        raise BadMessage("another format.")
    findings = record.get("findings")
    if not isinstance(findings, list) or not all(isinstance(one, dict) for one in findings):
        raise BadMessage("no findings.")
    broken = sum(one.get("broken") is True for one in findings)
    expected = all(one.get("as_expected") is True for one in findings)
    return AuditResult(
        at=record.get("at", ""),
        software=record.get("software", ""),
        # A verdict that its own findings contradict is not taken.
        passed=record.get("passed") is True and expected and broken < len(findings),
        sound=len(findings) - broken,
        broken=broken,
        mechanisms=_mechanisms(findings),
    )


def _mechanisms(findings: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Short names of the sound ones: what follows a comma tells variants apart."""
    sound = [str(one["mechanism"]) for one in findings if one.get("broken") is not True and "mechanism" in one]
    return tuple(sorted({name.partition(",")[0] for name in sound}, key=str.lower))


def _check_time(text: str) -> None:
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise _no_audit("no valid time") from None


def _no_audit(found: str) -> UnreadableSource:
    return UnreadableSource(
        "this is not the result of the attack tests.",
        found=found,
        expected="the file that twofold audit --output wrote",
        fix=Run("audit --output audit.json"),
        parameter="audit",
    )
