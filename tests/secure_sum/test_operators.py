"""Two shares of a report: each alone is uniform, together they are exact, and a box opens where it belongs only."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray
from scipy import stats

from tests.refused import refused
from tests.secure_sum.conftest import keys_from
from twofold.errors import BadMessage, BadParameter, BadShape
from twofold.secure_sum import operators
from twofold.secure_sum.derive import add_stream, stream
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.messages import pack, unpack
from twofold.secure_sum.operators import (
    ReportHeader,
    Share,
    add_share,
    box_bytes,
    commitment,
    joined_sum,
    open_share,
    split,
    words_match,
)

LENGTH = 200_000
#: Seeds are fixed where uniformity is tested, so this is decided once and for all, not on every run.
ALPHA = 1e-4
MODULI = (16, 24, 32, 40, 48, 56, 64)
KEYS = keys_from(0, 1), keys_from(0, 2)
SEALS = KEYS[0].public.seal, KEYS[1].public.seal
EXTREMES = np.array([0, 1, -1, 2**63 - 1, -(2**63), 2**31, -(2**31), 255, -256], dtype=np.int64)


def header(length: int = 9, bits: int = 48, **changes: object) -> ReportHeader:
    made = ReportHeader(plan=b"p" * 32, entity="anna", report=b"r" * 16, bits=bits, length=length, seals=SEALS)
    return replace(made, **changes)  # type: ignore[arg-type]


def private(place: int) -> X25519PrivateKey:
    return private_of(KEYS[place].seal)


def opened(boxes: tuple[bytes, bytes], head: ReportHeader) -> tuple[Share, Share]:
    first, second = (open_share(private(place), boxes[place], head, place) for place in (0, 1))
    return first, second


def numbers(share: Share, head: ReportHeader) -> NDArray[np.uint64]:
    """What an operator adds for one share, cut to the modulus."""
    total = np.zeros(head.length, dtype=np.uint64)
    add_share(total, share, head)
    return total & np.uint64(2**head.bits - 1)


def wrapped(values: NDArray[np.int64], bits: int) -> list[int]:
    """Signed remainders, by Python's whole numbers."""
    half = 1 << bits - 1
    return [(int(one) + half) % (1 << bits) - half for one in values]


# Uniformity.


