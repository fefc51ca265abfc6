"""`twofold approve`: a person looks at a draft and signs it."""

from __future__ import annotations

import json as jsonlib
import os
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli.options import Json
from twofold.cli.render import say
from twofold.errors import BadParameter, NotApproved, TwofoldError

if TYPE_CHECKING:
    from twofold.identity.approval import Approval
    from twofold.storage.signing import SigningKey

__all__ = ["approve", "public_of", "signer_of"]


def approve(
    draft: Annotated[Path, typer.Argument(help="The draft of a release, such as st-anna.draft.")],
    keys: Annotated[Path, typer.Option(help="Your own secret keys, such as officer.keys.")],
    policy: Annotated[
        Path | None,
        typer.Option(help="The site's policy, which must name you; by default policy.toml beside the draft, if there."),
    ] = None,
    remark: Annotated[str, typer.Option(help="What you want to add, at most 200 characters; anyone may read it.")] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Show what would leave, in plain words, and approve it with your own key.

    The approval is written beside the draft and counts for this very draft only. Nothing is sent.

    Example: twofold approve st-anna.draft --keys officer.keys --policy policy.toml
    """
    from twofold.identity.approval import Approval, Draft, approval_path
    from twofold.identity.policy import Policy

    found, (name, signer) = Draft.read(draft), signer_of(keys)
    beside = draft.with_name("policy.toml")
    file = policy if policy is not None else beside if os.path.lexists(beside) else None
    rules = None if file is None else Policy.read(file)
    if rules is None:
        missing = f"no policy beside the draft: not checked that it names {name}; if not, the approval does not count"
        say(f"note: {missing}", err=True)
    else:
        _check_right(found.policy, rules.hash, dict(rules.approvers).get(name), signer.public, name)
    if json and not yes:
        raise BadParameter("--json does not ask.", fix="add --yes", parameter="yes")
    if not json:
        for line in found.lines(rules):
            say(fill(line, 80, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False))
    if not yes and not _agreed(name):
        raise NotApproved("nothing was approved.", found="no", parameter="yes")
    file = approval_path(draft, name)
    made = _earlier(file, found.hash, signer.public) or Approval.sign(
        found.hash, approver=name, signer=signer, remark=remark
    )
    made.write(file)
    if json:
        record = {"draft": made.draft, "approver": made.approver, "key": made.key.hex(), "at": made.at}
        typer.echo(jsonlib.dumps({**record, "remark": made.remark, "file": file.name}))
        return
    say(f"{file}: approved by {name}, {made.at}")


def _agreed(name: str) -> bool:
    try:
        return typer.confirm(f"Do you, {name}, approve this?", default=False)
    except typer.Abort:  # no terminal, no answer
        return False


def _earlier(file: Path, draft: str, key: bytes) -> Approval | None:
    """Give the approval that is there already, if it is this person's for this draft."""
    from twofold.identity.approval import Approval

    try:
        found = Approval.read(file)
    except TwofoldError:
        return None
    return found if (found.draft, found.key) == (draft, key) else None


def _check_right(draft_policy: str, policy: str, listed: bytes | None, key: bytes, name: str) -> None:
    if draft_policy != policy:
        raise NotApproved(
            "the draft was made under another policy.",
            found=f"policy {draft_policy[:12]}",
            expected=f"policy {policy[:12]}",
            fix="let the entity make the draft again",
            parameter="policy",
        )
    if listed != key:
        raise NotApproved(
            "the policy does not name you with this key; the approval would not count.",
            found=f"{name}, key {key.hex()[:16]}",
            expected="a name and key of the policy's table of approvers",
            parameter="keys",
        )


def signer_of(path: Path) -> tuple[str, SigningKey]:
    """Read name and signing key from a file of secret keys."""
    from twofold.identity.keystore import KeyStore

    store = KeyStore(path)
    return store.identity.name, store.signer


def public_of(path: Path) -> tuple[str, bytes]:
    """Read name and public signing key from a public part."""
    from twofold.identity.keys import Identity

    found = Identity.read(path)
    return found.name, found.sign
