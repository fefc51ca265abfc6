"""Step 1: repeatable, for everyone else, bound to the terms."""

from __future__ import annotations

import dataclasses

import pytest

from twofold.errors import BadMessage, PlanMismatch
from twofold.secure_sum import check_shares, share_secrets
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.messages import open_box
from twofold.secure_sum.shamir import PRIME, recover
from twofold.secure_sum.sharing import _shares_for, commitment_to, own_shares, plan_seed


def test_sharing_again_gives_the_same_bytes_and_other_terms_other_boxes(federation) -> None:
    group, other = federation(4), federation(4, context=b"another")
    message = share_secrets(group.keys["e000"], "e000", group.terms)
    assert message.to_record() == share_secrets(group.keys["e000"], "e000", group.terms).to_record()
    elsewhere = share_secrets(other.keys["e000"], "e000", other.terms)
    assert elsewhere.commitment != message.commitment
    assert not set(elsewhere.boxes.values()) & set(message.boxes.values())


def test_the_boxes_and_the_own_shares_make_both_secrets(federation) -> None:
    group = federation(5)
    group.share()
    message, terms = group.shares["e002"], group.terms
    held = {terms.positions["e002"]: own_shares(group.keys["e002"], "e002", terms)}
    for name, box in message.boxes.items():
        private = private_of(group.keys[name].seal)
        held[terms.positions[name]] = open_box(private, "e002", name, terms, commitment=message.commitment, box=box)
    key, _ = recover({point: pair[0] for point, pair in held.items()}, threshold=terms.threshold, fits=bool)
    seed, _ = recover({point: pair[1] for point, pair in held.items()}, threshold=terms.threshold, fits=bool)
    assert key == group.keys["e002"].mask
    assert seed == plan_seed(group.keys["e002"], terms) != group.keys["e002"].seed
    assert message.commitment == commitment_to(seed, terms)


def test_the_two_secrets_are_shared_by_different_polynomials(federation) -> None:
    """With the same coefficients the difference of two shares would be the difference of the secrets."""
    group = federation(5)
    pairs = [_shares_for(group.keys["e002"], group.terms, [name])[name] for name in group.names]
    differences = {(int.from_bytes(a, "little") - int.from_bytes(b, "little")) % PRIME for a, b in pairs}
    assert len(differences) == len(group.names)


def test_the_server_refuses_shares_of_another_plan_or_that_leave_somebody_out(federation) -> None:
    group, other = federation(4), federation(4, context=b"another")
    group.share()
    message = group.shares["e000"]
    check_shares(message, group.terms)
    with pytest.raises(PlanMismatch, match="another plan"):
        check_shares(message, other.terms)
    for boxes in ({"e001": message.boxes["e001"]}, dict(message.boxes) | {"x": bytes(82)}):
        bad = dataclasses.replace(message, boxes=boxes)
        with pytest.raises(BadMessage, match="leave somebody out"):
            check_shares(bad, group.terms)
    with pytest.raises(PlanMismatch, match="not enrolled"):
        check_shares(dataclasses.replace(message, sender="x"), group.terms)
