"""What a promise rests on, in words: who draws the noise, who may be dishonest, what stays open to everyone.

Plain values in, sentences out. The card, `twofold plan explain` and the promise page say the same because they all ask
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from twofold.privacy.event_words import operator_sum, own_shares
from twofold.privacy.events import Event
from twofold.privacy.unit import Unit

__all__ = [
    "NOT_RECORDED",
    "TIMING",
    "Operated",
    "Sharing",
    "against",
    "against_operators",
    "composition",
    "deployment",
    "needed",
    "not_promised",
    "post_processing",
    "preprocessing",
    "protects",
    "randomness",
    "site_assumptions",
    "trust_paragraph",
    "unprotected",
]

#: Who adds the noise: the entity alone, all entities together, or entities whose sum two operators open.
Sharing = Literal["plain", "peers", "operators"]
#: Said of a number that an older ledger does not hold.
NOT_RECORDED: Final = "not recorded"

TIMING: Final = (
    "not protected: someone who measures time or memory on the entity's machine during the draw may learn more. Others "
    "see only when a message arrives"
)


def trust_paragraph(
    *,
    sharing: Sharing = "plain",
    entities: int | None = None,
    honest: int | None = None,
    colluders: int | None = None,
    epsilon: str | None = None,
    alone: str | None = None,
) -> str:
    """Say in one paragraph what the promise rests on.

    Parameters
    ----------
    sharing : {"plain", "peers", "operators"}
        A message with all its noise, the peers' secure sum, or the sum of two operators.
    entities : int, optional
        Names in the roster.
    honest : int, optional
        Entities whose shares of the noise the promise counts on, this one among them.
    colluders : int, optional
        Participants that may work together with the server.
    epsilon : str, optional
        The ε of the sum, as it is printed.
    alone : str, optional
        The ε of one message if all others collude, as it is printed; "infinite" if nothing is proved of it.

    Examples
    --------
    >>> trust_paragraph()[:68]
    'The entity draws all of the noise itself, before anything leaves. So'
    >>> said = trust_paragraph(sharing="peers", entities=20, honest=17, colluders=1, alone="9.1")
    >>> said.split(". ")[1].partition(";")[0]
    'The server and up to 1 participant working with it (colluders: 1) may break any rule'
    """
    if sharing == "plain":
        return (
            "The entity draws all of the noise itself, before anything leaves. So the promise asks nothing of others: "
            "the server, the other participants and strangers may be dishonest, alone or together. It rests on the "
            "entity's own computer, its operating system's randomness and this software. Signatures add integrity, "
            "not privacy: a reader can tell whose message it is, and that nobody changed it."
        )
    if sharing == "operators":
        return Operated().paragraph(entities=entities, honest=honest, colluders=colluders, epsilon=epsilon, alone=alone)
    return (
        "Each entity draws only its share of the noise and masks its message, so the promise is about the sum of the "
        f"messages. {_liars(colluders)}; any further participant may read all that it receives. The "
        f"noise is enough if {_drawn(honest)}. The masks must hold (X25519, HKDF, ChaCha20, Poly1305). "
        f"{_open(entities)} {_alone(alone, epsilon)}"
    )


@dataclass(frozen=True, kw_only=True)
class Operated:
    """Two operators of a sum, for sentences about them.

    Parameters
    ----------
    noise : {"operators", "entities", "both"}
        Who adds noise.
    operators : sequence of str
        Their names, with fingerprints where they are known.
    floor : int, optional
        Fewest entities in a sum.
    writer : str, optional
        Name of the plan's writer, if it is one of the operators.
    people : bool
        Whether every entity is one person.

    Examples
    --------
    >>> Operated(operators=("uni", "clinic")).deployment[1].partition(". ")[0]
    'Two operators (uni; clinic) each add a whole noise to the sum; the entity adds none'
    """

    noise: str = "operators"
    operators: tuple[str, ...] = ()
    floor: int | None = None
    writer: str | None = None
    people: bool = False

    @classmethod
    def of(cls, about: Mapping[str, Any], events: Sequence[Event]) -> Operated:
        """Read it from what a ledger keeps; who adds noise is the event's word."""
        added = "entities" if operator_sum(events) is None else "both" if own_shares(events) else "operators"
        kept = about.get("operators")
        named = kept.items() if isinstance(kept, Mapping) else ((one, "") for one in kept or ())
        names = tuple(f"{name}, fingerprint {words}" if words else str(name) for name, words in named)
        floor, writer = about.get("floor"), about.get("writer")
        return cls(
            noise=added,
            operators=names,
            floor=floor if type(floor) is int else None,
            writer=writer if isinstance(writer, str) and isinstance(kept, Mapping | list) and writer in kept else None,
            people=bool(about.get("people")),
        )

    @property
    def named(self) -> str:
        """Two operators, by name where they are known."""
        return f"Two operators ({'; '.join(self.operators)})" if self.operators else "Two operators"

    @property
    def deployment(self) -> tuple[str, str]:
        """Name the deployment model, and say who adds the noise and who is trusted with what."""
        added = {
            "operators": "each add a whole noise to the sum; the entity adds none",
            "both": "each add a whole noise to the sum, and every entity its share of one more",
            "entities": "add no noise; every entity adds its share",
        }[self.noise]
        return "distributed over two operators", f"{self.named} {added}. One must be honest."

    @property
    def broken(self) -> str:
        """Say what is open if both work together."""
        if self.noise == "operators":
            return "If both work together, or one administrator reaches both, your exact sums are open to them."
        return "If both work together, or one administrator reaches both, only your share of the noise hides your sums."

    def paragraph(
        self,
        *,
        entities: int | None = None,
        honest: int | None = None,
        colluders: int | None = None,
        epsilon: str | None = None,
        alone: str | None = None,
    ) -> str:
        """Say in one paragraph what the promise rests on; see `trust_paragraph`."""
        least = "as many entities as the plan's floor" if self.floor is None else f"{self.floor:,} entities"
        own = {
            "operators": "The entity adds no noise: each operator adds a whole one to the sum of its shares, and the "
            "price counts one of the two.",
            "both": "Each operator adds a whole noise to the sum of its shares, and the price counts one of the two. "
            "The entity adds its share of one more.",
            "entities": "The operators add no noise; each entity adds its share.",
        }[self.noise]
        if self.noise == "entities":
            few = "as many participants as the plan allows"
            if colluders is not None:
                few = f"up to {_some(colluders, 'participant')} (colluders: {colluders:,})"
            whom = f"The other one and {few} may break any rule. The noise is enough if {_drawn(honest)}."
            left = f"If both operators, or one and all other entities, work together: {_left(alone, epsilon)}."
        else:
            whom = "The other one and any number of entities may break any rule."
            left = self.broken
            if alone not in (None, "infinite"):
                left += f" Then {_left(alone, epsilon)}."
        noisy = "" if self.noise == "entities" else ", with its noise"
        return (
            f"{self.named} each get one share of every message; a share alone looks random. {own} The promise holds if "
            "one of them is honest: it shows nobody what it received, and publishes one sum, of at least "
            f"{least}{noisy}. {whom} {left} The boxes must hold (X25519, HKDF, AES-GCM, ChaCha20). "
            f"{self._names(entities)}"
        )

    def _names(self, entities: int | None) -> str:
        checked = (
            "The operators are those whose fingerprints people compared with each other. Cryptography cannot check "
            "that they are two institutions, or that the plan's writer has not invented participants: people must."
            if self.noise == "operators"
            else _open(entities)
        )
        if self.writer is None:
            learns = "reads everything" if self.noise == "operators" else "learns what both together learn"
            return f"{checked} A plan writer who owns both operators {learns}."
        return (
            f"{checked} {self.writer} wrote the plan and is one of its operators, which must not be: a plan writer who "
            "owns both reads everything. Make sure that the other operator is independent of it."
        )


