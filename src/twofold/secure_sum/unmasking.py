"""Step 4: the server adds the masked messages, recovers the secrets behind the masks, and removes the masks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from twofold.errors import BadMessage, BadShape, ConflictingMessage, PlanMismatch, TooFewMessages
from twofold.secure_sum.derive import add_stream
from twofold.secure_sum.keys import private_of, public_of
from twofold.secure_sum.masking import CHECKS, modulus_mask, pair_stream, self_stream
from twofold.secure_sum.messages import MaskedMessage, SharesMessage, UnmaskMessage
from twofold.secure_sum.shamir import recover
from twofold.secure_sum.sharing import commitment_to
from twofold.secure_sum.terms import Terms

__all__ = ["Opened", "Secrets", "add_masked", "check_answer", "recover_secrets", "unmask"]


@dataclass(frozen=True, kw_only=True)
class Opened:
    """The sum, and the entities that answered with wrong shares.

    Parameters
    ----------
    values : array of int64
        The exact sum of the survivors' numbers.
    doubtful : tuple of (str, str)
        Answerer and owner of each share that was found to be wrong: either the first sent a wrong share on, or the
        second dealt it one. The sum is right all the same.
    """

    values: NDArray[np.int64] = field(repr=False)
    doubtful: tuple[tuple[str, str], ...] = ()


def add_masked(
    messages: Iterable[MaskedMessage], terms: Terms, present: Sequence[str]
) -> tuple[NDArray[np.uint64], tuple[str, ...]]:
    """Add masked messages modulo 2^bits, one at a time; also return the sorted names of the survivors.

    Examples
    --------
    >>> from twofold.secure_sum import Keys, mask
    >>> keys = {name: Keys.new() for name in ("anna", "bert")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> sent = [mask(np.array([5]), keys[name], name, terms, terms.names) for name in terms.names]
    >>> add_masked(sent, terms, terms.names)[1]
    ('anna', 'bert')
    """
    terms.check_present(present)
    bound = terms.present_digest(present)
    total: NDArray[np.uint64] | None = None
    seen: set[str] = set()
    for message in messages:
        _check_masked(message, terms, present, bound)
        if message.sender in seen:
            raise ConflictingMessage(
                "two masked messages from one entity.", found=f"from {message.sender!r}", parameter="sender"
            )
        if total is not None and message.numbers.size != total.size:
            raise BadShape("masked messages differ in length.", found=f"from {message.sender!r}", parameter="numbers")
        seen.add(message.sender)
        total = message.numbers.copy() if total is None else np.add(total, message.numbers, out=total)
    if total is None:
        raise TooFewMessages("there are no masked messages to add.", parameter="messages")
    return total & modulus_mask(terms.bits), tuple(sorted(seen))


def unmask(
    total: NDArray[np.uint64],
    answers: Mapping[str, UnmaskMessage],
    terms: Terms,
    shares: Mapping[str, SharesMessage],
    present: Sequence[str],
    survivors: Sequence[str],
) -> Opened:
    """Remove the masks from a sum; nothing is unmasked if too few answered or anything is inconsistent.

    Parameters
    ----------
    total : array of uint64
        From `add_masked`.
    answers : mapping of str to UnmaskMessage
        By sender; at least the threshold.
    terms : Terms
        What the sum is about.
    shares : mapping of str to SharesMessage
        From step 1; only the commitments are used.
    present, survivors : sequence of str
        The lists that were answered.

    Examples
    --------
    >>> from twofold.secure_sum import Keys, answer, mask, share_secrets
    >>> keys = {name: Keys.new() for name in ("anna", "bert", "carl")}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=3)
    >>> shares = {name: share_secrets(pair, name, terms) for name, pair in keys.items()}
    >>> stay = ["anna", "bert"]  # carl drops out after sharing
    >>> sent = [mask(np.array([5, -7]), keys[name], name, terms, terms.names) for name in stay]
    >>> total, survivors = add_masked(sent, terms, terms.names)
    >>> answers = {name: answer(keys[name], name, terms, shares, terms.names, survivors) for name in stay}
    >>> unmask(total, answers, terms, shares, terms.names, survivors).values
    array([ 10, -14])
    """
    terms.check_survivors(present, survivors)
    for name, message in answers.items():
        check_answer(message, name, terms, present, survivors)
    if len(answers) < terms.threshold:
        raise TooFewMessages(
            "too few entities answered; nothing is unmasked.",
            found=str(len(answers)),
            expected=f"at least {terms.threshold}",
            fix="wait for more answers",
            parameter="answers",
        )
    if total.dtype != np.uint64 or total.ndim != 1 or total.size <= CHECKS:
        raise BadShape("this is not a total of masked messages.", expected="what add_masked gives", parameter="total")
    secrets = recover_secrets(answers, terms, shares, present, survivors)
    remaining = total.copy()
    _take_off(remaining, secrets, terms, present, survivors)
    return Opened(values=_read(remaining, terms, survivors), doubtful=secrets.doubtful)


def _take_off(
    remaining: NDArray[np.uint64], secrets: Secrets, terms: Terms, present: Sequence[str], survivors: Sequence[str]
) -> None:
    bound, size = terms.present_digest(present), remaining.size
    for seed in secrets.seeds.values():
        add_stream(remaining, self_stream(seed, bound, size), bits=terms.bits, subtract=True)
    for gone, secret in secrets.keys.items():
        private = private_of(secret)
        for stayed in survivors:
            key = pair_stream(private, terms.roster[stayed].mask, bound, size, pair=(stayed, gone))
            # the one that stayed added it when its name comes first
            add_stream(remaining, key, bits=terms.bits, subtract=stayed < gone)


def _read(remaining: NDArray[np.uint64], terms: Terms, survivors: Sequence[str]) -> NDArray[np.int64]:
    remaining &= modulus_mask(terms.bits)
    expected = [len(survivors), sum(terms.positions[name] for name in survivors)]
    if [int(number) for number in remaining[-CHECKS:]] != [number % 2**terms.bits for number in expected]:
        wrong = "the check numbers of the sum are wrong: a message is invalid or masked for another plan."
        raise _no_fit(wrong, "checks")
    shift = np.int64(64 - terms.bits)
    values = (remaining[:-CHECKS].view(np.int64) << shift) >> shift  # brings the sign up from bit `bits`
    if int(values.max()) > terms.limit * len(survivors) or int(values.min()) < -terms.limit * len(survivors):
        raise _no_fit("the sum exceeds what numbers within the limit can give: a message is invalid.", "values")
    return values


def _no_fit(summary: str, parameter: str) -> BadMessage:
    return BadMessage(
        summary,
        expected="masked messages of exactly the survivors, made with the keys of the roster",
        fix="start again with a new plan and new keys; single messages cannot be distinguished",
        parameter=parameter,
    )


def _check_masked(message: MaskedMessage, terms: Terms, present: Sequence[str], bound: bytes) -> None:
    sender = message.sender
    if sender not in present:
        raise BadMessage(
            "a masked message comes from an entity that did not share.", found=f"from {sender!r}", parameter="sender"
        )
    if message.bits != terms.bits:
        raise PlanMismatch(
            "a masked message has another modulus.",
            found=f"bits {message.bits}",
            expected=f"bits {terms.bits}",
            parameter="bits",
        )
    if message.present != bound:
        raise PlanMismatch(
            "a masked message belongs to another plan or another list.", found=f"from {sender!r}", parameter="present"
        )


@dataclass(kw_only=True)
class Secrets:
    """What the server may know: self-mask seeds of survivors, mask keys of drop-outs, and who sent wrong shares."""

    seeds: dict[str, bytes] = field(default_factory=dict, repr=False)
    keys: dict[str, bytes] = field(default_factory=dict, repr=False)
    doubtful: tuple[tuple[str, str], ...] = ()


def check_answer(
    message: UnmaskMessage, name: str, terms: Terms, present: Sequence[str], survivors: Sequence[str]
) -> None:
    """Refuse an answer for other lists or with other names; for the server, on arrival.

    Examples
    --------
    >>> from twofold.secure_sum import Keys
    >>> roster = {name: Keys.new().public for name in "ab"}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
    >>> seeds = {name: bytes(33) for name in "ab"}
    >>> message = UnmaskMessage(sender="a", lists=terms.lists_digest("ab", "ab"), seeds=seeds, keys={})
    >>> check_answer(message, "a", terms, ["a", "b"], ["a", "b"])
    """
    if message.sender != name or name not in survivors:
        raise BadMessage(
            "an answer does not come from a survivor.", found=f"from {message.sender!r}", parameter="sender"
        )
    if message.lists != terms.lists_digest(present, survivors):
        raise PlanMismatch("an answer is for other lists or another plan.", found=f"from {name!r}", parameter="lists")
    if set(message.seeds) != set(survivors) or set(message.keys) != set(present) - set(survivors):
        raise BadMessage(
            "an answer does not cover the lists.",
            found=f"from {name!r}",
            expected="a share of every survivor's seed and of every drop-out's key",
            parameter="seeds",
        )


def recover_secrets(
    answers: Mapping[str, UnmaskMessage],
    terms: Terms,
    shares: Mapping[str, SharesMessage],
    present: Sequence[str],
    survivors: Sequence[str],
) -> Secrets:
    """Recover every survivor's self-mask seed and every drop-out's mask key.

    Each is checked, the seed against its commitment and the key against the roster. Where shares do not fit, the wrong
    ones are found if enough answers are left over (`twofold.secure_sum.shamir.recover`), and their senders are trusted
    last from then on.

    Examples
    --------
    >>> from twofold.secure_sum import Keys, answer, share_secrets
    >>> keys = {name: Keys.new() for name in "ab"}
    >>> roster = {name: pair.public for name, pair in keys.items()}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
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
            "the answers are inconsistent; nothing is unmasked.",
            found=f"{len(pieces)} shares of the secret of {owner!r}, with more wrong ones than can be identified"
            + ("" if not doubted else "; earlier wrong shares came from " + ", ".join(sorted(doubted))),
            expected=f"more right answers: {terms.threshold} and two more for each wrong one always suffice",
            fix=f"wait for more answers; if they do not help, {owner!r} dealt wrong shares: start again without it",
            parameter="answers",
        )
    return secret


def _commitment(shares: Mapping[str, SharesMessage], owner: str) -> bytes:
    if owner not in shares or shares[owner].sender != owner:
        raise BadMessage("a message of shares is missing.", expected=f"the shares of {owner!r}", parameter="shares")
    return shares[owner].commitment


def _is_seed(terms: Terms, commitment: bytes, secret: bytes) -> bool:
    return commitment_to(secret, terms) == commitment


def _is_key(terms: Terms, owner: str, secret: bytes) -> bool:
    return public_of(secret) == terms.roster[owner].mask
