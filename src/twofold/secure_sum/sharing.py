"""Step 1: every entity shares its two secrets among all, before anyone masks."""

from __future__ import annotations

from collections.abc import Sequence

from twofold.errors import BadMessage, PlanMismatch
from twofold.secure_sum.derive import derive, digest
from twofold.secure_sum.keys import Keys, private_of
from twofold.secure_sum.messages import SharesMessage
from twofold.secure_sum.sealed import seal_box
from twofold.secure_sum.shamir import split
from twofold.secure_sum.terms import Terms

__all__ = ["check_shares", "commitment_to", "own_shares", "plan_seed", "share_secrets"]


def share_secrets(keys: Keys, name: str, terms: Terms) -> SharesMessage:
    """Share one's mask key and self-mask seed among everyone enrolled.

    Each holder's two shares are under a seal that only this holder can open. The sharer holds a share of its own too,
    at its own place in the roster; it is never sent but computed again when needed (`own_shares`). Everything follows
    from the keys and the terms: asking again gives the same bytes.

    Paper
    -----
    Round 1 of Bonawitz et al. 2017, figure 4.

    Examples
    --------
    >>> keys = {name: Keys.new() for name in ("anna", "bert", "carl")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=3)
    >>> message = share_secrets(keys["anna"], "anna", terms)
    >>> sorted(message.boxes), message == share_secrets(keys["anna"], "anna", terms)
    (['bert', 'carl'], True)
    """
    terms.own(keys, name)
    commitment = commitment_to(plan_seed(keys, terms), terms)
    private = private_of(keys.seal)
    boxes = {
        other: seal_box(private, name, other, terms, commitment=commitment, key_share=pair[0], seed_share=pair[1])
        for other, pair in _shares_for(keys, terms, [other for other in terms.names if other != name]).items()
    }
    return SharesMessage(sender=name, terms=terms.digest, commitment=commitment, boxes=boxes)


def check_shares(message: SharesMessage, terms: Terms) -> None:
    """Refuse a message of shares that is for other terms or leaves somebody out; for the server, on arrival.

    Examples
    --------
    >>> keys = {name: Keys.new() for name in ("anna", "bert")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=2)
    >>> check_shares(share_secrets(keys["anna"], "anna", terms), terms)
    """
    terms.known(message.sender)
    if message.terms != terms.digest:
        raise PlanMismatch("shares belong to another plan.", found=f"from {message.sender!r}")
    if set(message.boxes) != set(terms.names) - {message.sender}:
        raise BadMessage(
            "shares leave somebody out, or are for a stranger.",
            found=f"from {message.sender!r}",
            expected="sealed shares for everyone else in the roster",
        )


def plan_seed(keys: Keys, terms: Terms) -> bytes:
    """The self-mask seed for these terms; it is what is shared, so the seed of the keys itself never leaves.

    Examples
    --------
    >>> keys, roster = Keys.new(), {name: Keys.new().public for name in "ab"}
    >>> one = Terms(context=b"one", roster=roster, threshold=2, floor=2, least_present=2)
    >>> two = Terms(context=b"two", roster=roster, threshold=2, floor=2, least_present=2)
    >>> plan_seed(keys, one) == plan_seed(keys, two)
    False
    """
    return derive(keys.seed, "self seed", terms.digest)


def commitment_to(seed: bytes, terms: Terms) -> bytes:
    """SHA-256 commitment to a self-mask seed; hiding because the seed is 32 random bytes.

    Examples
    --------
    >>> roster = {name: Keys.new().public for name in "ab"}
    >>> len(commitment_to(bytes(32), Terms(context=b"c", roster=roster, threshold=2, floor=2, least_present=2)))
    32
    """
    return digest("commitment", terms.digest, seed)


def own_shares(keys: Keys, name: str, terms: Terms) -> tuple[bytes, bytes]:
    """One's own share of one's own mask key and self-mask seed.

    Examples
    --------
    >>> keys, other = Keys.new(), Keys.new()
    >>> roster = {"anna": keys.public, "bert": other.public}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=2)
    >>> [len(share) for share in own_shares(keys, "anna", terms)]
    [33, 33]
    """
    return _shares_for(keys, terms, [name])[name]


def _shares_for(keys: Keys, terms: Terms, holders: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
    """The shares of the mask key and of the self-mask seed for some holders, by name."""
    secrets = {"mask key": keys.mask, "self seed": plan_seed(keys, terms)}
    points = [terms.positions[name] for name in holders]
    columns = [
        split(secret, key=derive(keys.salt, label, terms.digest), threshold=terms.threshold, points=points)
        for label, secret in secrets.items()
    ]
    return dict(zip(holders, zip(*columns, strict=True), strict=True))
