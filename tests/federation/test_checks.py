"""Refusals before anything is carried."""

from __future__ import annotations

from tests.refused import refused
from twofold.errors import BadMessage
from twofold.federation.mailbox import as_bytes, check_sender


def test_a_round_2_message_has_no_sender(factors):
    with refused(BadMessage, "entity", found="none", expected="st-anna"):
        check_sender(factors(), "st-anna")


def test_bytes_only():
    with refused(BadMessage, "data", found="bytearray"):
        as_bytes(bytearray(b"x"))
