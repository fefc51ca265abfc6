r"""A federation over HTTP: its paths, and requests that their senders sign.

Everything a federation has stands below ``/v1/federations/PLAN``, where PLAN is the plan's hash:

==============================================  =====================================================================
path                                            what
==============================================  =====================================================================
``GET  .``                                      how far the federation has come
``GET  ./documents/KIND``                       plan, catalog, features, roster or agreements
``GET  ./steps/STEP/messages/NAME``             which message of an entity is here
``PUT  ./steps/STEP/messages/NAME``             an entity's message
``PUT  ./steps/STEP/parts/RECEIPT``             a message of one operator to the other
``GET  ./steps/STEP/published``                 what the server published in a step
``POST ./steps/STEP/close``                     stop waiting; the operator alone may
==============================================  =====================================================================

A request is signed with its sender's key of the plan's roster, over these lines::

    twofold-request/1
    METHOD
    /v1/... (the path, from /v1 on)
    SHA-256 of the body, in hexadecimal digits
    time in seconds since 1970
    a random number that serves once
    the sender's name

So a request cannot be used for another federation, step or name, nor with another body, and not again later. What a
message says is signed by its maker besides: a request only carries it.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from twofold.checks import NAME
from twofold.errors import ClockSkew, KeyRefused
from twofold.storage.signing import SIGNATURE_BYTES, Purpose, SigningKey, verify

if TYPE_CHECKING:
    from twofold.federation.mailbox import StepId
    from twofold.identity.roster import Roster

__all__ = [
    "DOCUMENTS",
    "EMPTY",
    "HEADERS",
    "LARGEST_DOCUMENT",
    "MESSAGE",
    "ROOT",
    "WINDOW",
    "Request",
    "SeenRequests",
    "close_path",
    "digest_of",
    "document_path",
    "federation_path",
    "message_path",
    "part_path",
    "published_path",
]

_SCHEMA: Final = "twofold-request/1"
ROOT: Final = "/v1"
#: Type of the bytes of a message.
MESSAGE: Final = "application/octet-stream"
#: Headers of a signed request.
HEADERS: Final = ("twofold-name", "twofold-time", "twofold-nonce", "twofold-digest", "twofold-signature")
#: Seconds by which the clocks of two sides may differ.
WINDOW: Final = 300
#: What a service hands out of a plan.
DOCUMENTS: Final = ("plan", "roster", "catalog", "features", "agreements")
#: Bytes of one of these.
LARGEST_DOCUMENT: Final = 256 * 1024 * 1024
_TIME: Final = re.compile("[0-9]{1,12}")
_NONCE: Final = re.compile("[0-9a-f]{32}")
_HEX: Final = re.compile("[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(f"[0-9a-f]{{{2 * SIGNATURE_BYTES}}}")


def digest_of(data: bytes) -> str:
    """SHA-256 of a body, in hexadecimal digits; equal to the receipt of a message."""
    return hashlib.sha256(data).hexdigest()


#: Digest of a request without a body.
EMPTY: Final = digest_of(b"")


def federation_path(plan_hash: str) -> str:
    """Path of a federation.

    Examples
    --------
    >>> federation_path("ab" * 32)[:30]
    '/v1/federations/abababababab...'
    """
    return f"{ROOT}/federations/{plan_hash}"


def document_path(plan_hash: str, kind: str) -> str:
    """Path of a document of the plan."""
    return f"{federation_path(plan_hash)}/documents/{kind}"


def message_path(plan_hash: str, step: StepId, entity: str) -> str:
    """Path of an entity's message in a step."""
    return f"{federation_path(plan_hash)}/steps/{step}/messages/{entity}"


def part_path(plan_hash: str, step: StepId, receipt: str) -> str:
    """Path of a message of one operator to the other."""
    return f"{federation_path(plan_hash)}/steps/{step}/parts/{receipt}"


def published_path(plan_hash: str, step: StepId) -> str:
    """Path of what the server published in a step."""
    return f"{federation_path(plan_hash)}/steps/{step}/published"


