"""The server's part of a secure sum: the exact sum of those who stayed, or nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.enrolled import enrolled
from tests.refused import refused
from twofold.entity.secure import Masks
from twofold.errors import BadMessage, ConflictingMessage, PlanMismatch, TooFewMessages
from twofold.federation.key_messages import decode_participants, encode_answer, encode_shares, encode_survivors
from twofold.federation.messages import decode_release, encode_release
from twofold.federation.plan import CatalogKey, Plan
from twofold.federation.secure import SecureSum
from twofold.release.content import BilinearSums, plain_sum
from twofold.secure_sum import answer, share_secrets
from twofold.server import Server
from twofold.server.secure import SecureServer, masked_message
from twofold.storage.container import open_container, pack_sealed

NAMES = tuple(f"site-{number}" for number in range(6))


class Group:
    """Six entities of a simulation, their keys in memory; the noise of each from its own seed."""

    def __init__(self, *, survivors: int = 4, **changes: Any) -> None:
        given = {
            "catalog": CatalogKey(hash="a" * 64, n_items=12),
            "feedback": "counts",
            "bound": 5,
            "max_items": 4,
            "mechanism": "gram",
            "rank": 3,
            "epsilon": 20,
            "n_users": 40,
            "n_entities": 6,
            "simulation": True,
            "secure": SecureSum(survivors=survivors, present=5, colluders=0),
        }
        self.enrolled = enrolled(Plan(**(given | changes)), *NAMES)
        self.plan = self.enrolled.plan
        self.keys = {name: one.sum for name, one in self.enrolled.secrets.items()}
        self.signer = self.enrolled.signer
        self.server = SecureServer(self.plan, signer=self.signer())

    def shares(self, names: Sequence[str] = NAMES) -> list[bytes]:
        terms = self.server.terms
        return [
            encode_shares(share_secrets(self.keys[name], name, terms), self.plan, signer=self.signer(name))
            for name in names
        ]

    def participants(self, names: Sequence[str] = NAMES) -> bytes:
        return self.server.participants(self.shares(names))

    def plain(self, name: str) -> BilinearSums:
        seed = NAMES.index(name)
        rows = np.random.default_rng(seed).integers(0, 6, (40, 12)).astype(float)
        rows[np.arange(40) % 2 == 0, 6:] = 0
        rows[:, 4:9] = 0
        return self.plan.release_mechanism.release(rows, self.plan.parameters, rng=seed).value

    def masked(
        self, name: str, participants: bytes, numbers: NDArray[np.int64] | None = None, key: str | None = None
    ) -> bytes:
        content = self.plain(name)
        content = content if numbers is None else dataclasses.replace(content, numbers=numbers)
        listed = decode_participants(participants, self.plan)
        masks = Masks(name=name, keys=self.keys[key or name], terms=self.server.terms, participants=listed)
        return encode_release(masks.hide(content), entity=name, plan=self.plan, signer=self.signer(name))

    def answers(self, names: Sequence[str], participants: bytes, survivors: Sequence[str]) -> list[bytes]:
        listed = decode_participants(participants, self.plan)
        return [
            encode_answer(
                answer(self.keys[name], name, self.server.terms, listed.shares, listed.present, survivors),
                self.plan,
                signer=self.signer(name),
            )
            for name in names
        ]


@pytest.fixture(scope="module")
def group() -> Group:
    return Group()


@pytest.mark.parametrize(
    ("shared", "masked", "answered"),
    [
        (NAMES, NAMES, NAMES),
        (NAMES[1:], NAMES[1:], NAMES[1:]),  # before sharing
        (NAMES, NAMES[1:], NAMES[1:]),  # between sharing and masking
        (NAMES, NAMES, NAMES[1:]),  # after masking
        (NAMES, NAMES[:4], NAMES[:4]),  # two between
        (NAMES, NAMES[1:], NAMES[2:]),  # one between, one after
        (NAMES[:5], NAMES[:4], NAMES[:4]),  # one before, one between
    ],
)
def test_the_plain_sum_exactly(
    group: Group, shared: Sequence[str], masked: Sequence[str], answered: Sequence[str]
) -> None:
    participants = group.participants(shared)
    messages = [group.masked(name, participants) for name in masked]
    survivors = group.server.survivors(messages, participants)
    answers = group.answers(answered, participants, masked)
    total = group.server.total(messages[::-1], answers, participants=participants, survivors=survivors)
    plain = plain_sum([group.plain(name) for name in masked])
    assert (total.numbers == plain.numbers).all()
    assert (total.entities, total.seeded) == (len(masked), True)
    assert total.deviation == pytest.approx(plain.deviation)


@pytest.mark.parametrize("changes", [{"mechanism": "sketch", "n_prototypes": 5}, {"delta": 0}, {"feedback": "ratings"}])
def test_every_kind_of_statistic(changes: dict[str, Any]) -> None:
    group = Group(**changes)
    participants = group.participants()
    messages = [group.masked(name, participants) for name in NAMES]
    survivors = group.server.survivors(messages, participants)
    total = group.server.total(
        messages, group.answers(NAMES, participants, NAMES), participants=participants, survivors=survivors
    )
    assert (total.numbers == plain_sum([group.plain(name) for name in NAMES]).numbers).all()


def test_factors_come_of_the_sum_and_say_what_they_are(group: Group) -> None:
    participants = group.participants()
    messages = [group.masked(name, participants) for name in NAMES[1:]]
    survivors = group.server.survivors(messages, participants)
    answers = group.answers(NAMES[1:], participants, NAMES[1:])
    made = group.server.factorize(messages, answers, participants=participants, survivors=survivors)
    again = group.server.factorize(messages[::-1], answers[1:], participants=participants, survivors=survivors)
    assert (made.entities, made.private, made.hash) == (5, False, again.hash)


def test_a_message_alone_tells_nothing_of_its_numbers(group: Group) -> None:
    """The same numbers under the masks of another plan's keys have no digit in common with these beyond chance."""
    participants, other = group.participants(), Group()
    one = masked_message(decode_release(group.masked("site-0", participants), group.plan)).numbers
    two = masked_message(decode_release(other.masked("site-0", other.participants()), other.plan)).numbers
    assert one.size == two.size
    assert not (one == two).any()
    assert not (one[:-2] == group.plain("site-0").numbers.astype(np.uint64)).any()


