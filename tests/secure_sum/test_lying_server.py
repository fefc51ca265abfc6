"""What a server gains by showing different lists: the attack is carried out, and the bound holds with equality."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from twofold.errors import PrivacyError
from twofold.secure_sum import PublicKeys, honest_in_any_sum, mask
from twofold.secure_sum.derive import add_stream
from twofold.secure_sum.keys import agree, private_of
from twofold.secure_sum.masking import modulus_mask, pair_stream, self_stream
from twofold.secure_sum.shamir import recover
from twofold.secure_sum.sharing import plan_seed

#: Each of five entities is shown another list, each with three survivors (the floor) and itself among them.
DROPPED = {"e000": "23", "e001": "24", "e002": "34", "e003": "24", "e004": "23"}


def attack(group, answers):
    """Everything the answers open, whatever the lists: seeds and mask keys with at least `threshold` shares."""
    opened = {"seeds": {}, "keys": {}}
    for kind, owner in itertools.product(opened, group.names):
        points = {
            group.terms.positions[name]: getattr(message, kind)[owner]
            for name, message in answers.items()
            if owner in getattr(message, kind)
        }
        if len(points) >= group.terms.threshold:
            opened[kind][owner] = recover(points, threshold=group.terms.threshold, fits=bool)[0]
    return opened


def test_different_lists_open_a_sum_below_the_floor_but_not_below_the_bound(federation) -> None:
    group = federation(5, threshold=3, least_survivors=3, least_present=5)
    present = group.share()
    rng = np.random.default_rng(0)
    values = {name: rng.integers(-1000, 1000, size=6) for name in present}
    sent = {name: group.mask(name, values[name], present) for name in present}
    lists = {name: [other for other in present if other[-1] not in gone] for name, gone in DROPPED.items()}
    answers = {name: group.answer(name, present, lists[name]) for name in present}
    opened = attack(group, answers)
    assert not set(opened["seeds"]) & set(opened["keys"])  # the threshold rule: never both of one entity
    pair = [name for name in present if name not in opened["keys"]]
    bound = group.terms.present_digest(present)
    total = np.zeros(8, dtype=np.uint64)
    for name in pair:
        total += sent[name].numbers
        add_stream(total, self_stream(opened["seeds"][name], bound, 8), bits=48, subtract=True)
        for gone, secret in opened["keys"].items():
            key = pair_stream(private_of(secret), group.terms.roster[name].mask, bound, 8, pair=(name, gone))
            add_stream(total, key, bits=48, subtract=name < gone)
    total &= modulus_mask(48)
    signed = (total.view(np.int64) << 16) >> 16
    assert signed[:6].tolist() == (values[pair[0]] + values[pair[1]]).tolist()
    assert (
        len(pair)
        == honest_in_any_sum(entities=5, threshold=3, least_survivors=3, least_present=5)
        == 2
        < group.terms.least_survivors
    )


def test_a_twin_of_anothers_key_takes_no_mask_off(federation) -> None:
    """A colluder enrols the key of a plus the point of order two: 1/x on this curve. Everybody's secret with it is a's.

    Without names in the masks, b's masks with a (subtracted) and with z (added) would cancel, and with b's self-mask,
    which its survival opens, b's numbers would lie open.
    """
    group = federation(3)
    one, victim, colluder = group.names
    curve = 2**255 - 19
    twin = pow(int.from_bytes(group.terms.roster[one].mask, "little"), -1, curve).to_bytes(32, "little")
    secret = private_of(group.keys[victim].mask)
    assert agree(secret, twin) == agree(secret, group.terms.roster[one].mask)
    listed = {**group.terms.roster, colluder: PublicKeys(mask=twin, seal=group.terms.roster[colluder].seal)}
    terms = replace(group.terms, roster=listed)
    values = np.array([123, -456], dtype=np.int64)
    left = mask(values, group.keys[victim], victim, terms, terms.names).numbers.copy()
    own = self_stream(plan_seed(group.keys[victim], terms), terms.present_digest(terms.names), left.size)
    add_stream(left, own, bits=terms.bits, subtract=True)
    left &= modulus_mask(terms.bits)
    assert not (left[-2:] == [1, terms.positions[victim]]).any()  # the check numbers would show it
    assert not (left[:2] == values.astype(np.uint64) & modulus_mask(terms.bits)).any()


def test_an_entity_that_answered_refuses_any_other_list_and_repeats_the_same(federation) -> None:
    group = federation(5, threshold=3, least_survivors=3, least_present=5)
    present = group.share()
    first = group.answer("e000", present, present)
    assert group.answer("e000", present, present, already=first) == first
    for other in (present[:4], present[:3]):
        with pytest.raises(PrivacyError, match="answered another list"):
            group.answer("e000", present, other, already=first)


@pytest.mark.parametrize(("entities", "colluders"), [(4, 0), (4, 1), (5, 0), (5, 1)])
def test_no_choice_of_lists_opens_both_secrets_or_fewer_than_the_bound(entities: int, colluders: int) -> None:
    """Every way to show lists to the honest ones, by enumeration; colluders give every share they hold."""
    honest = range(entities - colluders)
    for threshold, least in itertools.combinations_with_replacement(
        range((entities + colluders) // 2 + 1, entities + 1), 2
    ):
        bound = honest_in_any_sum(
            entities=entities, threshold=threshold, least_survivors=least, least_present=entities, colluders=colluders
        )
        needed = threshold - colluders
        for dropped in itertools.product(*(choices(entities, least, me) for me in honest)):
            opened = {v for v in honest if sum(v in gone for gone in dropped) >= needed}
            bare = {v for v in honest if sum(v not in gone for gone in dropped) >= needed}
            assert not opened & bare
            if opened | bare == set(honest):  # otherwise a mask stays on every sum
                assert len(bare) >= bound


def choices(entities: int, least: int, me: int) -> list[frozenset[int]]:
    """Every set of names an entity may be told has dropped out."""
    others = [v for v in range(entities) if v != me]
    return [frozenset(gone) for size in range(entities - least + 1) for gone in itertools.combinations(others, size)]
