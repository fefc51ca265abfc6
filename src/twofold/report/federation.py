"""The content of a federation's report: numbers, comparisons entity by entity, and their meaning in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from twofold.errors import BadParameter, BadShape
from twofold.federation.plan import Plan
from twofold.privacy.card import brief, rounded_up
from twofold.privacy.ledger import cost_of
from twofold.report.page import number

__all__ = [
    "BASE",
    "PRIVATE",
    "Difference",
    "EntityLine",
    "Example",
    "FederationRun",
    "Group",
    "Nouns",
    "System",
    "Verdict",
    "budget_words",
    "capital",
    "coalition_words",
    "difference",
    "guesser",
    "headline",
    "kept_of_the_gain",
    "mean_and_spread",
    "size_groups",
    "verdict",
]

#: Keys of the two systems that the verdict compares.
BASE: Final = "alone"
PRIVATE: Final = "private"


@dataclass(frozen=True, kw_only=True)
class Nouns:
    """The page's words for entities, their users and the items."""

    entity: str = "entity"
    entities: str = "entities"
    user: str = "user"
    users: str = "users"
    items: str = "items"


@dataclass(frozen=True, kw_only=True)
class System:
    """One way to recommend, measured at every entity on the same held-out entries.

    Parameters
    ----------
    key, name : str
        A short key ("alone", "private", ...) and the name on the page.
    about : str
        What it is, in a sentence.
    leaves : str
        What leaves an entity for it.
    ndcg, mean_rank : tuple of float
        One number per entity, in the order of the entities; NaN where nothing was held out.
    """

    key: str
    name: str
    about: str
    leaves: str
    ndcg: tuple[float, ...]
    mean_rank: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class EntityLine:
    """The facts about one entity.

    Parameters
    ----------
    name : str
        Its public name.
    users : int
        Number of users; private in practice.
    numbers, bytes : int
        What left it in round 1.
    spent : str
        Amount spent, according to its ledger.
    noise, signal : float
        Standard deviation of the noise on one released sum, and root mean square of the sums beneath it as far as the
        message tells.
    model : str
        Kind of the chosen local model.
    strength : str
        Pull of the shared factors, in words.
    gain : float
        What the shared factors added to nDCG@10 in the entity's own validation.
    """

    name: str
    users: int
    numbers: int
    bytes: int
    spent: str
    noise: float
    signal: float
    model: str
    strength: str
    gain: float