@pytest.fixture
def fixed_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds that repeat: a test that fails fails again."""
    count = iter(range(1, 10_000))
    monkeypatch.setattr(operators.os, "urandom", lambda size: next(count).to_bytes(4, "little") * (size // 4))


def p_values(found: NDArray[np.uint64], bits: int) -> dict[str, float]:
    """Every byte by 256 values, the lowest and the highest bit, and each number against the next one."""
    data = found.astype("<u8").view(np.uint8).reshape(-1, 8)[:, : bits // 8]
    tested = {f"byte {k}": stats.chisquare(np.bincount(data[:, k], minlength=256)).pvalue for k in range(bits // 8)}
    for name, bit in (("low bit", 0), ("high bit", bits - 1)):
        ones = np.count_nonzero(found >> np.uint64(bit) & np.uint64(1))
        tested[name] = stats.chisquare([ones, found.size - ones]).pvalue
    pairs = (data[:-1, 0] >> 4).astype(np.int64) * 16 + (data[1:, 0] >> 4)
    tested["pairs"] = stats.chisquare(np.bincount(pairs[::2], minlength=256)).pvalue
    return tested


def plain(kind: str) -> NDArray[np.int64]:
    made = {"zeros": np.zeros(1), "least": np.full(1, -(2**63)), "extremes": EXTREMES, "ones": np.ones(1)}[kind]
    if kind == "most":
        made = np.full(1, 2**63 - 1)
    return np.resize(made.astype(np.int64), LENGTH)


@pytest.mark.usefixtures("fixed_seeds")
@pytest.mark.parametrize("kind", ["zeros", "least", "extremes"])
@pytest.mark.parametrize("bits", [16, 48, 64])
def test_each_share_alone_is_uniform_whatever_the_numbers(kind: str, bits: int) -> None:
    head = header(LENGTH, bits)
    shares = opened(split(plain(kind), head), head)
    for place, share in enumerate(shares):
        tested = p_values(numbers(share, head), bits)
        assert {name: p for name, p in tested.items() if p < ALPHA} == {}, place


@pytest.mark.usefixtures("fixed_seeds")
def test_the_bytes_in_the_first_box_are_uniform() -> None:
    head = header(LENGTH)
    first, _ = opened(split(plain("zeros"), head), head)
    assert stats.chisquare(np.bincount(np.frombuffer(first.content, dtype=np.uint8), minlength=256)).pvalue > ALPHA


@pytest.mark.usefixtures("fixed_seeds")
def test_the_check_words_of_many_reports_are_uniform() -> None:
    """The word is the same 1 in every report: neither of its shares may show it, and lists hold them."""
    heads = [header(1, 16, report=place.to_bytes(16, "little")) for place in range(2_000)]
    words = np.array([[share.word for share in opened(split(np.zeros(1, np.int64), one), one)] for one in heads])
    for place in (0, 1):
        for byte in (0, 8):
            found = np.bincount(words[:, place] >> byte & 255, minlength=256)
            assert stats.chisquare(found).pvalue > ALPHA


def _narrow(total: NDArray[np.uint64], key: bytes, *, bits: int, subtract: bool = False) -> None:
    part = np.zeros_like(total)
    add_stream(part, key, bits=bits)
    part &= np.uint64(2 ** (bits - 1) - 1)
    total -= part


def _even(total: NDArray[np.uint64], key: bytes, *, bits: int, subtract: bool = False) -> None:
    part = np.zeros_like(total)
    add_stream(part, key, bits=bits)
    total -= part & ~np.uint64(1)


def _slightly_biased(total: NDArray[np.uint64], key: bytes, *, bits: int, subtract: bool = False) -> None:
    """One byte in fifty is a zero."""
    part = np.zeros_like(total)
    add_stream(part, key, bits=bits)
    part[::50] &= ~np.uint64(255)
    total -= part


def _doubled(total: NDArray[np.uint64], key: bytes, *, bits: int, subtract: bool = False) -> None:
    """Every number serves twice."""
    part = np.zeros(total.size // 2 + 1, dtype=np.uint64)
    add_stream(part, key, bits=bits)
    total -= np.repeat(part, 2)[: total.size]


def _none(total: NDArray[np.uint64], key: bytes, *, bits: int, subtract: bool = False) -> None:
    """No share at all."""


@pytest.mark.usefixtures("fixed_seeds")
@pytest.mark.parametrize(
    ("broken", "caught_by"),
    [
        (_narrow, "high bit"),
        (_even, "low bit"),
        (_slightly_biased, "byte 0"),
        (_doubled, "pairs"),
        (_none, "byte 5"),
    ],
)
def test_a_biased_share_is_caught(monkeypatch: pytest.MonkeyPatch, broken: object, caught_by: str) -> None:
    head = header(LENGTH)
    monkeypatch.setattr(operators, "add_stream", broken)
    boxes = split(plain("zeros"), head)
    first = open_share(private(0), boxes[0], head, 0)
    # The word stands before the numbers; with it, pairs of equal ones begin at an even place.
    assert p_values(unpack(first.content, head.bits), head.bits)[caught_by] < ALPHA


@pytest.mark.parametrize("value", [0, 1, -1, 2**15 - 1, -(2**15), 2**63 - 1])
def test_on_the_smallest_modulus_every_first_share_has_one_second_share(value: int) -> None:
    """All 2^16 second shares: the first one takes every value once, so a uniform second share makes it uniform."""
    second = np.arange(2**16, dtype=np.uint64)
    first = (np.full(2**16, value, dtype=np.int64).astype(np.uint64) - second) & np.uint64(2**16 - 1)
    assert np.array_equal(np.sort(first), second)
    assert set(joined_sum([first, second], bits=16).tolist()) == set(wrapped(np.array([value]), 16))


@pytest.mark.parametrize("bits", MODULI)
def test_the_first_share_is_the_number_without_the_stream_of_the_second(bits: int) -> None:
    """The message itself does that subtraction, with the seed that stands in the second box."""
    head = header(EXTREMES.size, bits)
    first, second = opened(split(EXTREMES, head), head)
    width = bits // 8
    key = stream(head.stream(second.content), width * (EXTREMES.size + 1))
    drawn = [int.from_bytes(key[at : at + width], "little") for at in range(0, len(key), width)]
    due = [(one - other) % 2**bits for one, other in zip([1, *EXTREMES.tolist()], drawn, strict=True)]
    assert unpack(first.content, bits).tolist() == due
    assert (first.word, second.word) == (due[0], drawn[0])


# The sum.


@pytest.mark.parametrize("bits", MODULI)
def test_the_joined_sum_is_exact(bits: int) -> None:
    rng, length, entities = np.random.default_rng(bits), 301, 12
    most = 2 ** (bits - 1) // entities
    values = rng.integers(-most, most, (entities, length))
    totals = [np.zeros(length, dtype=np.uint64) for _ in (0, 1)]
    for place, row in enumerate(values):
        head = header(length, bits, entity=f"entity-{place}")
        shares = opened(split(row, head), head)
        for total, share in zip(totals, shares, strict=True):
            add_share(total, share, head)
        assert words_match(shares[0].word, shares[1].word, bits=bits)
    assert np.array_equal(joined_sum(totals, bits=bits), values.sum(axis=0))


@pytest.mark.parametrize("bits", MODULI)
def test_numbers_beyond_the_modulus_wrap_around(bits: int) -> None:
    head = header(EXTREMES.size, bits)
    boxes = [split(EXTREMES, head) for _ in range(3)]
    totals = [np.zeros(EXTREMES.size, dtype=np.uint64) for _ in (0, 1)]
    for pair in boxes:
        for total, share in zip(totals, opened(pair, head), strict=True):
            add_share(total, share, head)
    assert joined_sum(totals, bits=bits).tolist() == [
        wrapped(np.array([3 * int(one)], object), bits)[0] for one in EXTREMES
    ]


def test_long_reports_cross_the_blocks_of_the_stream() -> None:
    values = np.arange(2**16 + 5, dtype=np.int64) - 7
    head = header(values.size, 40)
    shares = opened(split(values, head), head)
    assert np.array_equal(joined_sum([numbers(one, head) for one in shares], bits=40), values)


def test_the_size_of_a_box_follows_from_public_numbers_alone() -> None:
    for bits in MODULI:
        head = header(EXTREMES.size, bits)
        for values in (EXTREMES, np.zeros_like(EXTREMES)):
            assert [*map(len, split(values, head))] == [box_bytes(bits, EXTREMES.size, place) for place in (0, 1)]


# Two calls.


def test_two_calls_share_neither_seed_nor_share() -> None:
    """One seed over two inputs would show their difference."""
    head, values = header(64), np.arange(64)
    found = [opened(split(values, head), head) for _ in range(200)]
    for place in (0, 1):
        assert len({pair[place].content for pair in found}) == len(found)
    assert len({numbers(pair[0], head).tobytes() for pair in found}) == len(found)


def test_one_seed_in_two_reports_gives_two_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a broken generator that repeats a seed makes no two messages with one stream: the report has a name."""
    monkeypatch.setattr(operators.os, "urandom", lambda size: bytes(size))
    heads = [header(64), header(64, report=b"s" * 16), header(64, entity="bert"), header(64, plan=b"q" * 32)]
    drawn = {numbers(opened(split(np.zeros(64, np.int64), head), head)[1], head).tobytes() for head in heads}
    assert len(drawn) == len(heads)


