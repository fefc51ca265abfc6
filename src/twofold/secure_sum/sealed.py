"""Shares under seal: only the named receiver can open them, and nobody can change or move them.

The key of a box is HKDF(X25519(seal key of the sender, seal key of the receiver)) with the terms and both names in this
order, so each box has a key of its own. What goes into it follows from the sender's keys and the terms alone, hence a
key never seals two different contents and the nonce may be zero.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from twofold.errors import BadMessage
from twofold.secure_sum.derive import derive, digest
from twofold.secure_sum.keys import agree
from twofold.secure_sum.shamir import SHARE_BYTES
from twofold.secure_sum.terms import Terms

__all__ = ["BOX_BYTES", "open_box", "seal_box"]

_TAG = 16
#: A share of the mask key, a share of the self-mask seed, and the tag.
BOX_BYTES = 2 * SHARE_BYTES + _TAG
_NONCE = bytes(12)


def seal_box(
    private: X25519PrivateKey,
    sender: str,
    receiver: str,
    terms: Terms,
    *,
    commitment: bytes,
    key_share: bytes,
    seed_share: bytes,
) -> bytes:
    """Seal the two shares of `receiver` with the sender's seal key.

    Examples
    --------
    >>> from twofold.secure_sum.keys import Keys, private_of
    >>> keys = {name: Keys.new() for name in ("anna", "bert")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=2)
    >>> shares = {"key_share": b"1" * 33, "seed_share": b"2" * 33}
    >>> box = seal_box(private_of(keys["anna"].seal), "anna", "bert", terms, commitment=b"c", **shares)
    >>> opened = open_box(private_of(keys["bert"].seal), "anna", "bert", terms, commitment=b"c", box=box)
    >>> opened == (b"1" * 33, b"2" * 33)
    True
    """
    key = _key(private, sender, receiver, terms, other=receiver)
    return ChaCha20Poly1305(key).encrypt(_NONCE, key_share + seed_share, _bound(sender, receiver, terms, commitment))


def open_box(
    private: X25519PrivateKey, sender: str, receiver: str, terms: Terms, *, commitment: bytes, box: bytes
) -> tuple[bytes, bytes]:
    """Open one's box from `sender` with one's seal key: shares of its mask key and of its self-mask seed."""
    key = _key(private, sender, receiver, terms, other=sender)
    try:
        opened = ChaCha20Poly1305(key).decrypt(_NONCE, box, _bound(sender, receiver, terms, commitment))
    except InvalidTag:
        raise BadMessage(
            "sealed shares do not open: they were changed, or made for another entity or plan.",
            found=f"from {sender!r} for {receiver!r}",
            fix=f"ask {sender!r} to send its shares again",
        ) from None
    return opened[:SHARE_BYTES], opened[SHARE_BYTES:]


def _key(private: X25519PrivateKey, sender: str, receiver: str, terms: Terms, *, other: str) -> bytes:
    shared = agree(private, terms.roster[other].seal)
    return derive(shared, "seal", terms.digest, sender.encode(), receiver.encode())


def _bound(sender: str, receiver: str, terms: Terms, commitment: bytes) -> bytes:
    return digest("box", terms.digest, commitment, sender.encode(), receiver.encode())
