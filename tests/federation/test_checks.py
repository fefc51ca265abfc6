"""Refusals before anything is carried."""

from __future__ import annotations

import pytest

from twofold.errors import BadMessage
from twofold.federation.mailbox import as_bytes, check_sender


def test_a_round_2_message_has_no_sender(factors):
    with pytest.raises(BadMessage, match="another name"):
        check_sender(factors(), "st-anna")


def test_bytes_only():
    with pytest.raises(BadMessage, match="bytearray"):
        as_bytes(bytearray(b"x"))