# Boxes that moved.

OTHERS = {
    "plan": {"plan": b"q" * 32},
    "entity": {"entity": "bert"},
    "empty entity": {"entity": ""},
    "report": {"report": b"s" * 16},
    "first key": {"seals": (keys_from(0, 3).public.seal, SEALS[1])},
    "second key": {"seals": (SEALS[0], keys_from(0, 3).public.seal)},
    "keys swapped": {"seals": (SEALS[1], SEALS[0])},
}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("moved", OTHERS)
def test_a_box_opens_under_its_own_header_only(moved: str, place: int) -> None:
    boxes = split(EXTREMES, header())
    open_share(private(place), boxes[place], header(), place)
    with refused(BadMessage, "box"):
        open_share(private(place), boxes[place], header(**OTHERS[moved]), place)


def test_parts_of_a_header_do_not_run_into_each_other() -> None:
    """The name of an entity takes no byte from its neighbours."""
    one = header(plan=b"p" * 32, entity="ab")
    boxes = split(EXTREMES, one)
    with refused(BadMessage, "box"):
        open_share(private(0), boxes[0], replace(one, plan=b"p" * 32 + b"a", entity="b"), 0)


@pytest.mark.parametrize("place", [0, 1])
def test_another_length_or_modulus_with_as_many_bytes_does_not_open(place: int) -> None:
    """5 numbers and a word of 6 bytes are as long as 8 and a word of 4."""
    boxes = split(np.arange(5), header(5, 48))
    assert box_bytes(48, 5, 0) == box_bytes(32, 8, 0)
    with refused(BadMessage, "box"):
        open_share(private(place), boxes[place], header(8, 32), place)


