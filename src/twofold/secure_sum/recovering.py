"""The secrets behind the masks, put together from answers, checked, and wrong shares found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from twofold.errors import BadMessage, PlanMismatch
from twofold.secure_sum.keys import public_of
from twofold.secure_sum.messages import SharesMessage, UnmaskMessage
from twofold.secure_sum.shamir import recover
from twofold.secure_sum.sharing import commitment_to
from twofold.secure_sum.terms import Terms

__all__ = ["Secrets", "check_answer", "recover_secrets"]


@dataclass(kw_only=True)
class Secrets:
    """What the server may know: self-mask seeds of survivors, mask keys of drop-outs, and whose shares did not fit."""

    seeds: dict[str, bytes] = field(default_factory=dict, repr=False)
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)
    doubtful: tuple[tuple[str, str], ...] = ()


def check_answer(
    message: UnmaskMessage, name: str, terms: Terms, present: Sequence[str], survivors: Sequence[str]
) -> None:
    """Refuse an answer to other lists or with other names in it; for the server, on arrival.

    Examples
    --------
    >>> from twofold.secure_sum import Keys
    >>> roster = {name: Keys.new().public for name in "ab"}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=2)
    >>> seeds = {name: bytes(33) for name in "ab"}
    >>> message = UnmaskMessage(sender="a", lists=terms.lists_digest("ab", "ab"), seeds=seeds, keys={})
    >>> check_answer(message, "a", terms, ["a", "b"], ["a", "b"])
    """
    if message.sender != name or name not in survivors:
        raise BadMessage("an answer does not come from a survivor.", found=f"from {message.sender!r}")
    if message.lists != terms.lists_digest(present, survivors):
        raise PlanMismatch("an answer is to other lists or belongs to another plan.", found=f"from {name!r}")
    if set(message.seeds) != set(survivors) or set(message.keys) != set(present) - set(survivors):
        raise BadMessage(
            "an answer does not cover the lists.",
            found=f"from {name!r}",
            expected="a share of every survivor's seed and of every drop-out's key",
        )


def recover_secrets(
    answers: Mapping[str, UnmaskMessage],
    terms: Terms,
    shares: Mapping[str, SharesMessage],
    present: Sequence[str],
    survivors: Sequence[str],
) -> Secrets:
    """Put together every survivor's self-mask seed and every drop-out's mask key.

    Each is checked, the seed against its commitment and the key against the roster. Where shares do not fit, the wrong
    ones are found if enough answers are left over (`twofold.secure_sum.shamir.recover`), and their senders are trusted
    last from then on.

    Examples
    --------
    >>> from twofold.secure_sum import Keys, answer, share_secrets
    >>> keys = {name: Keys.new() for name in "ab"}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=2)
    >>> shares = {name: share_secrets(pair, name, terms) for name, pair in keys.items()}
    >>> answers = {name: answer(keys[name], name, terms, shares, terms.names, terms.names) for name in "ab"}
    >>> sorted(recover_secrets(answers, terms, shares, terms.names, terms.names).seeds)
    ['a', 'b']
    """
    found = Secrets()
    for owner in present:
        stayed = owner in survivors
        pieces = {name: (answers[name].seeds if stayed else answers[name].keys)[owner] for name in sorted(answers)}
        fits = partial(_is_seed, terms, _commitment(shares, owner)) if stayed else partial(_is_key, terms, owner)
        target = found.seeds if stayed else found.keys
        target[owner] = _secret(found, owner, pieces, terms, fits)
    return found


def _secret(
    found: Secrets, owner: str, pieces: Mapping[str, bytes], terms: Terms, fits: Callable[[bytes], bool]
) -> bytes:
    doubted = {answerer for answerer, _ in found.doubtful}
    order = sorted(pieces, key=lambda name: (name in doubted, name))
    points = {terms.positions[name]: pieces[name] for name in order}
    secret, wrong = recover(points, threshold=terms.threshold, fits=fits)
    found.doubtful += tuple((terms.names[point - 1], owner) for point in sorted(wrong))
    if secret is None:
        raise BadMessage(
            "the answers do not fit together; nothing is unmasked.",
            found=f"{len(pieces)} shares of the secret of {owner!r}, with more wrong ones than can be found"
            + ("" if not doubted else "; earlier wrong shares came from " + ", ".join(sorted(doubted))),
            expected=f"more right answers: {terms.threshold} and two more for each wrong one always suffice",
            fix=f"wait for more answers; if none help, {owner!r} dealt wrong shares: start again without it",
        )
    return secret


def _commitment(shares: Mapping[str, SharesMessage], owner: str) -> bytes:
    if owner not in shares or shares[owner].sender != owner:
        raise BadMessage("a message of shares is missing.", expected=f"the shares of {owner!r}")
    return shares[owner].commitment


def _is_seed(terms: Terms, commitment: bytes, secret: bytes) -> bool:
    return commitment_to(secret, terms) == commitment


def _is_key(terms: Terms, owner: str, secret: bytes) -> bool:
    return public_of(secret) == terms.roster[owner].mask