@dataclass(frozen=True, kw_only=True)
class Example:
    """One person's recommendations and why; the person is simulated, or the page must stay inside."""

    entity: str
    user: str
    history: tuple[tuple[str, float], ...]
    recommended: tuple[tuple[str, float], ...]
    reasons: tuple[tuple[str, float], ...]
    held_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FederationRun:
    """A federation that was run in one process, with its results.

    Parameters
    ----------
    plan : Plan
        What was agreed.
    private : bool
        Whether everything that left had real noise from a mechanism with a proof.
    entities : tuple of EntityLine
        In the order of the numbers of each system.
    systems : tuple of System
        In the order of the page; one has the key "alone", one "private".
    received : int
        Bytes that every entity got back in round 2.
    together : (float, float), optional
        Noise and signal of one released sum when all messages are added up, for mechanisms that add them up.
    choice : str
        Why this mechanism, in words and public numbers.
    timings : tuple of (str, float)
        Steps and their seconds.
    example : Example, optional
        One recommendation.
    held_out : str
        How the entries to predict were chosen, in a sentence.
    remarks : tuple of str
        Further remarks for the reader.
    """

    plan: Plan
    private: bool
    entities: tuple[EntityLine, ...]
    systems: tuple[System, ...]
    received: int
    together: tuple[float, float] | None = None
    choice: str = ""
    timings: tuple[tuple[str, float], ...] = ()
    example: Example | None = None
    held_out: str = ""
    remarks: tuple[str, ...] = ()
    nouns: Nouns = field(default_factory=Nouns)

    def __post_init__(self) -> None:
        keys = [system.key for system in self.systems]
        if len(set(keys)) < len(keys) or not {BASE, PRIVATE} <= set(keys):
            raise BadParameter(
                "a report needs exactly one system alone and one private.",
                parameter="systems",
                found=", ".join(keys),
                expected="alone and private, once",
            )
        for system in self.systems:
            if {len(system.ndcg), len(system.mean_rank)} != {len(self.entities)}:
                raise BadShape("a system was not measured at every entity.", parameter="systems", found=system.key)

    def system(self, key: str) -> System:
        """Find a system by its key."""
        return next(system for system in self.systems if system.key == key)

    def gain(self, members: Sequence[int] | None = None, *, key: str = PRIVATE) -> Difference:
        """Compare the nDCG of a system with that of staying alone, at all entities by default."""
        chosen = self.everyone if members is None else members
        return difference(self.system(key).ndcg, self.system(BASE).ndcg, chosen)

    @property
    def everyone(self) -> tuple[int, ...]:
        """The positions of all entities."""
        return tuple(range(len(self.entities)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Users of every entity."""
        return tuple(entity.users for entity in self.entities)


Floats = npt.NDArray[np.float64]
Verdict = Literal["better", "no different", "worse", "unknown"]

_NAMES: Final = {
    1: ("all",),
    2: ("smaller half", "larger half"),
    3: ("smallest third", "middle third", "largest third"),
    4: ("smallest quarter", "second quarter", "third quarter", "largest quarter"),
}


@dataclass(frozen=True, kw_only=True)
class Group:
    """Entities of similar size: a name, a shorter one for a column, and their positions."""

    name: str
    short: str
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One system less another, entity by entity; a positive mean is good.

    Attributes
    ----------
    mean, error : float
        Mean over entities and its standard error; NaN when too few can be compared.
    better, worse, entities : int
        Number of entities at which it is better or worse, and number compared.
    """

    mean: float
    error: float
    better: int
    worse: int
    entities: int

    @property
    def verdict(self) -> Verdict:
        """Better or worse only if the mean is more than two standard errors from zero."""
        if not (math.isfinite(self.mean) and math.isfinite(self.error)):
            return "unknown"
        if abs(self.mean) <= 2 * self.error:
            return "no different"
        return "better" if self.mean > 0 else "worse"


def size_groups(users: Sequence[int], *, most: int = 4) -> tuple[Group, ...]:
    """Cut entities into groups by size, quarters when there are at least four; equal sizes keep their order.

    Examples
    --------
    >>> [group.members for group in size_groups([30, 10, 20, 40, 50])]
    [(1, 2), (0,), (3,), (4,)]
    """
    order = np.argsort(np.asarray(users), kind="stable")
    count = max(1, min(most, len(order), len(_NAMES)))
    parts = np.array_split(order, count)
    return tuple(
        Group(name=name, short=name.split(" ")[0], members=tuple(int(place) for place in part))
        for name, part in zip(_NAMES[count], parts, strict=True)
    )


def mean_and_spread(values: Sequence[float], members: Sequence[int]) -> tuple[float, float]:
    """Mean and standard deviation over entities; entities without a number do not count.

    Examples
    --------
    >>> mean_and_spread([1.0, 2.0, 3.0, float("nan")], [0, 2, 3])
    (2.0, 1.4142135623730951)
    """
    chosen = _known(np.asarray(values, dtype=np.float64)[list(members)])
    mean = float(chosen.mean()) if chosen.size else math.nan
    return mean, float(chosen.std(ddof=1)) if chosen.size > 1 else math.nan


def difference(
    one: Sequence[float], other: Sequence[float], members: Sequence[int], *, higher_is_better: bool = True
) -> Difference:
    """Compare two systems at the same entities, each entity with itself.

    Examples
    --------
    >>> found = difference([0.5, 0.6, 0.7], [0.4, 0.5, 0.5], [0, 1, 2])
    >>> found.verdict, found.better, round(found.mean, 3)
    ('better', 3, 0.133)
    >>> difference([0.5, 0.6], [0.4, 0.8], [0, 1]).verdict
    'no different'
    """
    sign = 1.0 if higher_is_better else -1.0
    gaps = _known(sign * (np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64))[list(members)])
    return Difference(
        mean=float(gaps.mean()) if gaps.size else math.nan,
        error=float(gaps.std(ddof=1) / math.sqrt(gaps.size)) if gaps.size > 1 else math.nan,
        better=int((gaps > 0).sum()),
        worse=int((gaps < 0).sum()),
        entities=int(gaps.size),
    )


def _known(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def capital(text: str) -> str:
    """Capitalize, except for nDCG."""
    return text if text.startswith("nDCG") else text[:1].upper() + text[1:]


def verdict(run: FederationRun, members: Sequence[int] | None = None) -> str:
    """Compare joining with staying alone at some entities, in one sentence with its uncertainty.

    A difference of less than two standard errors over entities is called no difference.
    """
    chosen = run.everyone if members is None else members
    one, other = run.system(PRIVATE), run.system(BASE)
    gap = difference(one.ndcg, other.ndcg, chosen)
    return (
        f"{_claim(gap, one.name, other.name)}: nDCG@10 {number(mean_and_spread(one.ndcg, chosen)[0])} against "
        f"{number(mean_and_spread(other.ndcg, chosen)[0])}, a difference of {number(gap.mean, 4)} with a standard "
        f"error of {number(gap.error, 4)}; better at {gap.better} of {gap.entities} {run.nouns.entities}, worse at "
        f"{gap.worse}."
    )


def _claim(gap: Difference, one: str, other: str) -> str:
    claims = {
        "better": f"{one} is better than {other.lower()}",
        "worse": f"{one} is WORSE than {other.lower()}",
        "no different": f"{one} is not measurably different from {other.lower()}",
        "unknown": f"{one} cannot be compared with {other.lower()} here because too little was held out",
    }
    return claims[gap.verdict]


def headline(run: FederationRun) -> tuple[str, tuple[str, ...]]:
    """Give the sentence in the box and those that explain it: all entities, the smallest, and by mean rank."""
    groups = size_groups(run.sizes)
    more = [f"All {run.nouns.entities}. {verdict(run)}"]
    if len(groups) > 1:
        more.append(f"{capital(groups[0].name)}. {verdict(run, groups[0].members)}")
    joined, alone = run.system(PRIVATE).mean_rank, run.system(BASE).mean_rank
    by_rank = difference(joined, alone, run.everyone, higher_is_better=False)
    more.append(f"By mean rank, {_claim(by_rank, 'joining', 'staying alone')}: {_rank_words(by_rank)}")
    return _plainly(run, groups[0]), tuple(more)


def _plainly(run: FederationRun, smallest: Group) -> str:
    """One sentence about all entities, and one about the smallest if they differ."""
    everywhere, there = run.gain().verdict, run.gain(smallest.members).verdict
    price = budget_words(run.plan)
    said = {
        "better": f"Joining helped: at {price}, the private federation recommends better than staying alone.",
        "worse": f"Joining HURT here: at {price}, the private federation recommends worse than staying alone.",
        "no different": f"Joining did not measurably help: at {price}, the private federation does not beat "
        "staying alone.",
        "unknown": "Too little was held out to say whether joining helped.",
    }[everywhere]
    if there in (everywhere, "unknown"):
        return said
    but = {"better": "helped", "worse": "made things worse", "no different": "made no measurable difference"}[there]
    return f"{said} For the {smallest.name} of the {run.nouns.entities}, it {but}."


def kept_of_the_gain(run: FederationRun, key: str) -> str:
    """Give the share of the gain without privacy that the private federation keeps."""
    without, private = run.gain(key=key), run.gain()
    if without.verdict != "better":
        return (
            f"Over all {run.nouns.entities}, even sharing without privacy does not measurably beat staying alone, so "
            "there is no gain that privacy could reduce."
        )
    if private.verdict != "better":
        return (
            f"Without privacy, sharing would add {number(without.mean, 4)} to the nDCG@10 of staying alone. The "
            "private federation keeps no measurable part of it."
        )
    return (
        f"Without privacy, sharing would add {number(without.mean, 4)} to the nDCG@10 of staying alone; the private "
        f"federation adds {number(private.mean, 4)}, {private.mean / without.mean:.0%} of it."
    )


def _rank_words(gap: Difference) -> str:
    """A positive difference means higher in the list."""
    if not math.isfinite(gap.mean):
        return "–"
    where = "higher" if gap.mean >= 0 else "lower"
    return (
        f"on average, held-out entries stand {abs(gap.mean):.2%} of the list {where}, with a standard error of "
        f"{gap.error:.2%}."
    )


def budget_words(plan: Plan) -> str:
    """Write ε and δ of a plan.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> budget_words(Plan(catalog=key, feedback="counts", bound=5, max_items=60))
    'ε = 1, δ = 1e-6'
    """
    return brief(cost_of(plan.budget))


def guesser(plan: Plan) -> str:
    """Name whom the promised ε is about, and what they see: of two operators who add noise, one knows its own.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> guesser(Plan(catalog=key, feedback="counts", bound=5, max_items=60))
    'someone who sees a message'
    """
    if plan.operators is not None and plan.operators.noise != "entities":
        return "one operator alone, who sees the sum and knows its own noise,"
    return f"someone who sees {'a message' if plan.secure is None else 'the sum'}"


def _alone_words(plan: Plan) -> str:
    """Write ε of one entity's message if everybody who could opens it; nothing if no ε holds then.

    Examples
    --------
    >>> from twofold.federation.plan import CatalogKey
    >>> key = CatalogKey(hash="0" * 64, n_items=457)
    >>> _alone_words(Plan(catalog=key, feedback="counts", bound=5, max_items=60, mechanism="popularity"))
    ''
    """
    stated = plan.spec.sum
    if stated is None or not math.isfinite(stated.alone_epsilon):
        return ""
    return f"ε = {rounded_up(Fraction(stated.alone_epsilon))}"


def _sent_back(plan: Plan) -> str:
    """Name what round 2 holds: a sum of pairs of counts goes back as it is, beside the factors."""
    totals = plan.feedback == "counts" and plan.release_mechanism.name == "gram"
    if totals:
        return "that noisy sum itself and the item factors made from it"
    return "the item factors, made from that sum"


def coalition_words(run: FederationRun) -> tuple[tuple[str, str], ...]:
    """Say what each party of a sum with two operators sees, and what holds if some of them work together.

    Privacy
    -------
    The words follow from the plan alone: who adds noise, and how many entities a sum has at least. The proofs are in
    docs/reference/operators.md.
    """
    plan, nouns = run.plan, run.nouns
    assert plan.operators is not None
    price, alone = budget_words(plan) if run.private else "no ε", _alone_words(plan)
    whole = plan.operators.whole_noises > 0
    one_honest = (
        f"{price} holds for every {nouns.user}, even if the other operator and all other {nouns.entities} work "
        "together: they can take off the noises they know, but not the whole noise of the honest operator"
        if whole
        else f"{price} holds for every {nouns.user} while at least {plan.operators.honest} {nouns.entities} in the sum "
        f"keep their part of the noise secret. {capital(nouns.entities)} that work with the other operator do not count"
    )
    both = (
        f"one message alone has {alone}, by the noise that its {nouns.entity} added"
        if alone
        else f"no ε holds: they can open the exact sums of every {nouns.entity}. So choose two that would not, under "
        "different administrators"
    )
    return (
        ("One operator sees", f"which {nouns.entities} sent a message and when, and numbers that look random"),
        ("Both see in the end", f"one noisy sum of at least {plan.operators.floor} {nouns.entities}; never a second"),
        ("Everybody sees", f"{_sent_back(plan)}, and how many {nouns.entities} are in it"),
        ("If one operator is honest", one_honest),
        ("If both work together", both),
    )
