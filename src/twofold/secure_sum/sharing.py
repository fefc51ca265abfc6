"""Steps 1 and 3: every entity shares its two secrets among all; later, survivors answer one list of survivors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from twofold.errors import BadMessage, PlanMismatch, PrivacyError
from twofold.secure_sum.derive import derive, digest
from twofold.secure_sum.keys import Keys, private_of
from twofold.secure_sum.messages import SharesMessage, UnmaskMessage, open_box, seal_box
from twofold.secure_sum.shamir import split
from twofold.secure_sum.terms import Terms

__all__ = ["answer", "check_shares", "commitment_to", "own_shares", "plan_seed", "share_secrets"]


def share_secrets(keys: Keys, name: str, terms: Terms) -> SharesMessage:
    """Share the own mask key and self-mask seed among everyone enrolled.

    Each holder's two shares are under a seal that only this holder can open. The sharer also holds a share,
    at its own place in the roster; it is never sent but computed again when needed (`own_shares`). Everything follows
    from the keys and the terms: asking again gives the same bytes.

    Paper
    -----
    Round 1 of Bonawitz et al. 2017, figure 4.

    Examples
    --------
    >>> keys = {name: Keys.new() for name in ("anna", "bert", "carl")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=3)
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
    """Refuse a message of shares for other terms, or one that omits an entity; for the server, on arrival.

    Examples
    --------
    >>> keys = {name: Keys.new() for name in ("anna", "bert")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> check_shares(share_secrets(keys["anna"], "anna", terms), terms)
    """
    terms.known(message.sender)
    if message.terms != terms.digest:
        raise PlanMismatch("shares belong to another plan.", found=f"from {message.sender!r}", parameter="terms")
    if set(message.boxes) != set(terms.names) - {message.sender}:
        raise BadMessage(
            "shares omit an entity, or are for an unknown one.",
            found=f"from {message.sender!r}",
            expected="sealed shares for everyone else in the roster",
            parameter="boxes",
        )


def plan_seed(keys: Keys, terms: Terms) -> bytes:
    """The self-mask seed for these terms; it is shared, so that the seed of the keys itself never leaves.

    Examples
    --------
    >>> keys, roster = Keys.new(), {name: Keys.new().public for name in "ab"}
    >>> one = Terms(context=b"one", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> two = Terms(context=b"two", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> plan_seed(keys, one) == plan_seed(keys, two)
    False
    """
    return derive(keys.seed, "self seed", terms.digest)


def commitment_to(seed: bytes, terms: Terms) -> bytes:
    """SHA-256 commitment to a self-mask seed; hiding because the seed is 32 random bytes.

    Examples
    --------
    >>> roster = {name: Keys.new().public for name in "ab"}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> len(commitment_to(bytes(32), terms))
    32
    """
    return digest("commitment", terms.digest, seed)


def own_shares(keys: Keys, name: str, terms: Terms) -> tuple[bytes, bytes]:
    """An entity's own share of its own mask key and self-mask seed.

    Examples
    --------
    >>> keys, other = Keys.new(), Keys.new()
    >>> roster = {"anna": keys.public, "bert": other.public}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
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


def answer(
    keys: Keys,
    name: str,
    terms: Terms,
    shares: Mapping[str, SharesMessage],
    present: Sequence[str],
    survivors: Sequence[str],
    *,
    already: UnmaskMessage | None = None,
) -> UnmaskMessage:
    """Give the shares of the survivors' self-mask seeds and of the drop-outs' mask keys; never both of one entity.

    Parameters
    ----------
    keys, name
        The entity's own.
    terms : Terms
        What the sum is about.
    shares : mapping of str to SharesMessage
        By sender: the messages of everyone else in `present`, at least the box for this entity.
    present : sequence of str
        Who shared: the list this entity masked with.
    survivors : sequence of str
        Whose masked numbers are in the sum.
    already : UnmaskMessage, optional
        What this entity answered before. **The caller stores its answer before it sends it and always hands it in
        here**: the proof rests on one list per entity.

    Privacy
    -------
    Refused: too few survivors, a list without oneself or beyond `present`, other lists than answered
    before.

    Paper
    -----
    Round 4 of Bonawitz et al. 2017, figure 4.

    Deviations
    ----------
    Their round 3, where entities sign the list of survivors for each other, is left out: it would cost every entity one
    more exchange. What a server can gain by showing different lists is bounded instead (`honest_in_any_sum`).

    Examples
    --------
    >>> keys = {name: Keys.new() for name in ("anna", "bert", "carl")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=3)
    >>> shares = {name: share_secrets(pair, name, terms) for name, pair in keys.items()}
    >>> message = answer(keys["anna"], "anna", terms, shares, terms.names, ["anna", "bert"])
    >>> sorted(message.seeds), sorted(message.keys)
    (['anna', 'bert'], ['carl'])
    """
    terms.own(keys, name)
    terms.check_survivors(present, survivors)
    if name not in survivors:
        raise PrivacyError("this entity is not in the list of survivors, so it does not answer.", parameter="survivors")
    lists = terms.lists_digest(present, survivors)
    _check_already(already, name, lists)
    held = {name: own_shares(keys, name, terms)}
    private = private_of(keys.seal)
    held |= {other: _held(private, name, terms, shares, other) for other in present if other != name}
    seeds = {other: held[other][1] for other in survivors}
    mask_keys = {other: held[other][0] for other in present if other not in seeds}
    return UnmaskMessage(sender=name, lists=lists, seeds=seeds, keys=mask_keys)


def _check_already(already: UnmaskMessage | None, name: str, lists: bytes) -> None:
    if already is None:
        return
    if already.sender != name:
        raise BadMessage(
            "the stored answer belongs to another entity.", found=f"from {already.sender!r}", parameter="already"
        )
    if already.lists != lists:
        raise PrivacyError(
            "this entity has answered another list; a second answer could reveal single messages.",
            expected="the lists that were answered before",
            fix="send the stored answer again; for another list, start a new plan with new keys",
            parameter="already",
        )


def _held(
    private: X25519PrivateKey, name: str, terms: Terms, shares: Mapping[str, SharesMessage], sender: str
) -> tuple[bytes, bytes]:
    message = shares.get(sender)
    if message is None or message.sender != sender or name not in message.boxes:
        raise BadMessage(
            "sealed shares are missing.", expected=f"the shares of {sender!r} for {name!r}", parameter="shares"
        )
    if message.terms != terms.digest:
        raise PlanMismatch("shares belong to another plan.", found=f"from {sender!r}", parameter="terms")
    return open_box(private, sender, name, terms, commitment=message.commitment, box=message.boxes[name])
