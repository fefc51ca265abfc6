"""Strict reading: anything but the agreed form is refused."""

from __future__ import annotations

import pytest

from twofold.errors import BadMessage
from twofold.secure_sum.keys import entity_name, exact_fields, hex_bytes, hex_table


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 65, "é", "../a", ".a", 5, None, b"anna"])
def test_names_are_those_that_a_plan_may_have(name) -> None:
    assert entity_name("x" * 64) == "x" * 64
    with pytest.raises(BadMessage) as caught:
        entity_name(name)
    assert caught.value.parameter == "entity"


@pytest.mark.parametrize("text", ["", "0", "0g", "0G", "FF", "00ff", " 0", "+1", 5, None, ["00"]])
def test_hexadecimal_is_lower_case_and_of_exact_length(text) -> None:
    assert hex_bytes({"a": "ff"}, "a", 1) == b"\xff"
    with pytest.raises(BadMessage):
        hex_bytes({"a": text}, "a", 1)


@pytest.mark.parametrize("record", [None, [], {}, {"a": 1, "b": 2}, {"b": 1}, "a"])
def test_fields_are_exact(record) -> None:
    with pytest.raises(BadMessage, match="not a thing"):
        exact_fields(record, ["a"], what="a thing")


@pytest.mark.parametrize("table", [None, [], {"": "00"}, {5: "00"}, {"x": "0"}, {"x": None}])
def test_tables_go_from_names_to_bytes(table) -> None:
    with pytest.raises(BadMessage):
        hex_table({"t": table}, "t", 1)
