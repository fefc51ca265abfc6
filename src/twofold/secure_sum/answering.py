"""Step 3: the survivors help to take the masks off, one list only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from twofold.errors import BadMessage, PlanMismatch, PrivacyError
from twofold.secure_sum.keys import Keys, private_of
from twofold.secure_sum.messages import SharesMessage, UnmaskMessage
from twofold.secure_sum.sealed import open_box
from twofold.secure_sum.sharing import own_shares
from twofold.secure_sum.terms import Terms

__all__ = ["answer"]


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
    Refused: fewer survivors than the floor, a list without oneself or beyond `present`, other lists than answered
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
    >>> from twofold.secure_sum.sharing import share_secrets
    >>> keys = {name: Keys.new() for name in ("anna", "bert", "carl")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=3)
    >>> shares = {name: share_secrets(pair, name, terms) for name, pair in keys.items()}
    >>> message = answer(keys["anna"], "anna", terms, shares, terms.names, ["anna", "bert"])
    >>> sorted(message.seeds), sorted(message.keys)
    (['anna', 'bert'], ['carl'])
    """
    terms.own(keys, name)
    terms.check_survivors(present, survivors)
    if name not in survivors:
        raise PrivacyError("this entity is not in the list of survivors, so it does not answer.")
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
        raise BadMessage("the stored answer is another entity's.", found=f"from {already.sender!r}")
    if already.lists != lists:
        raise PrivacyError(
            "this entity has answered another list; a second one could lay single messages open.",
            expected="the lists that were answered before",
            fix="send the stored answer again; for another list start a new plan with new keys",
        )


def _held(
    private: X25519PrivateKey, name: str, terms: Terms, shares: Mapping[str, SharesMessage], sender: str
) -> tuple[bytes, bytes]:
    message = shares.get(sender)
    if message is None or message.sender != sender or name not in message.boxes:
        raise BadMessage("sealed shares are missing.", expected=f"the shares of {sender!r} for {name!r}")
    if message.terms != terms.digest:
        raise PlanMismatch("shares belong to another plan.", found=f"from {sender!r}")
    return open_box(private, sender, name, terms, commitment=message.commitment, box=message.boxes[name])
