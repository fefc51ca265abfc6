"""Simulate people: every user of every entity sends for themselves, under a key that serves once.

Reports go to the operators as they are made, in halves, some hundred at a time; neither all reports nor all models are
ever in memory together. A person's model is made when it is asked for.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from twofold.algorithms._jit import at_most_threads, one_blas_thread
from twofold.data.federation import Federation
from twofold.entity.model import Model
from twofold.entity.person import Person
from twofold.errors import BadMessage, NotForRealUse, PlanMismatch, TooFewMessages
from twofold.federation.factors import ItemFactors
from twofold.federation.mailbox import REPORTS, InProcess
from twofold.federation.plan import Plan
from twofold.federation.reports import half
from twofold.identity.keys import Role, Secrets
from twofold.identity.keystore import KeyStore
from twofold.identity.roster import Roster
from twofold.server.operate import operate
from twofold.server.operator import Operator

if TYPE_CHECKING:
    from twofold.data.ratings import Ratings

__all__ = ["PeopleModels", "check_people", "people_exchange", "people_of", "people_plan"]

#: Reports that are handed over at once.
_BATCH: Final = 100
#: Looks after which two operators in one process have published.
_LOOKS: Final = 8
_OPERATORS: Final = ("operator-a", "operator-b")

Label = tuple[Any, Any]


def people_of(federation: Federation) -> dict[Label, tuple[Any, int]]:
    """Give everybody's label, (entity, user), with the entity and the row.

    Examples
    --------
    >>> from twofold.data.sources import hospitals
    >>> next(iter(people_of(hospitals.load(0.001)).items()))
    (('hospital-001', '001-00001'), ('hospital-001', 0))
    """
    return {
        (label, user): (label, number)
        for label, ratings in federation.items()
        for number, user in enumerate(ratings.user_ids)
    }


def check_people(plan: Plan, people: int, *, accounted: bool) -> None:
    """Refuse a real plan: in one process nobody vouches for anybody, and nobody has a ledger of their own."""
    if not plan.simulation or accounted:
        raise NotForRealUse(
            "people are simulated without ledgers; nothing was drawn.",
            expected="a plan with simulation = true, and no ledgers",
            fix="Plan(..., simulation=True); a real person uses Person, or twofold release --person",
            parameter="ledgers" if accounted else "plan",
        )
    if people > plan.n_entities:
        raise PlanMismatch(
            "there are more people than the plan has entities; nothing was drawn.",
            found=f"n_entities = {plan.n_entities:,}",
            expected="room for every user of every entity",
            parameter="n_entities",
        )
    if people < plan.quorum:
        raise TooFewMessages(
            "there are fewer people than the plan's quorum; nothing was drawn.",
            found=f"{people:,} people",
            expected=f"at least {plan.quorum:,}",
            parameter="quorum",
        )


def people_plan(plan: Plan) -> tuple[Plan, list[KeyStore]]:
    """Give the plan with two operators made for it, and no entity; with their keys."""
    stores = [KeyStore(Secrets.new(name, Role.OPERATOR)) for name in _OPERATORS]
    return plan.with_(roster=Roster(one.identity for one in stores), entities=(), writer=None), stores


def people_exchange(
    federation: Federation,
    plan: Plan,
    stores: list[KeyStore],
    seeds: Callable[[str], int | None],
    done: Callable[[int], object],
) -> tuple[bytes, dict[Label, int]]:
    """Let everybody send and both operators publish; give the signed factors, and the bytes that each person sent.

    Parameters
    ----------
    federation : Federation
        Everybody, by entity.
    plan : Plan
        With its roster (`people_plan`).
    stores : list of KeyStore
        The operators' keys.
    seeds : callable
        Seed of an operator's noise by its name, or None for the operating system's randomness.
    done : callable
        Told how many have sent.
    """
    sent: dict[Label, int] = {}
    with tempfile.TemporaryDirectory(prefix="twofold-people-") as folder, at_most_threads(1), one_blas_thread():
        both = [
            Operator(plan, one, state=Path(folder) / one.identity.name, rng=seeds(one.identity.name)) for one in stores
        ]
        both.sort(key=lambda one: one.place)
        for halves in _batches(federation, plan, sent):
            for place, operator in enumerate(both):
                taken = operator.take_all(("a person", one[place]) for one in halves)
                if taken != len(halves):
                    raise BadMessage("an operator did not accept a report.", found=f"{len(halves) - taken}")
            done(len(sent))
        box = InProcess()
        for _ in range(_LOOKS):
            seen = [operate(one, box, close=True) for one in both]
            if all(one.published for one in seen):
                break
        published = box.published(REPORTS)
        for one in both:
            one.book.close()
    assert published is not None, "both operators are here, and nobody is waited for"
    return published, sent


def _batches(federation: Federation, plan: Plan, sent: dict[Label, int]) -> Iterator[list[tuple[bytes, bytes]]]:
    batch: list[tuple[bytes, bytes]] = []
    for label, ratings in federation.items():
        for number, user in enumerate(ratings.user_ids):
            report = _person(ratings, number, plan).report()
            sent[label, user] = len(report.data)
            batch.append((half(report, 0), half(report, 1)))
            if len(batch) == _BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


def _person(ratings: Ratings, number: int, plan: Plan) -> Person:
    return Person(ratings.take([number]), plan, keys=Secrets.new("person", Role.PERSON))


class PeopleModels(Mapping[Label, Model]):
    """Everybody's model, each made when it is asked for.

    Parameters
    ----------
    federation : Federation
        Everybody, by entity.
    plan : Plan
        What was agreed.
    factors : ItemFactors
        What both operators signed.
    """

    def __init__(self, federation: Federation, plan: Plan, factors: ItemFactors) -> None:
        self._federation, self._plan, self._factors = federation, plan, factors
        self._places = people_of(federation)

    def __getitem__(self, label: Label) -> Model:
        entity, number = self._places[label]
        return _person(self._federation[entity], number, self._plan).personalize(self._factors)

    def __iter__(self) -> Iterator[Label]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
