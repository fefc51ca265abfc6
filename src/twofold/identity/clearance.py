"""Whether a release may be made: policy, draft, approvals, log, in this order and before the ledger is asked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path

from twofold.errors import BadPolicy, NotApproved, TwofoldError
from twofold.identity.approval import Approval, Draft, check_approvals, find_approvals
from twofold.identity.log import Entry, Event, SecurityLog
from twofold.identity.policy import PlanFacts, Policy

__all__ = ["Clearance", "clearance"]


@dataclass(frozen=True, kw_only=True)
class Clearance:
    """A release that may be made now.

    Parameters
    ----------
    draft : Draft
        What may leave.
    approvals : tuple of Approval
        Who approved it; at least as many as the policy asks for.
    entries : tuple of Entry
        The lines of the log that say so; they are on the disk.
    """

    draft: Draft
    approvals: tuple[Approval, ...]
    entries: tuple[Entry, ...]


def clearance(
    *,
    policy: Policy,
    facts: PlanFacts,
    log: SecurityLog,
    draft_file: str | PathLike[str],
    entity: str,
    version: str,
    leaves: str,
    size: int,
    unit: str,
    software: str,
    policy_file: str | PathLike[str] | None = None,
    now: datetime | None = None,
) -> Clearance:
    """Check the policy, make the draft, ask for the approvals and log all of it; returns only if everything holds.

    Parameters
    ----------
    policy, facts : Policy, PlanFacts
        The site's policy as it is now, and the public facts of the plan and the ledger.
    log : SecurityLog
        Of this entity.
    draft_file : path
        Where the draft is written, as st-anna.draft; approvals are looked for beside it.
    entity, version, leaves, size, unit, software : str or int
        The rest of the draft; see `Draft`.
    policy_file : path, optional
        Where the policy is, for the command that the error gives.
    now : datetime, optional
        The time, with its zone.

    Raises
    ------
    BadPolicy
        The entity's own key is among the approvers.
    PolicyRefused
        A rule is broken; every one is listed and logged.
    NotApproved
        Too few approvals count. The draft is there to be approved.
    LogBroken
        The log could not be written. A release that is not logged is not made.

    Notes
    -----
    Call it before the ledger reserves anything, and not for a release that is stored already: sending that again is
    no second release. A step that is tried again is logged once. After the ledger has committed, log `Event.RELEASED`
    with `log.add` before the message is handed out, and `Event.SENT` with `log.add_after` when it has left.

    Privacy
    -------
    Looks at public values only. Whether it refuses, and what it writes, is the same for every data set.
    """
    if log.key in dict(policy.approvers).values():
        raise BadPolicy(
            "the policy lists the entity's own key as an approver's: a program would approve its own release.",
            expected="keys of people",
            parameter="approvers",
        )
    broken = policy.violations(facts)
    if broken:
        log.add_after(
            Event.POLICY_REFUSED, once=True, plan=facts.plan, policy=policy.hash, rules=[one.rule for one in broken]
        )
        policy.check(facts)
    draft = Draft.of(
        facts, policy, entity=entity, version=version, leaves=leaves, size=size, unit=unit, software=software
    )
    price = {"epsilon": str(draft.epsilon), "delta": str(draft.delta)}
    about = {"plan": draft.plan, "draft": draft.hash}
    entries = [log.add_once(Event.DRAFT_MADE, **about, policy=draft.policy, version=version, **price)]
    _keep(draft, Path(draft_file))
    found = find_approvals(draft_file, policy)
    approvals = check_approvals(draft, policy, found, draft_file=draft_file, policy_file=policy_file, now=now)
    for one in approvals:
        entries.append(log.add_once(Event.APPROVED, **about, approver=one.approver, key=one.key.hex()))
    return Clearance(draft=draft, approvals=approvals, entries=tuple(entries))


def _keep(draft: Draft, file: Path) -> None:
    """Write the draft, unless this very one is there; only ever over a file that is called a draft."""
    if file.suffix != ".draft":
        raise NotApproved("a draft needs its own name.", found=file.name, expected="NAME.draft", parameter="draft_file")
    try:
        if Draft.read(file) == draft:
            return
    except TwofoldError:  # none, an older one, or another's: nothing that is needed
        pass
    draft.write(file)
