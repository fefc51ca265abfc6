"""The picture of two rounds says in words what it shows, and escapes them."""

from __future__ import annotations

from twofold.report.federation_page import TwoRounds


def test_the_label_tells_the_whole_story() -> None:
    text = TwoRounds(entities="3 banks", there="12 kB each", back="9 kB of factors", cost="ε = 1").html()
    label = text.split('aria-label="')[1].split('"')[0]
    for part in ("3 banks", "12 kB each", "9 kB of factors", "ε = 1", "raw records"):
        assert part in label
        assert part in text.replace(label, "")


def test_words_are_escaped() -> None:
    hostile = '"><script>'
    text = TwoRounds(entities=hostile, there=hostile, back=hostile, cost=hostile, inside=hostile).html()
    assert "<script" not in text