def _left(alone: str | None, epsilon: str | None) -> str:
    if alone is None or alone == "infinite":
        return "nothing is promised about this message alone"
    return f"this message alone has ε = {alone}" + ("" if epsilon in (None, alone) else f" instead of {epsilon}")


def _liars(colluders: int | None) -> str:
    if colluders is None:
        return f"The server and as many participants as the plan allows (colluders: {NOT_RECORDED}) may break any rule"
    if colluders == 0:
        return "The server may break any rule, but no participant may work with it (colluders: 0)"
    who = f"up to {_some(colluders, 'participant')} working with it (colluders: {colluders:,})"
    return f"The server and {who} may break any rule"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def needed(honest: int) -> str:
    """Say how many entities must add their noise; the number counts this entity.

    Examples
    --------
    >>> needed(2), needed(1)
    ('at least 2 entities, this one and 1 more', 'this one alone suffices')
    """
    return (
        "this one alone suffices" if honest == 1 else f"at least {honest:,} entities, this one and {honest - 1:,} more"
    )


def _drawn(honest: int | None) -> str:
    if honest == 1:
        return f"this entity draws its share and keeps it secret: {needed(1)}"
    who = f"as many entities as the plan says ({NOT_RECORDED})" if honest is None else f"{needed(honest)},"
    return f"{who} draw their share and keep it secret"


