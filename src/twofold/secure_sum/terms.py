"""The public terms of one secure sum: who takes part, how many each step needs, and what follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from twofold.checks import whole
from twofold.errors import BadMessage, BadPlan, PlanMismatch, TooFewMessages
from twofold.secure_sum.derive import digest
from twofold.secure_sum.keys import Keys, PublicKeys, check_roster

__all__ = ["Terms", "honest_in_any_sum", "least_floor", "least_threshold"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Everything public that one secure sum depends on; its digest goes into every key.

    Parameters
    ----------
    context : bytes
        The purpose of the sum: the hash of the plan. Not empty.
    roster : mapping of str to PublicKeys
        The enrolled entities. It is agreed with the plan, so a server cannot insert its own keys.
    threshold : int
        Answers needed to unmask; at least `least_threshold`.
    least_survivors : int
        Fewest survivors in a sum.
    least_present : int
        Fewest entities that have shared their secrets before anyone masks. The whole roster is the best choice
        for privacy (see `honest_in_any_sum`); a smaller number lets the sum continue without missing entities.
    colluders : int
        Number of entities that may work together with the server.
    bits : int
        The sum is taken modulo 2^bits: 16, 24, ... 64.

    Examples
    --------
    >>> roster = {name: Keys.new().public for name in ("anna", "bert", "carl")}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=3, bits=32)
    >>> terms.names, terms.limit
    (('anna', 'bert', 'carl'), 715827882)
    """

    context: bytes = field(repr=False)
    roster: Mapping[str, PublicKeys] = field(repr=False)
    threshold: int
    least_survivors: int
    least_present: int
    colluders: int = 0
    bits: int = 48

    def __post_init__(self) -> None:
        if not isinstance(self.context, bytes) or not self.context:
            raise BadPlan(
                "a secure sum needs a context.", expected="the hash of the plan, as bytes", parameter="context"
            )
        check_roster(self.roster, least=2)
        object.__setattr__(self, "roster", dict(sorted(self.roster.items())))
        _check_numbers(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Everyone enrolled, in order."""
        return tuple(self.roster)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each name, from 1: the point at which it holds its shares."""
        return {name: place for place, name in enumerate(self.roster, start=1)}

    @property
    def limit(self) -> int:
        """Largest magnitude of one entity's number for which no sum can wrap around."""
        return ((1 << (self.bits - 1)) - 1) // len(self.roster)

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all terms."""
        numbers = (self.threshold, self.least_survivors, self.least_present, self.colluders, self.bits)
        parts = [part for name, keys in self.roster.items() for part in (name.encode(), keys.mask, keys.seal)]
        return digest("terms", self.context, *(number.to_bytes(8, "little") for number in numbers), *parts)

    def own(self, keys: Keys, name: str) -> None:
        """Refuse keys that are not enrolled under this name.

        Examples
        --------
        >>> keys = {name: Keys.new() for name in ("anna", "bert")}
        >>> roster = {name: pair.public for name, pair in keys.items()}
        >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=2)
        >>> terms.own(keys["anna"], "anna")
        """
        self.known(name)
        if self.roster[name] != keys.public:
            raise PlanMismatch(
                "the keys are not those that the plan lists under this name.",
                found=f"name {name!r}, whose public keys differ",
                expected="the keys this entity enrolled with",
                fix="use the right key file, or ask for a plan with the right roster",
                parameter="keys",
            )

    def known(self, name: str) -> None:
        """Refuse a name that is not enrolled."""
        if name not in self.roster:
            raise PlanMismatch("this name is not enrolled in the plan.", found=f"name {name!r:.60}", parameter="name")

    def check_present(self, present: Sequence[str]) -> None:
        """Refuse a list of sharers that is out of order, has unknown names or is too short.

        Examples
        --------
        >>> roster = {name: Keys.new().public for name in ("anna", "bert", "carl")}
        >>> terms = Terms(context=b"plan", roster=roster, threshold=2, least_survivors=2, least_present=3)
        >>> terms.check_present(["anna", "bert", "carl"])
        """
        _check_list(present, self.roster, name="present", what="entities that shared", within="the roster")
        if len(present) < self.least_present:
            raise TooFewMessages(
                "too few entities shared their secrets; nothing is masked.",
                found=str(len(present)),
                expected=f"at least {self.least_present}",
                parameter="present",
            )

    def check_survivors(self, present: Sequence[str], survivors: Sequence[str]) -> None:
        """Refuse a list of survivors that is out of order, not within `present` or too short."""
        self.check_present(present)
        _check_list(survivors, set(present), name="survivors", what="survivors", within="those who shared")
        if len(survivors) < self.least_survivors:
            raise TooFewMessages(
                "too few entities survived; nothing is unmasked.",
                found=str(len(survivors)),
                expected=f"at least {self.least_survivors}",
                parameter="survivors",
                fix="wait for more entities, or start again with a new plan and new keys",
            )

    def present_digest(self, present: Sequence[str]) -> bytes:
        """Digest of the terms and of who shared; masks are bound to it."""
        return digest("present", self.digest, *(name.encode() for name in present))

    def lists_digest(self, present: Sequence[str], survivors: Sequence[str]) -> bytes:
        """Digest of the terms and of both lists; answers are bound to it."""
        return digest("survivors", self.present_digest(present), *(name.encode() for name in survivors))


def _check_numbers(terms: Terms) -> None:
    for name in ("threshold", "least_survivors", "least_present", "colluders", "bits"):
        whole(name, getattr(terms, name), least=0)
    entities = len(terms.roster)
    whole("colluders", terms.colluders, least=0, most=entities - 2)
    least = least_threshold(entities, terms.colluders)
    if not least <= terms.threshold <= terms.least_survivors <= terms.least_present <= entities:
        raise BadPlan(
            "the numbers of a secure sum are inconsistent.",
            found=f"{terms.threshold}, {terms.least_survivors}, {terms.least_present}",
            expected=f"{least} <= threshold <= least_survivors <= least_present <= {entities}",
            parameter="threshold",
        )
    if terms.bits not in range(16, 65, 8):
        raise BadPlan(
            "{parameter} is out of range.",
            found=str(terms.bits),
            expected="16, 24, 32, 40, 48, 56 or 64",
            parameter="bits",
        )
    if terms.limit < 1:
        raise BadPlan(
            "too many entities for this number of bits.",
            found=f"bits {terms.bits}",
            fix="more bits",
            parameter="bits",
        )


def _check_list(
    names: Sequence[str], allowed: Mapping[str, object] | set[str], *, name: str, what: str, within: str
) -> None:
    if isinstance(names, str) or not all(isinstance(one, str) for one in names):
        raise BadMessage(
            f"the list of {what} holds something other than names.", expected="a list of names", parameter=name
        )
    if list(names) != sorted(set(names)):
        raise BadMessage(
            f"the list of {what} is out of order or repeats a name.", expected="each name once, sorted", parameter=name
        )
    strangers = [one for one in names if one not in allowed]
    if strangers:
        raise BadMessage(
            f"the list of {what} has an unknown name.", found=f"{strangers[0]!r:.60}", expected=within, parameter=name
        )


def least_threshold(entities: int, colluders: int = 0) -> int:
    """The fewest shares that may open a secret: above half of entities and colluders together.

    Privacy
    -------
    To unmask one honest entity's message the server needs its mask key *and* its self-mask seed, each from
    `threshold` shares. Colluders give both shares. An honest entity answers one list and so gives one of the two. With
    h honest entities and c colluders the server gets at most h + 2c = n + c shares of the two together, and needs
    2 threshold. So 2 threshold > n + c prevents this. For a third of all colluding it is ⌊2n/3⌋ + 1, as in the
    analysis of active servers by Bonawitz et al. 2017.

    Examples
    --------
    >>> least_threshold(205), least_threshold(205, colluders=10), least_threshold(4)
    (103, 108, 3)
    """
    return (entities + colluders) // 2 + 1


def honest_in_any_sum(
    *, entities: int, threshold: int, least_survivors: int, least_present: int, colluders: int = 0
) -> int:
    """Count the honest entities in any sum that a server can reveal, even if it is dishonest about the lists.

    A share of the noise must be large enough for this many.

    Privacy
    -------
    An honest server opens sums of at least ``least_survivors - colluders`` honest entities. A dishonest one may show
    each entity another list of survivors, each long enough, and so open more mask keys than one list would. This has
    limits: an honest answer calls at most ``entities - least_survivors`` names dropped, and every honest mask
    key that opens takes ``threshold - colluders`` honest answers. So at most ``honest * (entities - least_survivors) //
    (threshold - colluders)`` of them open. All other honest names an entity masked with (at least ``least_present -
    colluders``, itself included) must be in the sum, or a mask stays on it. The proof is written out in
    docs/reference/secure_sum.md.

    With the whole roster present and ``threshold == least_survivors`` this is close to ``least_survivors - colluders``;
    with few survivors it can be zero, and then a dishonest server can reveal single messages.

    Examples
    --------
    >>> honest_in_any_sum(entities=205, threshold=185, least_survivors=185, least_present=205)
    183
    >>> honest_in_any_sum(entities=205, threshold=103, least_survivors=103, least_present=103)
    0
    """
    honest = entities - colluders
    opened = honest * (entities - least_survivors) // (threshold - colluders)
    return max(0, least_present - colluders - opened)


def least_floor(entities: int, colluders: int = 0) -> int | None:
    """Fewest survivors with which an honest entity is in every sum, if everybody shares keys and all survivors answer.

    With ``threshold == least_survivors`` and the whole roster present, the bound of `honest_in_any_sum` grows with the
    survivors, so every larger number will do as well.

    Returns
    -------
    int or None
        None if no number will do: there are fewer than ``colluders + 1`` entities.

    Examples
    --------
    >>> [least_floor(entities, 2) for entities in (2, 3, 5, 10, 205)]
    [None, 3, 4, 7, 104]
    """
    for floor in range(least_threshold(entities, colluders), entities + 1):
        numbers = {"threshold": floor, "least_survivors": floor, "least_present": entities, "colluders": colluders}
        if honest_in_any_sum(entities=entities, **numbers) >= 1:
            return floor
    return None
