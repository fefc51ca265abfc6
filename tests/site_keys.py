"""Key files of people and entities for the tests of policy, approval and log."""

from __future__ import annotations

import hashlib
from pathlib import Path

from twofold.identity.keys import Role, Secrets
from twofold.secure_sum.keys import Keys
from twofold.storage.signing import SigningKey


def write_keys(folder: Path, name: str) -> SigningKey:
    """Write name.keys and name.pub; a name always has the same signing key."""
    key = SigningKey(hashlib.sha256(name.encode()).digest())
    secrets = Secrets(name=name, role=Role.PERSON, sign=key, sum=Keys.new())
    (folder / f"{name}.keys").write_bytes(secrets.to_bytes())
    secrets.identity.write(folder / f"{name}.pub")
    return key
