r"""The strip attack: a dishonest server and some participants show every honest entity another list.

The adversary knows both shares that its own participants hold of every secret, and gets one answer from every honest
entity, for a list of survivors that it chooses for that entity alone. It has two ways:

* *both secrets*: some are told that the victim stayed, the others that it dropped out. With enough shares of the
  victim's self-mask seed and of its mask key, every mask of its message comes off;
* *a small group*: the mask keys of as many honest entities as possible are opened. What is left is the sum of the few
  others, with the noise of these few alone.

Nothing is simulated: honest entities run `twofold.secure_sum`, the adversary computes with what it received, and what
it found is compared with the numbers that went in. The best lists are constructed, not searched for, so 205 entities
take seconds; for small federations `every_choice` goes through all lists.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twofold.errors import PrivacyError
from twofold.secure_sum import (
    Keys,
    MaskedMessage,
    SharesMessage,
    Terms,
    UnmaskMessage,
    answer,
    honest_in_any_sum,
    mask,
    share_secrets,
)
from twofold.secure_sum.derive import add_stream
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.masking import CHECKS, modulus_mask, pair_stream, self_stream
from twofold.secure_sum.messages import open_box
from twofold.secure_sum.shamir import recover
from twofold.secure_sum.sharing import own_shares

__all__ = ["Choices", "Honest", "Opening", "Outcome", "every_choice", "lists_for", "strip"]

Lists = dict[str, tuple[str, ...]]
_BITS: Final = 48
_NUMBERS: Final = 4


@dataclass
class Honest:
    """An entity that keeps to the protocol: one mask, one answer, stored."""

    name: str
    keys: Keys = field(repr=False)
    terms: Terms = field(repr=False)
    answered: UnmaskMessage | None = field(default=None, repr=False)

    def reply(self, shares: Mapping[str, SharesMessage], survivors: Sequence[str]) -> UnmaskMessage:
        """Answer a list; any other list is refused from then on."""
        present = self.terms.names
        made = answer(self.keys, self.name, self.terms, shares, present, survivors, already=self.answered)
        self.answered = made
        return made


@dataclass(frozen=True, kw_only=True)
class Opening:
    """The lists to show, and who is in the sum that they open; no list if nothing but the common sum can be had."""

    lists: Lists = field(repr=False)
    group: tuple[str, ...]
    bare: bool = False


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the adversary computed.

    Parameters
    ----------
    group : tuple of str
        Honest entities in the smallest sum it opened.
    bare : bool
        Whether both secrets of one victim opened.
    found : array of int64
        The sum it computed; None where a mask stayed on.
    right : bool
        Whether it is the sum of the group's numbers.
    refused : int
        Second answers that were asked for and refused.
    """

    group: tuple[str, ...]
    bare: bool
    found: NDArray[np.int64] | None = field(repr=False)
    right: bool
    refused: int