def test_a_box_of_another_role_does_not_open() -> None:
    """Two numbers of 64 bits and a word have 24 bytes, three have 32: as long as a seed."""
    head = header(3, 64)
    boxes = split(np.arange(3), head)
    assert len(boxes[0]) == len(boxes[1])
    for place in (0, 1):
        for key in (0, 1):
            with refused(BadMessage, "box"):
                open_share(private(key), boxes[place], head, 1 - place)


@pytest.mark.parametrize("place", [0, 1])
def test_the_other_operator_and_a_stranger_open_nothing(place: int) -> None:
    boxes = split(EXTREMES, header())
    for secret in (private(1 - place), private_of(keys_from(0, 3).seal)):
        with refused(BadMessage, "box"):
            open_share(secret, boxes[place], header(), place)


@pytest.mark.parametrize("place", [0, 1])
def test_a_changed_byte_anywhere_does_not_open(place: int) -> None:
    box = split(EXTREMES, header())[place]
    for at in range(len(box)):
        for bit in (0, 7):
            changed = bytearray(box)
            changed[at] ^= 1 << bit
            if at == 31 and bit == 7:
                continue  # RFC 7748: the highest bit of a public key is ignored; tested below
            with refused(BadMessage, "box"):
                open_share(private(place), bytes(changed), header(), place)


@pytest.mark.parametrize("place", [0, 1])
def test_the_ignored_bit_of_a_key_changes_nothing_or_does_not_open(place: int) -> None:
    box = bytearray(split(EXTREMES, header())[place])
    share = open_share(private(place), bytes(box), header(), place)
    box[31] ^= 128
    try:
        again = open_share(private(place), bytes(box), header(), place)
    except BadMessage:
        return
    assert again == share


@pytest.mark.parametrize("key", [bytes(32), b"\1" + bytes(31), b"\xff" * 32])
def test_an_encapsulated_key_of_small_order_does_not_open(key: bytes) -> None:
    box = split(EXTREMES, header())[0]
    with refused(BadMessage, "box"):
        open_share(private(0), key + box[32:], header(), 0)


@pytest.mark.parametrize("change", [b"", b"x", None])
def test_a_box_of_another_length_is_refused_before_it_is_opened(change: bytes | None) -> None:
    box = split(EXTREMES, header())[1]
    with refused(BadMessage, "box", found=f"{len(box) + 1 if change else 0 if change == b'' else len(box) - 1}"):
        open_share(private(1), box + change if change else b"" if change == b"" else box[:-1], header(), 1)


