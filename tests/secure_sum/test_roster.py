"""The roster: names and keys, nothing twice."""

from __future__ import annotations

import pytest

from twofold.errors import BadPlan
from twofold.secure_sum import Keys, PublicKeys
from twofold.secure_sum.keys import check_roster


def test_sound_rosters_pass_and_others_do_not() -> None:
    roster = {name: Keys.new().public for name in ("anna", "bert", "carl")}
    check_roster(roster, least=2)
    check_roster({"anna": roster["anna"]})
    for bad in ({}, {"anna": roster["anna"]}, roster | {"carl": None}, list(roster)):
        with pytest.raises(BadPlan) as caught:
            check_roster(bad, least=2)
        assert caught.value.parameter == "roster"
    with pytest.raises(BadPlan) as caught:
        check_roster(roster | {"a\tb": Keys.new().public})
    assert caught.value.parameter == "entity"


def test_a_key_in_another_place_of_another_entry_is_a_double() -> None:
    anna, bert = Keys.new().public, Keys.new().public
    crossed = PublicKeys(mask=bert.mask, seal=anna.mask)
    with pytest.raises(BadPlan, match="anna, carl"):
        check_roster({"anna": anna, "bert": Keys.new().public, "carl": crossed})