def _open(entities: int | None) -> str:
    names = "every name is an institution" if entities is None else f"{entities:,} names are {entities:,} institutions"
    return (
        "The names are those in the roster whose fingerprints people compared with each other. Cryptography cannot "
        f"check that {names}, or that the plan's writer has not invented participants: people must."
    )


def _alone(alone: str | None, epsilon: str | None) -> str:
    if alone is None or alone == "infinite":
        return "If all others collude, nothing is promised about this message alone."
    if alone == epsilon:
        return f"If all others collude, this message alone still has ε = {alone}."
    instead = "" if epsilon is None else f" instead of {epsilon}"
    return f"If all others collude, this message alone has ε = {alone}{instead}."


def against(parties: int = 1, colluders: int | None = None, alone: str | None = None) -> str:
    """Say against whom the guarantee holds, and in a secure sum under which condition.

    Parameters
    ----------
    parties : int
        Entities that must add their noise, this one among them; 1 without a secure sum.
    colluders : int, optional
        Participants that may work together with the server; None if it is not recorded.
    alone : str, optional
        The ε that remains if the masks are broken, as it is printed.

    Privacy
    -------
    Noise withstands any computation. The masks of a secure sum are ciphers: they withstand those that are feasible.

    Examples
    --------
    >>> against().rpartition(", ")[2]
    'no matter what else they know or how long they compute'
    >>> against(2, 1, "1.46").rpartition(", ")[2]
    'ε = 1.46 remains'
    """
    everyone = (
        "the server, every other participant, and anyone who ever sees the release, no matter what else they know"
    )
    if parties == 1:
        return f"{everyone} or how long they compute"
    few = ""
    if colluders is not None:
        few = f"at most {colluders:,} {'works' if colluders == 1 else 'work'} with the server and "
    rest = "nothing is promised" if alone is None or alone == "infinite" else f"ε = {alone} remains"
    return (
        f"{everyone}, as long as {few}{needed(parties)}, draw their share of the noise and keep it secret. The noise "
        "withstands unlimited computing; the masks do not: if X25519 or ChaCha20 is broken, now or later on recorded "
        f"messages, {rest}"
    )