def test_below_the_floor_there_is_no_list(group: Group) -> None:
    participants = group.participants()
    with refused(TooFewMessages, "survivors", found="3", expected="at least 4"):
        group.server.survivors([group.masked(name, participants) for name in NAMES[:3]], participants)
    with refused(TooFewMessages, "present", found="4", expected="at least 5"):
        group.participants(NAMES[:4])


def test_too_few_answers(group: Group) -> None:
    participants = group.participants()
    messages = [group.masked(name, participants) for name in NAMES]
    survivors = group.server.survivors(messages, participants)
    with refused(TooFewMessages, "answers", found="3", expected="at least 4"):
        group.server.total(
            messages, group.answers(NAMES[:3], participants, NAMES), participants=participants, survivors=survivors
        )


def test_one_message_of_each(group: Group) -> None:
    participants, other = group.participants(), Group()
    with refused(PlanMismatch, "plan", expected=group.plan.hash[:12]):
        group.server.participants([*group.shares(), *other.shares(["site-0"])])
    good = share_secrets(group.keys["site-0"], "site-0", group.server.terms)
    forged = encode_shares(dataclasses.replace(good, commitment=bytes(32)), group.plan, signer=group.signer("site-0"))
    with refused(ConflictingMessage, "shares", found="site-0"):
        group.server.participants([*group.shares(), forged])
    assert group.server.participants([*group.shares(), *group.shares()]) == participants
    one, two = (group.answers(["site-0"], participants, names)[0] for names in (NAMES, NAMES[:5]))
    messages = [group.masked(name, participants) for name in NAMES]
    survivors = group.server.survivors(messages, participants)
    with refused(ConflictingMessage, "answers", found="site-0"):
        group.server.total(messages, [one, two], participants=participants, survivors=survivors)


def test_messages_for_another_list_or_federation(group: Group) -> None:
    participants, fewer, other = group.participants(), group.participants(NAMES[:5]), Group()
    with refused(BadMessage, "present", found="site-0"):
        group.server.survivors([group.masked("site-0", fewer)], participants)
    with refused(BadMessage, "present", found="site-5"):
        group.server.survivors([group.masked("site-5", participants)], fewer)
    with refused(PlanMismatch, "plan", expected=group.plan.hash[:12]):
        group.server.survivors([other.masked("site-0", other.participants())], participants)


