"""Rules for a plan's fields together, which a field alone cannot break."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from twofold.checks import LARGEST
from twofold.errors import BadPlan, Set, TwofoldError
from twofold.federation.secure import OPERATORS
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.choose import NOT_PRIVATE

if TYPE_CHECKING:
    from twofold.federation.plan import Plan

__all__ = ["check_together"]

#: Characters of the plan's record; it must fit into the header of a message.
_LONGEST_RECORD: Final = 40_000


def check_together(plan: Plan) -> None:
    """Check combinations of fields, in the order in which a reader meets them."""
    if plan.max_items > plan.n_items:
        raise BadPlan(
            "{parameter} is larger than the catalog.",
            found=f"{plan.max_items}",
            expected=f"at most {plan.n_items}",
            parameter="max_items",
        )
    # The rules of twofold.data.Bounds, which sees the same numbers only after the ledger has reserved their price.
    if plan.bound <= 0:
        raise BadPlan(
            "{parameter} is not valid.",
            found=f"{plan.bound:g}",
            expected="bound > 0; absent entries are at 0 or, for ratings, at the centre",
            fix="shift the values so that the largest is above 0",
            parameter="bound",
        )
    if plan.bound - plan.lower < 1 / LARGEST:
        raise BadPlan("the range of the values is empty.", expected="lower < bound", parameter="lower")
    if plan.quorum > plan.expected_entities:
        raise BadPlan(
            "the quorum can never be reached.",
            found=f"{plan.quorum}",
            expected=f"at most {plan.expected_entities}",
            fix=(
                Set("quorum", plan.expected_entities),
                "name more entities" if plan.entities else Set("n_entities", plan.quorum),
            ),
            parameter="quorum",
        )
    if plan.regularization < 0:
        raise BadPlan("{parameter} is out of range.", expected="at least 0", parameter="regularization")
    _check_roster(plan)
    if plan.secure is not None:
        plan.secure.check(plan.expected_entities, simulation=plan.simulation)
    if plan.people:
        _check_people(plan)
    if plan.peers is not None:
        _check_order(plan.peers.share_deadline, plan.deadline)
    try:
        plan.parameters  # noqa: B018 - checks feedback, bounds, caps and centre together
        if plan.mechanism != "auto":
            _check_size(plan)
    except TwofoldError as error:
        raise error.as_(BadPlan) from None
    _check_alone(plan)
    if plan.mechanism in NOT_PRIVATE and not plan.simulation:
        raise BadPlan(
            "this mechanism is not private.",
            found=plan.mechanism,
            expected="a mechanism with a proof",
            fix=(Set("mechanism", "auto"), Set("simulation", True)),
            parameter="mechanism",
        )
    if len(plan.canonical()) > _LONGEST_RECORD:
        raise BadPlan(
            "the plan is too long for the header of a message.",
            expected=f"at most {_LONGEST_RECORD:,} characters",
            fix="name fewer entities, or none: then any may take part",
            parameter="entities",
        )


def _check_size(plan: Plan) -> None:
    """Refuse a mechanism that does not exist, or whose message would be too large, before anybody agrees to it."""
    chosen = plan.release_mechanism
    if isinstance(chosen, Bilinear) and (plan.features is None or plan.features_table is not None):
        chosen.layout(plan.parameters)


def _check_people(plan: Plan) -> None:
    """Refuse people who are more than one, and in a real plan people for whom nobody vouches.

    Privacy
    -------
    Without vouchers, one sender who invents a thousand people ruins the sum, and a person who sends twice doubles what
    the noise has to hide. Where people add the noise in shares, an institution that vouches for people it invented
    knows all shares but one: then operators must add whole noises as well.
    """
    if plan.n_users != 1:
        raise BadPlan(
            "every entity of this plan is one person.",
            found=f"{plan.n_users:,} users in each",
            fix=Set("n_users", 1),
            parameter="n_users",
        )
    if plan.operators is not None and plan.operators.noise == "entities" and not plan.simulation:
        raise BadPlan(
            "an institution that vouches could invent all people but one, and would know all noise but theirs.",
            found="noise by entities alone",
            expected="noise by operators, or by both",
            fix=(Set("secure.noise", "operators"), Set("simulation", True)),
            parameter="secure.noise",
        )
    if plan.roster is not None and not plan.roster.n_entities and not plan.simulation:
        raise BadPlan(
            "nobody vouches for the people of this plan.",
            expected="at least one institution in the roster, which knows its people and vouches once for each",
            fix=("the public part of an institution", Set("simulation", True)),
            parameter="roster",
        )


def _check_order(sharing: str | None, sending: str | None) -> None:
    """Refuse messages that would be due before the keys they need."""
    if sharing and sending and datetime.fromisoformat(sharing) >= datetime.fromisoformat(sending):
        raise BadPlan(
            "keys would be shared after the messages are due.",
            found=f"secure.share_deadline {sharing}, deadline {sending}",
            expected="a share_deadline well before the deadline",
            parameter="secure.share_deadline",
        )


def _check_roster(plan: Plan) -> None:
    """Match the names of entities and keys; a plan made with a roster takes its names from it."""
    if plan.roster is None:
        if plan.writer is not None:
            raise BadPlan(
                "a plan without a roster has no known writer.",
                found=plan.writer,
                fix=(Set("roster", "Roster.joined(...)"), "leave writer out"),
                parameter="writer",
            )
        return
    operators = 1 if plan.operators is None else OPERATORS
    if len(plan.entities) != plan.roster.n_entities or plan.roster.n_operators != operators:
        raise BadPlan(
            "the roster does not match the plan.",
            found=f"{len(plan.entities)} names; keys of {plan.roster.n_entities} entities and "
            f"{plan.roster.n_operators} operators",
            expected="a key of every entity, and "
            + ("one of the server's operator" if operators == 1 else "those of two operators"),
            fix="Plan(roster=Roster.joined(...)), which names the entities",
            parameter="roster",
        )
    members = plan.members
    if members is not None and tuple(members.entities) != plan.entities:
        raise BadPlan("the entities of the plan are not those of the roster.", parameter="entities")
    # Nobody is taken to be the writer of a plan with two operators: neither of them may be.
    unknown = plan.writer is None and plan.operators is not None
    if members is not None and plan.writer not in members and not unknown:
        raise BadPlan("the writer of the plan is not in the roster.", found=f"{plan.writer}", parameter="writer")


def _check_alone(plan: Plan) -> None:
    """Check that messages of a secure sum can be added up, and the largest ε allowed to one message alone."""
    if plan.secure is None or (plan.features and plan.features_table is None):  # a file has its table a moment later
        return
    stated = plan.spec.sum  # said now, not when keys are already shared
    if stated is None or plan.secure.most_alone is None or stated.alone_epsilon <= float(plan.secure.most_alone):
        return
    raise BadPlan(
        "one entity's message seen alone would be less private than the plan demands.",
        found=f"ε = {stated.alone_epsilon:.3g} alone, if all others collude",
        expected=f"at most {float(plan.secure.most_alone):g}",
        fix=("a smaller ε", "fewer survivors", Set("secure.most_alone", f"{stated.alone_epsilon:.3g}")),
        parameter="secure.most_alone",
    )
