"""How many answers, survivors and honest entities it takes: two formulas on public numbers."""

from __future__ import annotations

__all__ = ["honest_in_any_sum", "least_threshold"]


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