def test_messages_that_are_not_those_of_the_list(group: Group) -> None:
    participants = group.participants()
    messages = [group.masked(name, participants) for name in NAMES]
    named = encode_survivors(NAMES, NAMES[:5], group.plan, signer=group.signer())
    answers = group.answers(NAMES[:5], participants, NAMES[:5])
    assert (
        group.server.total(messages, answers, participants=participants, survivors=named).entities == 5
    )  # the sixth came too late
    with refused(BadMessage, "survivors"):
        group.server.total(messages[:4], answers, participants=participants, survivors=named)


def resealed(group: Group, data: bytes, **changes: Any) -> bytes:
    container = open_container(data)
    record = {name: value for name, value in container.record.items() if name not in ("checksum", "signature")}
    content = decode_release(data, group.plan).content
    return pack_sealed(record | changes, {"masked": content.packed}, signer=group.signer(record["entity"]))


def test_garbage_another_modulus_and_foreign_masks(group: Group) -> None:
    participants = group.participants()
    messages = [group.masked(name, participants) for name in NAMES]
    survivors = group.server.survivors(messages, participants)
    answers = group.answers(NAMES, participants, NAMES)
    with refused(BadMessage, "bits", expected="2^48"):
        group.server.survivors([resealed(group, messages[0], bits=64), *messages[1:]], participants)
    good = decode_release(messages[0], group.plan).content
    noise = np.random.default_rng(1).integers(0, 256, good.packed.shape).astype(np.uint8)
    garbage = encode_release(
        dataclasses.replace(good, packed=noise), entity="site-0", plan=group.plan, signer=group.signer("site-0")
    )
    with refused(BadMessage, "checks"):
        group.server.total([garbage, *messages[1:]], answers, participants=participants, survivors=survivors)
    other = Group()
    foreign = decode_release(other.masked("site-0", other.participants()), other.plan).content
    swapped = dataclasses.replace(foreign, present=good.present)
    data = encode_release(swapped, entity="site-0", plan=group.plan, signer=group.signer("site-0"))
    with refused(BadMessage, "checks"):
        group.server.total([data, *messages[1:]], answers, participants=participants, survivors=survivors)


def test_an_overflow_is_seen(group: Group) -> None:
    """A changed program that masks more than fits is seen when the sum leaves what four honest ones can reach."""
    participants, terms = group.participants(), group.server.terms
    messages = [group.masked(name, participants) for name in NAMES[:4]]
    survivors = group.server.survivors(messages, participants)
    content = decode_release(messages[0], group.plan).content
    numbers = masked_message(decode_release(messages[0], group.plan)).numbers
    numbers = (numbers + np.uint64(2 ** (terms.bits - 1) - 1)) & np.uint64(2**terms.bits - 1)
    packed = numbers.view(np.uint8).reshape(-1, 8)[:, : terms.bits // 8].copy()
    packed[-2:] = content.packed[-2:]  # the check numbers are right
    far = encode_release(
        dataclasses.replace(content, packed=packed), entity="site-0", plan=group.plan, signer=group.signer("site-0")
    )
    with refused(BadMessage, "values"):
        group.server.total(
            [far, *messages[1:]],
            group.answers(NAMES[:4], participants, NAMES[:4]),
            participants=participants,
            survivors=survivors,
        )


def test_keys_swapped_between_two_entities(group: Group) -> None:
    with refused(PlanMismatch, "keys", found="'site-0'"):
        group.masked("site-0", group.participants(), key="site-1")


def test_wrong_shares_are_left_out_and_named(group: Group) -> None:
    participants = group.participants()
    listed = decode_participants(participants, group.plan)
    messages = [group.masked(name, participants) for name in NAMES]
    survivors = group.server.survivors(messages, participants)
    good = answer(group.keys["site-0"], "site-0", group.server.terms, listed.shares, NAMES, NAMES)
    wrong = dataclasses.replace(good, seeds=good.seeds | {"site-1": bytes(33)})
    answers = [
        encode_answer(wrong, group.plan, signer=group.signer("site-0")),
        *group.answers(NAMES[1:], participants, NAMES),
    ]
    total = group.server.total(messages, answers, participants=participants, survivors=survivors)
    assert "site-0 for site-1" in total.note
    assert (total.numbers == plain_sum([group.plain(name) for name in NAMES]).numbers).all()


def test_the_plain_server_does_not_take_masked_messages(group: Group) -> None:
    with refused(PlanMismatch, "secure", "SecureServer"):
        Server(group.plan)
