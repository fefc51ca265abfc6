r"""The public terms of one secure sum: who takes part, how many are needed for what, and what follows from it.

The roster of a plan: one name, two public keys, nothing twice.

How many answers, survivors and honest entities it takes: two formulas on public numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from twofold.errors import BadMessage, BadPlan, PlanMismatch, TooFewMessages
from twofold.secure_sum.derive import digest
from twofold.secure_sum.keys import Keys, PublicKeys, name_of

__all__ = ["Terms", "check_roster", "honest_in_any_sum", "least_threshold"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Everything public that one secure sum depends on; its digest goes into every key.

    Parameters
    ----------
    context : bytes
        What the sum is for: the hash of the plan. Not empty.
    roster : mapping of str to PublicKeys
        The enrolled entities. It is agreed with the plan, so a server cannot put keys of its own into it.
    threshold : int
        Answers needed to unmask; at least `least_threshold`.
    floor : int
        Least number of survivors in a sum.
    least_present : int
        Least number of entities that have shared their secrets before anyone masks. The whole roster is the best choice
        for privacy (see `honest_in_any_sum`); a smaller number lets the sum go on without those who never came.
    colluders : int
        How many entities may work together with the server.
    bits : int
        The sum is taken modulo 2^bits: 16, 24, ... 64.

    Examples
    --------
    >>> roster = {name: Keys.new().public for name in ("anna", "bert", "carl")}
    >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=3, bits=32)
    >>> terms.names, terms.limit, terms.honest
    (('anna', 'bert', 'carl'), 715827882, 2)
    """

    context: bytes = field(repr=False)
    roster: Mapping[str, PublicKeys] = field(repr=False)
    threshold: int
    floor: int
    least_present: int
    colluders: int = 0
    bits: int = 48

    def __post_init__(self) -> None:
        if not isinstance(self.context, bytes) or not self.context:
            raise BadPlan("a secure sum needs a context.", expected="the hash of the plan, as bytes")
        check_roster(self.roster)
        object.__setattr__(self, "roster", dict(sorted(self.roster.items())))
        _check_numbers(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Everyone enrolled, in order."""
        return tuple(self.roster)

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where each name stands, from 1: the point at which it holds its shares."""
        return {name: place for place, name in enumerate(self.roster, start=1)}

    @property
    def limit(self) -> int:
        """Largest magnitude of one entity's number, so that no sum can wrap around."""
        return ((1 << (self.bits - 1)) - 1) // len(self.roster)

    @property
    def honest(self) -> int:
        """How many honest entities are in any sum a lying server can open (`honest_in_any_sum`)."""
        return honest_in_any_sum(
            entities=len(self.roster),
            threshold=self.threshold,
            floor=self.floor,
            least_present=self.least_present,
            colluders=self.colluders,
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of all terms."""
        numbers = (self.threshold, self.floor, self.least_present, self.colluders, self.bits)
        parts = [part for name, keys in self.roster.items() for part in (name.encode(), keys.mask, keys.seal)]
        return digest("terms", self.context, *(number.to_bytes(8, "little") for number in numbers), *parts)

    def own(self, keys: Keys, name: str) -> None:
        """Refuse keys that are not the ones enrolled under this name.

        Examples
        --------
        >>> keys = {name: Keys.new() for name in ("anna", "bert")}
        >>> roster = {name: pair.public for name, pair in keys.items()}
        >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=2)
        >>> terms.own(keys["anna"], "anna")
        """
        self.known(name)
        if self.roster[name] != keys.public:
            raise PlanMismatch(
                "the keys are not the ones the plan lists under this name.",
                found=f"name {name!r}, whose public keys differ",
                expected="the keys this entity enrolled with",
                fix="use the right key file, or ask for a plan with the right roster",
            )

    def known(self, name: str) -> None:
        """Refuse a name that is not enrolled."""
        if name not in self.roster:
            raise PlanMismatch("this name is not enrolled in the plan.", found=f"name {name!r:.60}")

    def check_present(self, present: Sequence[str]) -> None:
        """Refuse a list of who shared that is out of order, names strangers or is too short.

        Examples
        --------
        >>> roster = {name: Keys.new().public for name in ("anna", "bert", "carl")}
        >>> terms = Terms(context=b"plan", roster=roster, threshold=2, floor=2, least_present=3)
        >>> terms.check_present(["anna", "bert", "carl"])
        """
        _check_list(present, self.roster, what="entities that shared", within="the roster")
        if len(present) < self.least_present:
            raise TooFewMessages(
                "too few entities shared their secrets; nothing is masked.",
                found=str(len(present)),
                expected=f"at least {self.least_present}",
            )

    def check_survivors(self, present: Sequence[str], survivors: Sequence[str]) -> None:
        """Refuse a list of survivors that is out of order, not within `present` or below the floor."""
        self.check_present(present)
        _check_list(survivors, set(present), what="survivors", within="those who shared")
        if len(survivors) < self.floor:
            raise TooFewMessages(
                "too few entities survived; nothing is unmasked.",
                found=str(len(survivors)),
                expected=f"at least {self.floor}",
                fix="wait for more entities, or start again with a new plan and new keys",
            )

    def present_digest(self, present: Sequence[str]) -> bytes:
        """Digest of the terms and of who shared; masks are bound to it."""
        return digest("present", self.digest, *(name.encode() for name in present))

    def lists_digest(self, present: Sequence[str], survivors: Sequence[str]) -> bytes:
        """Digest of the terms and of both lists; answers are bound to it."""
        return digest("survivors", self.present_digest(present), *(name.encode() for name in survivors))


def _check_numbers(terms: Terms) -> None:
    numbers = (terms.threshold, terms.floor, terms.least_present, terms.colluders, terms.bits)
    if any(type(number) is not int for number in numbers):
        raise BadPlan("the numbers of a secure sum are whole.", expected="whole numbers")
    entities = len(terms.roster)
    if not 0 <= terms.colluders <= entities - 2:
        raise BadPlan("colluders is out of range.", found=str(terms.colluders), expected=f"0 to {entities - 2}")
    least = least_threshold(entities, terms.colluders)
    if not least <= terms.threshold <= terms.floor <= terms.least_present <= entities:
        raise BadPlan(
            "the numbers of a secure sum do not fit together.",
            found=f"threshold {terms.threshold}, floor {terms.floor}, least_present {terms.least_present}",
            expected=f"{least} <= threshold <= floor <= least_present <= {entities}",
        )
    if terms.bits not in range(16, 65, 8):
        raise BadPlan("bits is out of range.", found=str(terms.bits), expected="16, 24, 32, 40, 48, 56 or 64")
    if terms.limit < 1:
        raise BadPlan("so many entities do not fit into so few bits.", found=f"bits {terms.bits}", fix="more bits")


def _check_list(names: Sequence[str], allowed: Mapping[str, object] | set[str], *, what: str, within: str) -> None:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise BadMessage(f"the list of {what} holds something else than names.", expected="a list of names")
    if list(names) != sorted(set(names)):
        raise BadMessage(f"the list of {what} is out of order or repeats a name.", expected="each name once, sorted")
    strangers = [name for name in names if name not in allowed]
    if strangers:
        raise BadMessage(f"the list of {what} names a stranger.", found=f"{strangers[0]!r:.60}", expected=within)


def check_roster(roster: Mapping[str, PublicKeys]) -> None:
    """Refuse a roster with a bad name, something else than keys, or a key that occurs twice.

    Examples
    --------
    >>> from twofold.secure_sum.keys import Keys
    >>> check_roster({name: Keys.new().public for name in ("anna", "bert")})
    """
    if not isinstance(roster, Mapping) or len(roster) < 2:
        raise BadPlan("a secure sum needs at least two entities.", expected="a table from names to public keys")
    for name in roster:
        name_of(name)
    if not all(isinstance(keys, PublicKeys) for keys in roster.values()):
        raise BadPlan("the roster holds something else than public keys.", expected="PublicKeys under every name")
    repeated = [key for key, times in Counter(_all_keys(roster)).items() if times > 1]
    if repeated:
        owners = sorted(name for name, keys in roster.items() if {keys.mask, keys.seal} & set(repeated))
        raise BadPlan(
            "a public key occurs twice in the roster.",
            found="in the entries of " + ", ".join(owners),
            expected="keys of its own for every entity",
            fix="let them enrol again with new keys",
        )


def _all_keys(roster: Mapping[str, PublicKeys]) -> list[bytes]:
    return [key for keys in roster.values() for key in (keys.mask, keys.seal)]


def least_threshold(entities: int, colluders: int = 0) -> int:
    """The least number of shares that may open a secret: above half of entities and colluders together.

    Privacy
    -------
    To strip one honest entity's message bare the server needs its mask key *and* its self-mask seed, each from
    `threshold` shares. Colluders give both shares. An honest entity answers one list and so gives one of the two. With
    h honest entities and c colluders the server gets at most h + 2c = n + c shares of the two together, and needs
    2 threshold. So 2 threshold > n + c closes this road. For a third of all colluding it is ⌊2n/3⌋ + 1, as in the
    analysis of active servers by Bonawitz et al. 2017.

    Examples
    --------
    >>> least_threshold(205), least_threshold(205, colluders=10), least_threshold(4)
    (103, 108, 3)
    """
    return (entities + colluders) // 2 + 1


def honest_in_any_sum(*, entities: int, threshold: int, floor: int, least_present: int, colluders: int = 0) -> int:
    """How many honest entities' numbers are in any sum that a server can lay open, even one that lies about the lists.

    A share of the noise must be large enough for this many.

    Privacy
    -------
    A server that tells the truth opens sums of at least ``floor - colluders`` honest entities. A lying one may show
    each entity another list of survivors, each above the floor, and so open more mask keys than one list would. It
    cannot go far: an honest answer calls at most ``entities - floor`` names dropped, and every honest mask key that
    opens takes ``threshold - colluders`` honest answers. So at most ``honest * (entities - floor) // (threshold -
    colluders)`` of them open. All other honest names an entity masked with (at least ``least_present - colluders``,
    itself included) must be in the sum, or a mask stays on it. The proof is written out in
    docs/reference/secure_sum.md.

    With the whole roster present and ``threshold == floor`` this is close to ``floor - colluders``; with a low floor it
    can be nothing, and then a lying server can lay single messages open.

    Examples
    --------
    >>> honest_in_any_sum(entities=205, threshold=185, floor=185, least_present=205)
    183
    >>> honest_in_any_sum(entities=205, threshold=103, floor=103, least_present=103)
    0
    """
    honest = entities - colluders
    opened = honest * (entities - floor) // (threshold - colluders)
    return max(0, least_present - colluders - opened)
