"""Key files of people and entities for the tests of policy, approval and log."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from twofold.storage.signing import SigningKey


def write_keys(folder: Path, name: str) -> SigningKey:
    """Write name.keys and name.pub; a name always has the same key."""
    key = SigningKey(hashlib.sha256(name.encode()).digest())
    secret = {"schema": "twofold.secrets/1", "name": name, "role": "person", "sign": key.to_bytes().hex()}
    public = {"schema": "twofold.identity/1", "name": name, "role": "person", "sign": key.public.hex()}
    (folder / f"{name}.keys").write_text(json.dumps(secret))
    (folder / f"{name}.pub").write_text(json.dumps(public))
    return key