def test_a_refusal_shows_nothing_of_the_numbers() -> None:
    texts = set()
    for values in (EXTREMES, np.zeros_like(EXTREMES)):
        with pytest.raises(BadMessage) as caught:
            open_share(private(1), split(values, header())[0], header(), 0)
        texts.add(str(caught.value))
    assert len(texts) == 1


# Check words.


def _sealed(content: bytes, head: ReportHeader, place: int) -> bytes:
    public = private(place).public_key()
    return operators._SUITE.encrypt(content, public, info=head.bound(place))


def test_a_wrong_seed_under_a_valid_seal_is_told_by_the_check_word() -> None:
    head = header()
    first, second = opened(split(EXTREMES, head), head)
    other = open_share(private(1), _sealed(b"w" * 32, head, 1), head, 1)
    assert words_match(first.word, second.word, bits=48)
    assert not words_match(first.word, other.word, bits=48)


def test_halves_of_two_reports_are_told_by_the_check_word() -> None:
    one, two = (opened(split(EXTREMES, header()), header()) for _ in range(2))
    assert not words_match(one[0].word, two[1].word, bits=48)
    assert not words_match(two[0].word, one[1].word, bits=48)


def test_a_first_share_of_zeros_is_told_by_the_check_word() -> None:
    head = header()
    _, second = opened(split(EXTREMES, head), head)
    forged = open_share(private(0), _sealed(pack(np.zeros(10, dtype=np.uint64), 48), head, 0), head, 0)
    assert not words_match(forged.word, second.word, bits=48)


@pytest.mark.parametrize("bits", MODULI)
def test_words_match_modulo_the_modulus_only(bits: int) -> None:
    rng = np.random.default_rng(bits)
    for word in rng.integers(0, 2**bits, 20, dtype=np.uint64).tolist():
        other = (1 - word) % 2**bits
        assert words_match(word, other, bits=bits)
        assert words_match(other, word, bits=bits)
        assert not any(words_match(word, (other + 2**bit) % 2**bits, bits=bits) for bit in range(bits))


# What cannot be a header, or a row of numbers.


def test_one_sealing_key_for_both_operators_is_refused() -> None:
    with refused(BadParameter, "seals"):
        header(seals=(SEALS[0], SEALS[0]))


def test_a_sealing_key_that_is_the_same_in_another_form_is_refused() -> None:
    """The highest bit of an X25519 key is ignored: such a pair would be one operator."""
    twin = SEALS[0][:31] + bytes([SEALS[0][31] ^ 128])
    with refused(BadParameter, "seals"):
        header(seals=(SEALS[0], twin))


@pytest.mark.parametrize("weak", [bytes(32), b"\1" + bytes(31)])
def test_a_sealing_key_of_small_order_is_refused(weak: bytes) -> None:
    with refused(BadParameter, "seals"):
        split(EXTREMES, header(seals=(SEALS[0], weak)))


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("bits", {"bits": 8}),
        ("bits", {"bits": 20}),
        ("bits", {"bits": 72}),
        ("bits", {"length": 0}),
        ("report", {"report": b"r" * 15}),
        ("seals", {"seals": (SEALS[0], b"k" * 31)}),
    ],
)
def test_a_header_out_of_range_is_refused(parameter: str, changes: dict[str, object]) -> None:
    with refused(BadParameter, parameter):
        header(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [np.arange(8), np.arange(10), np.arange(9.0), np.arange(9, dtype=np.int32), np.zeros((9, 1), np.int64), [0] * 9],
)
def test_another_shape_or_type_is_refused(values: NDArray[np.int64]) -> None:
    with refused(BadShape, "values"):
        split(values, header())


# Commitments.


def test_a_commitment_binds_bytes_and_nonce() -> None:
    made = {commitment(data, nonce) for data in (b"", b"a", b"ab") for nonce in (bytes(32), b"n" * 32)}
    assert len(made) == 6
    assert commitment(b"ab", b"n" * 32) != commitment(b"b", b"n" * 32 + b"a")
