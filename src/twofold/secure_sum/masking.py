"""Step 2: an entity's numbers, hidden under its self-mask and one mask for every other entity that shared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from twofold.errors import BadParameter, BadShape
from twofold.secure_sum.derive import add_stream, derive
from twofold.secure_sum.keys import Keys, agree, private_of
from twofold.secure_sum.messages import MaskedMessage
from twofold.secure_sum.sharing import plan_seed
from twofold.secure_sum.terms import Terms

__all__ = ["CHECKS", "mask", "modulus_mask", "pair_stream", "self_stream"]

#: Check numbers behind the values: a one, and the entity's place in the roster.
CHECKS = 2


def mask(values: NDArray[np.int64], keys: Keys, name: str, terms: Terms, present: Sequence[str]) -> MaskedMessage:
    """Mask numbers so that only the sum of all survivors has a meaning.

    Two check numbers are put behind the values, 1 and the entity's place in the roster. Their sums are known from the
    list of survivors, so a mask that does not cancel shows with probability 1 - 2^(-2 bits).

    Parameters
    ----------
    values : array of int64
        At least one number. Only sums within ``terms.limit`` per entity can be told from others; a larger number
        wraps around modulo 2^bits and is never refused.
    keys, name
        The entity's own.
    terms : Terms
        What the sum is about.
    present : sequence of str
        Who shared, sorted. The masks are bound to this list.

    Privacy
    -------
    The same keys, terms and list always give the same masks. **Mask once, store the message and send the stored one**:
    two messages over different values tell their difference. Without the secrets the message is as good as uniform.
    Nothing is wiped from memory. No number is refused for its size: with only a share of the noise in it, a refusal,
    seen as a drop-out, would tell more than the noise of all shares allows.

    Paper
    -----
    Round 2 of Bonawitz et al. 2017, figure 4.

    Examples
    --------
    >>> keys = {name: Keys.new() for name in ("anna", "bert")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2, bits=32)
    >>> message = mask(np.array([3, -5]), keys["anna"], "anna", terms, ["anna", "bert"])
    >>> message.numbers.size, bool(message.numbers.max() < 2**32)
    (4, True)
    """
    terms.own(keys, name)
    terms.check_present(present)
    if name not in present:
        raise BadParameter(
            "this entity is not among those who shared.", fix="send the shares first", parameter="present"
        )
    hidden = _with_checks(_checked(values), name, terms)
    bound = terms.present_digest(present)
    add_stream(hidden, self_stream(plan_seed(keys, terms), bound, hidden.size), bits=terms.bits)
    private = private_of(keys.mask)
    for other in present:
        if other != name:
            key = pair_stream(private, terms.roster[other].mask, bound, hidden.size, pair=(name, other))
            add_stream(hidden, key, bits=terms.bits, subtract=name > other)
    hidden &= modulus_mask(terms.bits)
    return MaskedMessage(sender=name, present=bound, bits=terms.bits, numbers=hidden)


def self_stream(seed: bytes, bound: bytes, size: int) -> bytes:
    """Key of the self-mask of `size` numbers, for one list of who shared.

    Examples
    --------
    >>> self_stream(bytes(32), b"list one", 5) == self_stream(bytes(32), b"list two", 5)
    False
    """
    return derive(seed, "self mask", bound, size.to_bytes(8, "little"))


def pair_stream(private: X25519PrivateKey, public: bytes, bound: bytes, size: int, *, pair: tuple[str, str]) -> bytes:
    """Key of the mask of a pair, the same from both sides: the name that comes first adds it, the other subtracts.

    Privacy
    -------
    The names are part of the derivation. Secret keys are multiples of 8, so a public key plus a point of small order
    gives everybody the same secret as the key itself: who enrols such a twin of u's key would otherwise have the same
    mask with v as u has, and the two could cancel in v's message.

    Examples
    --------
    >>> one, two = Keys.new(), Keys.new()
    >>> here = pair_stream(private_of(one.mask), two.public.mask, b"", 5, pair=("a", "b"))
    >>> here == pair_stream(private_of(two.mask), one.public.mask, b"", 5, pair=("b", "a"))
    True
    """
    names = (name.encode() for name in sorted(pair))
    return derive(agree(private, public), "pair mask", bound, size.to_bytes(8, "little"), *names)


def modulus_mask(bits: int) -> np.uint64:
    """The largest number below 2^bits.

    Examples
    --------
    >>> modulus_mask(16)
    np.uint64(65535)
    """
    return np.uint64(2**bits - 1)


def _checked(values: NDArray[np.int64]) -> NDArray[np.int64]:
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not values.size or values.dtype != np.int64:
        raise BadShape(
            "a secure sum takes one row of numbers.",
            expected="an array of int64 with one dimension",
            parameter="values",
        )
    return values


def _with_checks(values: NDArray[np.int64], name: str, terms: Terms) -> NDArray[np.uint64]:
    checks = np.array([1, terms.positions[name]], dtype=np.int64)
    return np.concatenate([values, checks]).astype(np.uint64)  # negative numbers wrap around, as they should
