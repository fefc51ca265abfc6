"""Hostile reports, bundles and messages between two operators.

Boxes are sealed with fresh randomness, so their bytes differ from process to process; their lengths do not, and a case
changes the same places in each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from studies.hostile.insider import NAMES, PERSON, SECOND, both_operators, resign_both, resign_message, resign_report
from studies.hostile.mutate import reseal
from studies.hostile.plans import COUNTS, factors, plan
from studies.hostile.registry import Parser, register
from tests.enrolled import OPERATOR
from twofold.errors import BadMessage
from twofold.federation.exchange import (
    decode_draft,
    decode_freeze,
    decode_list,
    decode_reveal,
    encode_draft,
    encode_freeze,
    encode_list,
    encode_reveal,
)
from twofold.federation.factors import load_factors
from twofold.federation.messages import modulus_bits
from twofold.federation.plan import Plan
from twofold.federation.reports import (
    decode_bundle,
    decode_report,
    encode_bundle,
    encode_report,
    half,
    person_name,
    voucher_text,
)
from twofold.release.content import BilinearSums
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.operators import open_share
from twofold.storage.container import cosign
from twofold.storage.files import read_limited
from twofold.storage.signing import Purpose

__all__: list[str] = []

_MOST: Final = 1 << 30
_BOTH: Final = (OPERATOR, SECOND)


@cache
def _reports(kind: str) -> tuple[bytes, ...]:
    """A whole report and its two halves."""
    chosen = plan(kind)
    made = chosen.release_mechanism.release(COUNTS[:1] if chosen.people else COUNTS, chosen.parameters).value
    assert isinstance(made, BilinearSums)
    if chosen.people:
        name = person_name(PERSON.public)
        signature = both_operators()[NAMES[0]].sign.sign(Purpose.VOUCHER, voucher_text(chosen, name)).hex()
        voucher = {"institution": NAMES[0], "signature": signature}
        whole = encode_report(made, chosen, entity=name, signer=PERSON, voucher=voucher)
    else:
        whole = encode_report(made, chosen, entity=NAMES[1], signer=both_operators()[NAMES[1]].sign)
    read = decode_report(whole, chosen)
    return whole, half(read, 0), half(read, 1)


def _use_report(data: bytes, chosen: Plan) -> object:
    """Read a report, and open its boxes as both operators would."""
    found = decode_report(data, chosen)
    for place, name in enumerate(_BOTH):
        box = found.boxes[place]
        if box is not None:
            open_share(private_of(both_operators()[name].sum.seal), box, found.header, place)
            half(found, place)
    return found.receipt, repr(found)


for _kind in ("operators", "people"):
    register(
        Parser(
            name="report" if _kind == "operators" else "report of a person",
            form="container",
            samples=lambda kind=_kind: list(_reports(kind)),  # type: ignore[misc]
            parse=lambda path, kind=_kind: _use_report(read_limited(path, _MOST), plan(kind)),  # type: ignore[misc]
            insider=resign_report,
            sealed=True,
        )
    )


def _use_bundle(path: Path) -> object:
    used = []
    for one in decode_bundle(read_limited(path, _MOST), plan("operators")):
        try:
            used.append(_use_report(one, plan("operators")))
        except BadMessage as error:  # one report that does not belong here stops no other
            used.append(error.summary)
    return used


register(
    Parser(
        name="bundle of reports",
        form="container",
        samples=lambda: [encode_bundle(_reports("operators"), plan("operators")), encode_bundle([], plan("operators"))],
        parse=_use_bundle,
        insider=reseal,
        sealed=True,
    )
)


def _final(seed: int) -> bytes:
    return cosign(factors("operators", seed), both_operators()[SECOND].sign)


def _sent(make: Callable[..., bytes], *content: Any, **more: Any) -> list[bytes]:
    """The same message of either operator."""
    return [
        make(*content, plan("operators"), operator=name, signer=both_operators()[name].sign, **more) for name in _BOTH
    ]


def _list_samples() -> list[bytes]:
    rng = np.random.default_rng(3)
    digests = np.sort(rng.integers(0, 256, (4, 1)).astype(np.uint8), axis=0).repeat(32, axis=1)
    return _sent(encode_list, digests, rng.integers(0, 256, (4, 8)).astype(np.uint8), number=2)


def _share() -> bytes:
    stated = plan("operators").spec.sum
    assert stated is not None
    return bytes(stated.length * modulus_bits(plan("operators")) // 8)


_FREEZE: Final = {"lists": ("1" * 64, "2" * 64), "reports": "3" * 64, "count": 4, "commitment": "4" * 64}
_EXCHANGED: Final[dict[str, tuple[Callable[[], list[bytes]], Callable[[bytes, Plan], object]]]] = {
    "operator's list": (_list_samples, decode_list),
    "operator's freeze": (lambda: _sent(encode_freeze, **_FREEZE), decode_freeze),
    "operator's reveal": (lambda: _sent(encode_reveal, _share(), b"n" * 32), decode_reveal),
    "operator's draft": (lambda: _sent(encode_draft, factors("operators", 0)), decode_draft),
}
for _name, (_samples, _decode) in _EXCHANGED.items():
    register(
        Parser(
            name=_name,
            form="container",
            samples=_samples,
            parse=lambda path, decode=_decode: decode(read_limited(path, _MOST), plan("operators")),  # type: ignore[misc]
            insider=resign_message,
            sealed=True,
        )
    )
register(
    Parser(
        name="factors operators",
        form="container",
        samples=lambda: [_final(0), _final(1)],
        parse=lambda path: load_factors(path, plan("operators")).hash,
        insider=resign_both,
        sealed=True,
    )
)
