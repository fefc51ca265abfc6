"""What the arrays of a round-1 message are: prototypes, one bilinear statistic, or that under masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

from twofold.errors import BadMessage
from twofold.protocol.codec import Container, Layout, field
from twofold.protocol.expected import LARGEST_NUMBER, Expected
from twofold.protocol.header import note_of
from twofold.protocol.masked import Masked
from twofold.protocol.plain_checks import is_hash
from twofold.protocol.plan import Plan
from twofold.prototypes.bilinear.content import BilinearSums
from twofold.prototypes.message import Integers, Noise, Prototypes, Units

__all__ = ["Content", "arrays_of", "content_of", "layouts_of", "numbers_of"]

Content = Prototypes | BilinearSums | Masked
#: Check numbers behind the masked ones, see `twofold.secure_sum.masking`.
CHECKS: Final = 2


def arrays_of(content: Content) -> dict[str, NDArray[Any]]:
    """Arrays of a message with this content."""
    if isinstance(content, Masked):
        return {"masked": content.packed}
    if isinstance(content, BilinearSums):
        return {"numbers": content.numbers}
    arrays = {"sums": content.sums, "counts": content.counts}
    return arrays if content.observed is None else arrays | {"observed": content.observed}


def numbers_of(plan: Plan, wanted: Expected) -> int:
    """Most bytes that the arrays of a message have."""
    if plan.secure is not None:
        return (wanted.length + CHECKS) * (_bits(plan) // 8)
    return 8 * (wanted.length or wanted.most_rows * (plan.n_items * (2 if wanted.observed else 1) + 1))


def layouts_of(container: Container, plan: Plan, wanted: Expected) -> dict[str, Layout]:
    """Arrays a message must hold; where private data decide the number of rows, as many as it says, within bounds."""
    if plan.secure is not None:
        return {"masked": Layout(dtype="U8", shape=(wanted.length + CHECKS, _bits(plan) // 8))}
    if wanted.length:
        return {"numbers": Layout(dtype="I64", shape=(wanted.length,))}
    rows = wanted.rows
    if rows is None:
        said = container.layouts["counts"].shape[0] if "counts" in container.layouts else 0
        if not 1 <= said <= wanted.most_rows:
            raise BadMessage("the number of prototypes is out of range.", expected=f"1 to {wanted.most_rows:,}")
        rows = said
    table = Layout(dtype="I64", shape=(rows, plan.n_items))
    layouts = {"sums": table, "counts": Layout(dtype="I64", shape=(rows,))}
    return layouts | ({"observed": table} if wanted.observed else {})


def content_of(
    arrays: Mapping[str, NDArray[Any]],
    record: Mapping[str, Any],
    wanted: Expected,
    plan: Plan,
    *,
    units: Units,
    noise: Noise,
) -> Content:
    """Give what the arrays of a message mean."""
    seeded, note = field(record, "seeded", bool), note_of(record)
    if plan.secure is not None:
        present = field(record, "present", str)
        if not is_hash(present) or field(record, "bits", int) != _bits(plan):
            raise BadMessage(
                "the masks of the message were made with another list or another modulus.",
                expected=f"numbers modulo 2^{_bits(plan)}, masked for the entities that shared keys",
            )
        return Masked(
            mechanism=wanted.mechanism,
            present=present,
            bits=_bits(plan),
            packed=arrays["masked"],
            seeded=seeded,
            note=note,
        )
    for array in arrays.values():
        _check_size(array)
    if wanted.length:
        return BilinearSums(
            mechanism=wanted.mechanism,
            numbers=arrays["numbers"],
            deviation=wanted.deviation,
            law=wanted.noise.law,
            seeded=seeded,
            note=note,
        )
    return Prototypes(
        mechanism=wanted.mechanism,
        sums=arrays["sums"],
        counts=arrays["counts"],
        observed=arrays.get("observed"),
        units=units,
        noise=noise,
        seeded=seeded,
        note=note,
    )


def _bits(plan: Plan) -> int:
    from twofold.protocol.terms import modulus_bits  # loads the library of ciphers, which other plans do without

    return modulus_bits(plan)


def _check_size(array: Integers) -> None:
    # Not np.abs: that of the smallest 64-bit number is negative.
    if int(array.max(initial=0)) > LARGEST_NUMBER or int(array.min(initial=0)) < -LARGEST_NUMBER:
        raise BadMessage(
            "a number in the message is so large that sums over all entities could overflow.",
            expected=f"whole numbers within {LARGEST_NUMBER:.1e}",
        )
