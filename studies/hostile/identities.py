"""Hostile keys, rosters, agreements, policies, drafts, approvals and security logs."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from studies.hostile.insider import (
    NAMES,
    SIGNER,
    members,
    resign_agreements,
    resign_approval,
    resign_identity,
    resign_log,
    resign_message,
    resign_revocation,
    resign_roster,
    secrets,
)
from studies.hostile.plans import MESSAGES, agreements, plan
from studies.hostile.registry import Parser, register
from tests.hostile import site
from twofold.errors import PlanMismatch, PolicyRefused
from twofold.federation.agreement import Agreements, check_member
from twofold.federation.key_messages import decode_answer
from twofold.identity.approval import Approval, Draft, check_approvals
from twofold.identity.keys import Identity, Revocation
from twofold.identity.keystore import KeyStore
from twofold.identity.log import Event, SecurityLog, read_log, verify_log
from twofold.identity.policy import Policy
from twofold.identity.roster import Roster

__all__: list[str] = []

_NOW: Final = datetime(2027, 1, 31, 13, tzinfo=UTC)


def _use_identity(path: Path) -> object:
    one = Identity.read(path)
    return one.text, Roster.identities(path), Roster.read(path).hash


def _use_roster(path: Path) -> object:
    found = Roster.read(path)
    joined = Roster.joined([found], revoked=[secrets()["old"].revocation()])
    return found.hash, found.sums, found.operator, repr(found), joined.hash


def _use_keys(path: Path) -> object:
    store = KeyStore(path)
    store.agree("ab" * 32)
    store.confirm("ab" * 32)
    return store.identity.text, store.keys.public, store.revocation().text, store.agreement("ab" * 32)


def _use_revocation(path: Path) -> object:
    gone = Revocation.read(path)
    return gone.text, check_member(plan("signed"), secrets()["site-1"].identity, [gone])


def _use_agreements(path: Path) -> object:
    found = Agreements.read(path)
    found.check(plan("signed"))
    return Agreements.joined([found, agreements()]).text


def _public() -> list[bytes]:
    return [secrets()[name].identity.text.encode() for name in ("site-0", "st-clara", "coordinator")]


def _rosters() -> list[bytes]:
    two = Roster(one.identity for name, one in members().items() if name not in NAMES[2:])
    replaced = Roster(secrets()[name].identity for name in ("st-clara", "coordinator"))
    return [Roster(one.identity for one in members().values()).text.encode(), two.text.encode(), replaced.text.encode()]


register(Parser(name="roster", form="json", samples=_rosters, parse=_use_roster, insider=resign_roster, sealed=True))
register(
    Parser(name="public part", form="json", samples=_public, parse=_use_identity, insider=resign_identity, sealed=True)
)
register(
    Parser(
        name="keys",
        form="json",
        samples=lambda: [one.to_bytes() for one in secrets().values()],
        parse=_use_keys,
        file="x.keys",
        secret=secrets()["site-0"].sign.to_bytes().hex(),
    )
)
register(
    Parser(
        name="revocation",
        form="json",
        samples=lambda: [secrets()[name].revocation().text.encode() for name in ("old", "dr-bern")],
        parse=_use_revocation,
        insider=resign_revocation,
        sealed=True,
    )
)
register(
    Parser(
        name="agreements",
        form="json",
        samples=lambda: [agreements().text.encode()],
        parse=_use_agreements,
        insider=resign_agreements,
        sealed=True,
    )
)


def _beside(what: str, use: Callable[[KeyStore], object]) -> None:
    """Register a file beside secret keys, which only a disk or somebody with the owner's rights changes."""
    known: dict[str, Callable[[], list[bytes]]] = {
        "plan": lambda: [f"{plan('secure').hash} 1".encode()],
        "roll": lambda: [b"ab" * 32],
        "message": lambda: [b"cd" * 32],
        "answer": lambda: MESSAGES["answer"][1]()[:1],
        "agreed-" + "ab" * 8: lambda: [b"ab" * 32],
        "confirmed-" + "ab" * 8: lambda: [b"ab" * 32],
    }

    def parse(path: Path) -> object:
        path.with_name("x.keys").write_bytes(secrets()["site-0"].to_bytes())
        return use(KeyStore(path.with_name("x.keys")))

    short = what.partition("-")[0]
    answers = what == "answer"
    register(
        Parser(
            name=f"keys .{short}",
            form="container" if answers else "bytes",
            samples=known[what],
            parse=parse,
            file=f"x.keys.{what}",
            insider=resign_message if answers else bytes,
            sealed=answers,
        )
    )


def _bind(store: KeyStore) -> object:
    try:
        store.bind(plan("secure").hash, "1")
    except PlanMismatch:
        _ = store.plan_hash
        raise
    return store.plan_hash


def _answered(store: KeyStore) -> object:
    before = store.answered()
    return None if before is None else decode_answer(before, plan("secure")).content


def _message(store: KeyStore) -> object:
    store.keep_message("cd" * 32)
    return store.masked


def _confirm(store: KeyStore) -> object:
    store.confirm("ab" * 32)
    return store.confirmed("ab" * 32)


_beside("plan", _bind)
_beside("roll", lambda store: store.keep_participants("ab" * 32))
_beside("message", _message)
_beside("answer", _answered)
_beside("agreed-" + "ab" * 8, lambda store: (store.agreement("ab" * 32), store.agree("ab" * 32)))
_beside("confirmed-" + "ab" * 8, _confirm)


def _use_policy(path: Path) -> object:
    found = Policy.read(path)
    with suppress(PolicyRefused):  # the right answer to these facts
        found.check(site.FACTS)
    return found.hash, found.text


def _use_draft(path: Path) -> object:
    found = Draft.read(path)
    return found.hash, found.lines(site.POLICY)


def _use_approval(path: Path) -> object:
    return check_approvals(site.DRAFT, site.POLICY, [Approval.read(path)], now=_NOW)


def _use_log(path: Path) -> object:
    """Everything that is done with a log: read, check, show and continue."""
    try:
        verdict = verify_log(path, keys=[SIGNER.public])
        return verdict, [entry.text for entry in read_log(path)]
    finally:
        SecurityLog(path, SIGNER, entity="st-anna").add(Event.SENT, plan="ab" * 32, digest="cd" * 32)


def _logs() -> list[bytes]:
    # The same lines under our key; the torn one in the middle stays.
    return [resign_log(site.log_bytes())]


def _policy_typed(data: bytes, chance: random.Random) -> bytes:
    return site._typed(data, chance)


def _approval_signed(data: bytes, chance: random.Random) -> bytes:
    return site._signed(data, chance)


register(
    Parser(
        name="policy",
        form="toml",
        samples=lambda: [site.POLICY.text.encode()],
        parse=_use_policy,
        changes=(_policy_typed,),
        file="policy.toml",
    )
)
register(Parser(name="draft", form="json", samples=lambda: [site.DRAFT.text.encode()], parse=_use_draft))
register(
    Parser(
        name="approval",
        form="json",
        samples=lambda: [site.APPROVAL.text.encode()],
        parse=_use_approval,
        insider=resign_approval,
        changes=(_approval_signed,),
        sealed=True,
    )
)
register(Parser(name="security log", form="lines", samples=_logs, parse=_use_log, insider=resign_log, sealed=True))
