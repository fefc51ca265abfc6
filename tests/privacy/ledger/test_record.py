"""A line is accepted in exactly one form."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.privacy.ledger.record import START, decode, encode, seal

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(body=st.dictionaries(st.text(), PLAIN, max_size=4), number=st.integers(0, 10**9))
def test_what_is_written_is_read_back(body, number):
    record = seal(number=number, previous=START, body={**body, "kind": "raise"})
    line = encode(record)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert line.isascii()
    assert decode(line[:-1]) == record


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: json.dumps(whole).encode(),  # spaces
        lambda whole: json.dumps(dict(reversed(whole.items())), separators=(",", ":")).encode(),  # order
        lambda whole: json.dumps({**whole, "more": 1}, separators=(",", ":"), sort_keys=True).encode(),
        lambda whole: json.dumps({**whole, "number": "0"}, separators=(",", ":"), sort_keys=True).encode(),
        lambda whole: json.dumps({**whole, "number": 0.0}, separators=(",", ":"), sort_keys=True).encode(),
    ],
)
def test_the_same_content_in_another_form_is_refused(change):
    whole = json.loads(encode(seal(number=0, previous=START, body={"kind": "open"})))
    with pytest.raises(ValueError, match="form"):
        decode(change(whole))


BAD = [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"body":[],"number":0}', bytes(50)]


@pytest.mark.parametrize("line", BAD, ids=map(str, range(len(BAD))))
def test_what_is_no_record_is_refused(line):
    with pytest.raises(ValueError, match="not a whole record"):
        decode(line)
