"""Keys, plans and agreements as files in the current folder, for tests of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from twofold.federation.agreement import Agreements
from twofold.federation.plan import Plan
from twofold.identity.keys import Role
from twofold.identity.keystore import KeyStore, new_keys

OPERATOR = "coordinator"


def make_keys(names: Iterable[str], folder: Path | str = ".", *, operator: str = OPERATOR) -> str:
    """Make NAME.keys and NAME.pub of everybody and of the operator; give the options that `plan new` takes."""
    every = [*names, operator]
    for name in every:
        role = Role.OPERATOR if name == operator else Role.ENTITY
        new_keys(Path(folder) / f"{name}.keys", name, role).write(Path(folder) / f"{name}.pub")
    return " ".join(f"--public-key {name}.pub" for name in every)


def agree(plan: Path | str, *, but: Iterable[str] = (), confirm: bool = True, write: bool = False) -> Plan:
    """Let everybody whom a plan names agree to it, with the keys beside it, and confirm it; write PLAN.agreed if asked.

    Parameters
    ----------
    plan : path
        The plan file.
    but : iterable of str
        Those who do not.
    confirm : bool
        Whether they also confirm the fingerprint.
    write : bool
        Whether everybody's agreements go beside the plan, so that no step is needed for them.
    """
    path, read = Path(plan), Plan.read(plan)
    assert read.members is not None
    signed = []
    for name in sorted(set(read.members) - set(but)):
        store = KeyStore(path.parent / f"{name}.keys")
        signed.append(Agreements(read.hash, {name: store.agree(read.hash)}))
        if confirm:
            store.confirm(read.hash)
    if write:
        Agreements.joined(signed).write(path.with_suffix(".agreed"))
    return read
