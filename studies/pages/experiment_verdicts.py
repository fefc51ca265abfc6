"""Verdicts on pages: short in the index, complete beside the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from studies.paper.results import TINY
from studies.paper.verdicts import Verdict
from twofold.report.page import Block, Column, Facts, Folded, Points, Table

__all__ = ["how", "tally", "verdict_blocks", "verdict_parts", "verdict_table"]

HOW: Final = (
    "Every claim becomes a question that numbers can answer; each verdict states the question.",
    f"One number is lower than another only if the difference exceeds {100 * TINY:g}% and chance. Chance is tested "
    "by Student's 95% interval of the differences, which must not contain 0: over three or more seeds on the same "
    "data, otherwise over the entities, otherwise over two seeds. One seed without entities has no such test.",
    "A claim about order cannot be told if some point is too close.",
    "For words like comparable (10%) and the same (2%), the limit is our choice and the same for all claims. The "
    "verdict states the limit at which it would change.",
    "The private lines are sound mechanisms with frozen item factors, as in Algorithm 2, unless they are called as "
    "published or recorded procedure.",
)
_QUICK: Final = "The quick size has less data than the paper and smaller tables; its verdicts apply to that size."
ORDER: Final = ("holds", "does not hold", "cannot be told")


def how(size: str) -> tuple[str, ...]:
    """How verdicts are found, in sentences.

    Examples
    --------
    >>> how("quick") == how("paper")
    False
    """
    return (*HOW, _QUICK) if size == "quick" else HOW


def tally(verdicts: Sequence[Verdict]) -> str:
    """Number of claims that hold.

    Examples
    --------
    >>> tally(())
    'nothing was asked.'
    """
    counts = {word: sum(verdict.holds == word for verdict in verdicts) for word in ORDER}
    parts = [f"{count} {_verb(word, count)}" for word, count in counts.items() if count]
    return ", ".join(parts) + "." if parts else "nothing was asked."


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Every claim in a line: verdict, what was recorded, what we find.

    Parameters
    ----------
    verdicts : sequence of Verdict
        In the order of the table.
    """
    names = ("claim", "verdict", "recorded", "ours")
    rows = tuple(
        (f"{one.claim.words} ({one.claim.place})", one.holds, one.claim.recorded, one.judgement.ours)
        for one in verdicts
    )
    return Table(
        caption="What is claimed, and what we find",
        columns=tuple(Column(name, numeric=False) for name in names),
        rows=rows,
        exact=tuple(tuple(one.record().values()) for one in verdicts),
        exact_columns=tuple(verdicts[0].record()) if verdicts else (),
    )


def verdict_blocks(verdicts: Sequence[Verdict], *, size: str) -> tuple[Block, ...]:
    """Every claim by itself, with the question asked and the reason.

    Parameters
    ----------
    verdicts : sequence of Verdict
        In the order of the page.
    size : str
        Of the run.
    """
    blocks = tuple(
        Facts(caption=f"{one.holds.capitalize()}: {one.claim.words}", rows=tuple(verdict_parts(one)))
        for one in verdicts
    )
    return (
        *blocks,
        Folded("As a table", verdict_table(verdicts)),
        Folded("How verdicts are found", Points(how(size))),
    )


def _verb(word: str, count: int) -> str:
    if count == 1:
        return word
    return {"holds": "hold", "does not hold": "do not hold"}.get(word, word)


def verdict_parts(one: Verdict) -> list[tuple[str, str]]:
    """The named parts of a verdict, except the claim and the answer.

    Parameters
    ----------
    one : Verdict
        Of a claim.
    """
    return [
        ("where", one.claim.place),
        ("recorded", one.claim.recorded),
        ("ours", one.judgement.ours),
        ("asked as", one.judgement.rule),
        ("why", one.judgement.why),
    ]