def lists_for(names: Sequence[str], allies: Sequence[str], *, threshold: int, survivors: int) -> Opening:
    """Give the lists that open the smallest sum of honest entities.

    Parameters
    ----------
    names, allies : sequence of str
        Everyone, and those whose shares the adversary has.
    threshold, survivors : int
        Of the terms.

    Examples
    --------
    >>> lists_for("abcde", "e", threshold=3, survivors=3).group
    ('a',)
    >>> lists_for("abcde", "e", threshold=4, survivors=4).group
    ('b', 'c', 'd')
    """
    honest = [name for name in names if name not in allies]
    gone, needed = len(names) - survivors, threshold - len(allies)
    whole = tuple(names)
    if gone and len(honest) >= 2 * needed and needed >= 1:
        victim, others = honest[0], honest[1:]
        without = tuple(name for name in names if name != victim)
        told = {name: without if place < needed else whole for place, name in enumerate(others)}
        return Opening(lists={victim: whole, **told}, group=(victim,), bare=True)
    for size in range(min(len(honest) - 1, len(honest) * gone // max(needed, 1)), 0, -1):
        dropped = _cover(honest, honest[:size], most=gone, needed=needed)
        if dropped is not None:
            lists = {name: tuple(one for one in names if one not in dropped[name]) for name in honest}
            return Opening(lists=lists, group=tuple(honest[size:]))
    return Opening(lists=dict.fromkeys(honest, whole), group=tuple(honest))


def _cover(honest: Sequence[str], targets: Sequence[str], *, most: int, needed: int) -> dict[str, set[str]] | None:
    """Let `needed` honest entities call each target dropped, each at most `most` and never itself; None if not so."""
    told: dict[str, set[str]] = {name: set() for name in honest}
    for target in targets:
        free = sorted(
            (name for name in honest if name != target and len(told[name]) < most), key=lambda one: len(told[one])
        )
        if len(free) < needed:
            return None
        for name in free[:needed]:
            told[name].add(target)
    return told


def strip(*, entities: int, survivors: int, threshold: int, allies: int, seed: int = 0) -> Outcome:
    """Run the protocol among honest entities and the adversary, and compute the smallest sum that opens.

    Parameters
    ----------
    entities, survivors, threshold : int
        Of the terms; everyone shares keys.
    allies : int
        Participants whose keys and shares the adversary has.
    seed : int
        Of the numbers; keys are always new.

    Examples
    --------
    >>> found = strip(entities=5, survivors=3, threshold=3, allies=1)
    >>> found.bare, found.right
    (True, True)
    """
    names = [f"e{place:04}" for place in range(entities)]
    keys = {name: Keys.new() for name in names}
    terms = Terms(
        context=b"strip",
        roster={name: pair.public for name, pair in keys.items()},
        threshold=threshold,
        least_survivors=survivors,
        least_present=entities,
        bits=_BITS,
    )
    wicked = names[entities - allies :]
    people = {name: Honest(name, keys[name], terms) for name in names if name not in wicked}
    draws = np.random.default_rng(seed)
    values = {name: draws.integers(-1000, 1000, _NUMBERS) for name in people}
    shares = {name: share_secrets(keys[name], name, terms) for name in names}
    sent = {name: mask(values[name], keys[name], name, terms, names) for name in people}
    plan = lists_for(names, wicked, threshold=threshold, survivors=survivors)
    answers = {name: people[name].reply(shares, plan.lists[name]) for name in people}
    refused = sum(_refuses(one, shares, plan.lists[name], names) for name, one in people.items())
    own = {ally: keys[ally] for ally in wicked}
    found = open_group(plan.group, sent, answers, shares, own, terms)
    truth = sum(values[name] for name in plan.group)
    right = found is not None and bool((found == truth).all())
    return Outcome(group=plan.group, bare=plan.bare, found=found, right=right, refused=refused)


def _refuses(one: Honest, shares: Mapping[str, SharesMessage], told: Sequence[str], names: Sequence[str]) -> bool:
    """Ask for a second answer, for another list where there is one."""
    other = next((name for name in names if name != one.name and name in told), None)
    if len(told) == len(names) == one.terms.least_survivors:
        return False  # there is no other list
    second = tuple(name for name in names if name != other) if len(told) == len(names) else tuple(names)
    try:
        one.reply(shares, second)
    except PrivacyError:
        return True
    return False


def open_group(
    group: Sequence[str],
    sent: Mapping[str, MaskedMessage],
    answers: Mapping[str, UnmaskMessage],
    shares: Mapping[str, SharesMessage],
    allies: Mapping[str, Keys],
    terms: Terms,
) -> NDArray[np.int64] | None:
    """Add the group's messages and take off every mask that the answers and the allies' keys open.

    The check numbers behind the values tell the adversary whether all masks came off; None if one stayed.
    """
    held = {ally: _held(keys, ally, shares, terms) for ally, keys in allies.items()}
    bound, size = terms.present_digest(terms.names), sent[group[0]].numbers.size
    total = np.zeros(size, dtype=np.uint64)
    outside = [name for name in terms.names if name not in group and name not in allies]
    opened = {name: _secret(name, "keys", answers, held, terms) for name in outside}
    alone = len(group) == 1
    own_key = _secret(group[0], "keys", answers, held, terms) if alone else None
    for name in group:
        total += sent[name].numbers
        seed = _secret(name, "seeds", answers, held, terms)
        if seed is None:
            return None
        add_stream(total, self_stream(seed, bound, size), bits=terms.bits, subtract=True)
        for other in (*outside, *allies):
            secret = allies[other].mask if other in allies else opened[other]
            mine, theirs = (own_key, other) if secret is None else (secret, name)
            if mine is None:
                return None
            key = pair_stream(private_of(mine), terms.roster[theirs].mask, bound, size, pair=(name, other))
            add_stream(total, key, bits=terms.bits, subtract=name < other)
    total &= modulus_mask(terms.bits)
    shift = np.int64(64 - terms.bits)
    numbers = (total.view(np.int64) << shift) >> shift
    expected = [len(group), sum(terms.positions[name] for name in group)]
    return numbers[:-CHECKS] if numbers[-CHECKS:].tolist() == expected else None


def _held(keys: Keys, ally: str, shares: Mapping[str, SharesMessage], terms: Terms) -> dict[str, dict[str, bytes]]:
    """Both shares of everybody's two secrets that an ally holds."""
    pairs = {ally: own_shares(keys, ally, terms)}
    for name, message in shares.items():
        if name != ally:
            private = private_of(keys.seal)
            box = message.boxes[ally]
            pairs[name] = open_box(private, name, ally, terms, commitment=message.commitment, box=box)
    return {
        "keys": {name: pair[0] for name, pair in pairs.items()},
        "seeds": {name: pair[1] for name, pair in pairs.items()},
    }


def _secret(
    owner: str,
    kind: str,
    answers: Mapping[str, UnmaskMessage],
    held: Mapping[str, Mapping[str, Mapping[str, bytes]]],
    terms: Terms,
) -> bytes | None:
    points = {terms.positions[ally]: both[kind][owner] for ally, both in held.items()}
    for name, message in answers.items():
        given = getattr(message, kind)
        if owner in given:
            points[terms.positions[name]] = given[owner]
    if len(points) < terms.threshold:
        return None
    fewest = dict(itertools.islice(points.items(), terms.threshold))
    return recover(fewest, threshold=terms.threshold, fits=lambda _: True)[0]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What all choices of lists come to.

    Parameters
    ----------
    number : int
        How many there are.
    bare : int
        Of them, those in which both secrets of an honest entity open.
    least : int
        Fewest honest entities in a sum that opens.
    bound : int
        The same by the proof.
    """

    number: int
    bare: int
    least: int
    bound: int


def every_choice(*, entities: int, survivors: int, threshold: int, allies: int) -> Choices:
    """Go through every list that every honest entity can be shown.

    Examples
    --------
    >>> every_choice(entities=4, survivors=3, threshold=3, allies=2).bare > 0
    True
    >>> every_choice(entities=4, survivors=3, threshold=3, allies=1)
    Choices(number=64, bare=0, least=2, bound=2)
    """
    honest = range(entities - allies)
    needed, number, bare, least = threshold - allies, 0, 0, len(honest)
    for dropped in itertools.product(*(_told(entities, survivors, me) for me in honest)):
        number += 1
        keys = {one for one in honest if sum(one in gone for gone in dropped) >= needed}
        seeds = {one for one in honest if sum(one not in gone for gone in dropped) >= needed}
        bare += bool(keys & seeds)
        if keys & seeds:
            least = min(least, 1)
        elif keys | seeds == set(honest) and seeds:
            least = min(least, len(seeds))
    numbers = {"threshold": threshold, "least_survivors": survivors, "least_present": entities}
    bound = honest_in_any_sum(entities=entities, colluders=allies, **numbers)
    return Choices(number=number, bare=bare, least=least, bound=bound)


def _told(entities: int, survivors: int, me: int) -> list[frozenset[int]]:
    others = [one for one in range(entities) if one != me]
    return [
        frozenset(gone) for size in range(entities - survivors + 1) for gone in itertools.combinations(others, size)
    ]
