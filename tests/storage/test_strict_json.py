"""JSON of strangers: one reading or none."""

from __future__ import annotations

import pytest

from twofold.errors import BadMessage
from twofold.storage.container import canonical_json, parse_json, printable


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":{"b":1,"b":2}}',
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '{"a":' + "1" * 30 + "}",
        '{"a":' + "1" * 60_000 + "}",
        '{"a":' + "[" * 20 + "]" * 20 + "}",
        "[" * 60_000,
        '{"a":' * 9_000,
        '"' + '\\"' * 30_000,
        "[1]",
        "",
        "{}{}",
        '{"a":1',
        "\x00",
    ],
)
def test_what_is_not_one_small_object_is_refused(text):
    with pytest.raises(BadMessage):
        parse_json(text)


def test_nesting_that_we_write_ourselves_is_read():
    record = {"plan": {"catalog": {"hash": "0"}, "entities": ["a", "b"]}}
    assert parse_json(canonical_json(record)) == record


def test_not_a_number_is_never_written():
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json({"a": float("nan")})


def test_foreign_text_is_short_and_harmless():
    assert printable("\x1b[31m" + "ä\n" * 500, 20) == "?[31m" + "?" * 15
