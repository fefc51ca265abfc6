"""Strict reading: anything but the agreed form is refused."""

from __future__ import annotations

import pytest

from twofold.errors import BadMessage
from twofold.secure_sum.keys import base64_bytes, exact_fields, hex_bytes, hex_table, name_of


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 201, "é" * 101, 5, None, b"anna"])
def test_names_are_printable_text_of_bounded_length(name) -> None:
    assert name_of("é" * 100) == "é" * 100
    with pytest.raises(BadMessage):
        name_of(name)


@pytest.mark.parametrize("text", ["", "0", "0g", "0G", "FF", "00ff", " 0", "+1", 5, None, ["00"]])
def test_hexadecimal_is_lower_case_and_of_exact_length(text) -> None:
    assert hex_bytes({"a": "ff"}, "a", 1) == b"\xff"
    with pytest.raises(BadMessage):
        hex_bytes({"a": text}, "a", 1)


@pytest.mark.parametrize("text", ["A", "AA=", "AA==\n", "A A=", "é===", 5, None])
def test_base64_is_strict(text) -> None:
    assert base64_bytes({"a": "AA=="}, "a") == b"\0"
    with pytest.raises(BadMessage):
        base64_bytes({"a": text}, "a")


@pytest.mark.parametrize("record", [None, [], {}, {"a": 1, "b": 2}, {"b": 1}, "a"])
def test_fields_are_exact(record) -> None:
    with pytest.raises(BadMessage, match="not a thing"):
        exact_fields(record, ["a"], what="a thing")


@pytest.mark.parametrize("table", [None, [], {"": "00"}, {5: "00"}, {"x": "0"}, {"x": None}])
def test_tables_go_from_names_to_bytes(table) -> None:
    with pytest.raises(BadMessage):
        hex_table({"t": table}, "t", 1)
