"""What a promise rests on, in words: who draws the noise, who may be dishonest, what stays open to everyone.

Plain values in, sentences out. The card, `twofold plan explain` and the promise page say the same because they all ask
here.
"""

from __future__ import annotations

from typing import Final, Literal

__all__ = [
    "NOT_RECORDED",
    "TIMING",
    "Sharing",
    "composition",
    "deployment",
    "post_processing",
    "preprocessing",
    "trust_paragraph",
    "unprotected",
]

#: Who adds the noise: the entity alone, all entities together, or entities whose sum two operators open.
Sharing = Literal["plain", "peers", "operators"]
#: Said of a number that an older ledger does not hold.
NOT_RECORDED: Final = "not recorded"

TIMING: Final = (
    "not protected: someone who measures time or memory on the entity's machine during the draw may learn more. Others "
    "see only when a message arrives; its size is the plan's"
)


def trust_paragraph(
    *,
    sharing: Sharing = "plain",
    entities: int | None = None,
    honest: int | None = None,
    colluders: int | None = None,
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
        Entities, besides the colluders, whose shares of the noise the promise counts on.
    colluders : int, optional
        Participants that may work together with the server.
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
        return (
            "Each entity splits its message between two operators, each of whom sees numbers that look random. The "
            "promise holds as long as the two operators do not show each other what they received and at least one of "
            f"them follows the rules{_shares(honest)}. {_open(entities)} {_alone(alone)}"
        )
    return (
        "Each entity draws only its share of the noise and masks its message, so the promise is about the sum of the "
        f"messages. {_liars(colluders)}; any further participant may read all that it receives. At least "
        f"{_count(honest)} of the others must draw their share of the noise and keep it secret, and the masks must "
        f"hold (X25519, ChaCha20). {_open(entities)} {_alone(alone)}"
    )


def _liars(colluders: int | None) -> str:
    if colluders is None:
        return f"The server and as many participants as the plan allows (colluders: {NOT_RECORDED}) may break any rule"
    if colluders == 0:
        return "The server may break any rule, but no participant may work with it (colluders: 0)"
    who = f"up to {_some(colluders, 'participant')} working with it (colluders: {colluders:,})"
    return f"The server and {who} may break any rule"


def _some(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _count(count: int | None) -> str:
    return f"the plan's number ({NOT_RECORDED})" if count is None else f"{count:,}"


def _shares(honest: int | None) -> str:
    return "" if honest is None or honest <= 1 else f", and at least {honest:,} entities draw their share of the noise"


def _open(entities: int | None) -> str:
    names = "every name is an institution" if entities is None else f"{entities:,} names are {entities:,} institutions"
    return (
        "The names are those in the roster whose fingerprints people compared with each other. Cryptography cannot "
        f"check that {names}, or that the plan's writer has not invented participants: people must."
    )


def _alone(alone: str | None) -> str:
    if alone is None or alone == "infinite":
        return "If all others collude, nothing is promised about this message alone."
    return f"If all others collude, this message alone has the much larger ε = {alone}."


def deployment(sharing: Sharing) -> tuple[str, str]:
    """Name the deployment model, and say who adds the noise and whether the server is trusted.

    Examples
    --------
    >>> deployment("plain")[0], deployment("peers")[0]
    ('central at the entity', 'distributed by a secure sum')
    """
    if sharing == "plain":
        return (
            "central at the entity",
            "The entity that holds the records adds the noise; the server is not trusted and sees no raw record.",
        )
    sees = "sees only the sum" if sharing == "peers" else "is two operators, each of whom sees random numbers"
    return (
        "distributed by a secure sum",
        f"Every entity adds a share of the noise to its own message; the server is not trusted and {sees}.",
    )


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
        "the server combines all releases, allows for the known noise and factorizes them into shared item factors; "
        "each entity then fits its own model locally. Both cost nothing more"
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


def unprotected(sharing: Sharing) -> tuple[str, ...]:
    """List what the release shows without noise.

    Examples
    --------
    >>> unprotected("plain")[0]
    'that this entity takes part, under its name'
    """
    answered = () if sharing == "plain" else ("which entities answered in time and which dropped out",)
    return (
        "that this entity takes part, under its name",
        "who else takes part",
        *answered,
        "every number in the plan, also the promised number of people",
        "the size of the message, which the plan fixes",
        "when it was made and sent",
        "the public version of the data, and of the software",
    )