def against_operators(parties: int = 1, colluders: int | None = None, alone: str | None = None) -> str:
    """Say against whom the guarantee of a sum with two operators holds; arguments as for `against`.

    Examples
    --------
    >>> against_operators().partition(",")[0]
    'one of the two operators'
    """
    entities = "every other participant and anyone who ever sees the release"
    noise = "is honest"
    if parties > 1:
        few = "few" if colluders is None else f"at most {colluders:,}"
        noise += f", {few} of the participants work with the first and {needed(parties)}, draw their share of the noise"
    rest = "nothing is promised" if alone is None or alone == "infinite" else f"ε = {alone} remains"
    return (
        f"one of the two operators, {entities}, also together and no matter what else they know, as long as the other "
        f"operator {noise}. The noise withstands unlimited computing; the boxes do not: if X25519, AES or ChaCha20 is "
        f"broken, now or later on recorded messages, {rest}"
    )


def protects(unit: Unit) -> str:
    """Say whom a release protects.

    Examples
    --------
    >>> protects(Unit.person()).partition(";")[0]
    'each person, with everything recorded about them here, under one id'
    >>> protects(Unit.person(entities=3)).partition("; ")[2]
    'the plan assumes nobody is in more than 3 of the participating entities'
    """
    if unit.holder == "visit":
        return "each single visit" + ("" if unit.entities == 1 else f", {_up_to(unit.entities)}")
    where = "1 entity" if unit.entities == 1 else f"{unit.entities} of the participating entities"
    found = "" if unit.entities == 1 else f", {_up_to(unit.entities)}"
    return (
        f"each person, with everything recorded about them here, under one id{found}; the plan assumes nobody is in "
        f"more than {where}"
    )


def _up_to(entities: int) -> str:
    return f"in up to {entities} of the participating entities"


def site_assumptions(sharing: str) -> str:
    """Say what the entity itself must see to, and in a secure sum the others, too; the promise page has the reasons.

    Examples
    --------
    >>> site_assumptions("plain").partition(";")[0]
    'one ledger, never set back'
    """
    keys = "secret keys stay with the institutions they name"
    here = f"one ledger, never set back; unchanged software; one id per person; {keys}"
    more = "" if sharing == "plain" else " and serve one plan; no intruder at the others whose noise counts"
    if sharing == "operators":
        more = "; two operators that no one person administers, and no intruder at both"
    return f"{here}{more} (docs: The promise)"


def not_promised(
    unit: Unit,
    *,
    seeded: bool,
    parties: int = 1,
    alone: bool = False,
    about: Mapping[str, Any],
    operators: bool = False,
) -> Sequence[str]:
    """List what the guarantee does not cover; `alone` if a single share of the noise has its own price.

    With `operators` the message is in shares of two of them.

    Examples
    --------
    >>> not_promised(Unit.visit(), seeded=False, about={})[0]
    'A person with several visits is protected less: v visits cost v times the ε, and more where there is a δ.'
    """
    lines = []
    if seeded:
        lines.append("NOTHING is promised: the noise comes from a seed, and anyone who knows the seed can remove it.")
    if operators:
        what = "More than the ε of this message alone" if alone else "Anything"
        lines.append(f"{what} if both operators work together, or one administrator reaches both.")
        lines.append("That an honest sum is a true one: an entity or an operator can add any numbers to it.")
    if parties > 1:
        what = "More about this message alone than its own ε above" if alone else "Anything about this message alone"
        lines.append(f"{what}: it carries only one share of the noise, which is complete with {parties} shares.")
    if unit.holder == "visit":
        lines.append(
            "A person with several visits is protected less: v visits cost v times the ε, and more where there is a δ."
        )
    return [
        *lines,
        "That nothing can be learned about groups: the release is meant to show what is true of many people.",
        "Protection from those who hold the raw records: staff, administrators, or an intruder there.",
        f"Anything about a {unit.holder} found in more than {_times(unit.entities)}, or in data outside this ledger.",
        "That later releases are free: each adds to the total above.",
        "Equal accuracy for all: noise hides rare items and small groups first.",
        *(str(line) for line in about.get("not_promised", ())),
    ]