def close_path(plan_hash: str, step: StepId) -> str:
    """Path of the request to stop waiting in a step."""
    return f"{federation_path(plan_hash)}/steps/{step}/close"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request, as its sender signs it and its receiver checks it.

    Parameters
    ----------
    method, path : str
        Of HTTP; the path from ``/v1`` on.
    name : str
        The sender, by the name in the plan's roster.
    digest : str
        SHA-256 of the body.
    at : int
        Seconds since 1970 by the sender's clock.
    nonce : str
        32 hexadecimal digits that serve once.
    signature : bytes
        Of the sender.

    Examples
    --------
    >>> from twofold.identity.roster import Roster
    >>> roster, secrets = Roster.new(["st-anna"])
    >>> made = Request.signed("GET", "/v1/x", name="st-anna", signer=secrets["st-anna"].sign, at=1_000)
    >>> got = Request.from_headers("GET", "/v1/x", made.headers)
    >>> got.check(roster, now=1_100)
    >>> got.check(roster, now=9_999)
    Traceback (most recent call last):
    twofold.errors.ClockSkew: the clocks of the two sides differ too much...
    """

    method: str
    path: str
    name: str
    digest: str
    at: int
    nonce: str
    signature: bytes = b""

    @classmethod
    def signed(
        cls, method: str, path: str, *, name: str, signer: SigningKey, at: float, digest: str = EMPTY
    ) -> Request:
        """Make a request; another nonce every time."""
        made = cls(method=method, path=path, name=name, digest=digest, at=int(at), nonce=secrets.token_hex(16))
        return cls(**{**vars(made), "signature": signer.sign(Purpose.REQUEST, made._covered)})

    @classmethod
    def from_headers(cls, method: str, path: str, headers: Mapping[str, str]) -> Request:
        """Read the headers of a request; refuse one that is not signed at all."""
        name, at, nonce, digest, signature = (headers.get(one, "") for one in HEADERS)
        sound = NAME.fullmatch(name) and _TIME.fullmatch(at) and _NONCE.fullmatch(nonce)
        if not (sound and _HEX.fullmatch(digest) and _SIGNATURE.fullmatch(signature)):
            raise KeyRefused(
                "the request is not signed.",
                expected=f"the headers {', '.join(HEADERS)}",
                fix="twofold join --server, which signs its requests",
                parameter="signature",
            )
        return cls(
            method=method,
            path=path,
            name=name,
            digest=digest,
            at=int(at),
            nonce=nonce,
            signature=bytes.fromhex(signature),
        )

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry it."""
        values = (self.name, str(self.at), self.nonce, self.digest, self.signature.hex())
        return dict(zip(HEADERS, values, strict=True))

    def check(self, roster: Roster, *, now: float, window: int = WINDOW) -> None:
        """Refuse a sender who is not in the roster, another signature, and a clock that is far off."""
        member = roster.get(self.name)
        if member is None or not verify(member.sign, Purpose.REQUEST, self._covered, self.signature):
            raise KeyRefused(
                "the key is not one of this federation.",
                found=f"a request signed as {self.name}",
                expected="the signature of a member of the plan's roster, over this very request",
                fix="the keys whose public part is in the plan's roster",
                parameter="keys",
            )
        if abs(now - self.at) > window:
            raise ClockSkew(
                "the clocks of the two sides differ too much.",
                found=f"a request of {self.at}, and {int(now)} here: {abs(int(now) - self.at):,} seconds apart",
                expected=f"at most {window} seconds",
                fix="set the clock of this machine; ask the operator if it is right",
                parameter="time",
            )

    @property
    def _covered(self) -> bytes:
        lines = (_SCHEMA, self.method, self.path, self.digest, str(self.at), self.nonce, self.name)
        return "\n".join(lines).encode()


class SeenRequests:
    """Remembers requests for as long as their time is accepted, so that none serves twice.

    A request that was recorded on the way could otherwise be sent again: it would change nothing, since every request
    may be repeated, but it would show its sender's progress to somebody else. The memory ends with the process, and
    is bounded: of more than `most` requests in the window the oldest are forgotten.

    Examples
    --------
    >>> seen = SeenRequests(clock=lambda: 0.0)
    >>> seen.is_new("ab" * 64, at=0), seen.is_new("ab" * 64, at=0)
    (True, False)
    """

    def __init__(self, *, clock: Callable[[], float], window: int = WINDOW, most: int = 200_000) -> None:
        self._clock, self._window, self._most = clock, window, most
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def is_new(self, signature: str, *, at: int) -> bool:
        """Remember a request by its signature; whether it was not seen before."""
        now = self._clock()
        with self._lock:
            while self._until:
                first = next(iter(self._until))
                if self._until[first] >= now and len(self._until) < self._most:
                    break
                del self._until[first]
            new = signature not in self._until
            self._until.setdefault(signature, max(now, at) + self._window)
            return new