def _times(entities: int) -> str:
    return "one participating entity" if entities == 1 else f"{entities} participating entities"


def deployment(sharing: Sharing) -> tuple[str, str]:
    """Name the deployment model, and say who adds the noise and whether the server is trusted.

    Examples
    --------
    >>> deployment("plain")[0], deployment("peers")[0]
    ('central at the entity', 'distributed by a secure sum')
    """
    if sharing == "operators":
        return Operated().deployment
    if sharing == "plain":
        return (
            "central at the entity",
            "The entity that holds the records adds the noise; the server is not trusted and sees no raw record.",
        )
    return (
        "distributed by a secure sum",
        "Every entity adds a share of the noise to its own message; the server is not trusted and sees only the sum.",
    )


def randomness(events: Sequence[Event], *, seeded: bool) -> str:
    """Say where the random numbers come from.

    Examples
    --------
    >>> randomness([], seeded=False)
    'the operating system, not repeatable'
    """
    if seeded:
        return "a seed: repeatable, NOT private"
    here = "the operating system, not repeatable"
    if operator_sum(events) is None:
        return here
    added = "the operators draw their noise on their own machines, which nobody else can check"
    return f"{here}, for the shares{' and the noise' if own_shares(events) else ''} made here; {added}"


def composition(*, rho: bool, events: int, releases: int) -> str:
    """Say how the costs inside a release and of several releases add up.

    Examples
    --------
    >>> composition(rho=False, events=1, releases=1)
    'one event in this release; releases add up (sequential composition of ε and δ), 1 so far'
    """
    how = "one event in this release" if events == 1 else f"{events:,} events in this release, composed"
    if rho:
        how += ", accounted as ρ of zero-concentrated differential privacy and converted to (ε, δ)"
    elif events > 1:
        how += " by adding their ε, or taking the largest over disjoint people"
    return f"{how}; releases add up (sequential composition of ε and δ), {releases:,} so far"


def post_processing() -> str:
    """Say what happens to a release afterwards, at no further cost.

    Examples
    --------
    >>> post_processing().count("nothing")
    1
    """
    return (
        "the server, or the operators, combine all releases, allow for the known noise and factorize them into shared "
        "item factors; each entity then fits its own model locally. Both cost nothing more"
    )


def preprocessing(*, holder: str, bound: float | None, max_items: int | None) -> str:
    """Say what was done to the records before the noise.

    Examples
    --------
    >>> preprocessing(holder="person", bound=5, max_items=60)
    'at most 60 items are kept of a person, each value is cut to at most 5; limits come from the plan'
    """
    if bound is None or max_items is None:
        return f"what a {holder} can contribute is cut to the plan's limits, which this ledger does not repeat"
    items = "1 item is" if max_items == 1 else f"{max_items:,} items are"
    return f"at most {items} kept of a {holder}, each value is cut to at most {bound:g}; limits come from the plan"


def unprotected(sharing: Sharing, *, people: bool = False) -> tuple[str, ...]:
    """List what the release shows without noise; with `people` every entity is one person.

    Examples
    --------
    >>> unprotected("plain")[0]
    'that this entity takes part, under its name'
    """
    answered = {
        "plain": (),
        "peers": ("which entities answered in time and which dropped out",),
        "operators": ("which entities are in the sum, and which reports the operators left out",),
    }[sharing]
    takes_part = "that this entity takes part, under its name"
    if people:
        takes_part = (
            "that this person takes part: a report under a key that serves once, and where it came from. ε hides what "
            "was sent, against a report of zeros, and not that one was sent"
        )
    return (
        takes_part,
        "who else takes part",
        *answered,
        "every number in the plan, also the promised number of people",
        "the size of the message, which follows from the plan and a public header",
        "when it was made and sent",
        "the public version of the data, and of the software",
    )
