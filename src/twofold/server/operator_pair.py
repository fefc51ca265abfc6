"""What two operators' lists have in common: the reports of a sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from twofold.federation.exchange import ListMessage
from twofold.federation.messages import modulus_bits
from twofold.federation.plan import Plan
from twofold.secure_sum.derive import digest
from twofold.secure_sum.operators import words_match
from twofold.storage.container import receipt

__all__ = ["Pair"]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two lists, the first operator's first, and the reports that both hold and whose check words match.

    Parameters
    ----------
    lists : pair of str
        Receipts of the lists.
    digests : tuple of bytes
        The reports, each once, in order.
    """

    lists: tuple[str, str]
    digests: tuple[bytes, ...] = field(repr=False)

    @classmethod
    def of(cls, first: ListMessage, second: ListMessage, plan: Plan) -> Pair:
        """Compare the list of the first operator with that of the second."""
        bits, both = modulus_bits(plan), list[bytes]()
        known = {one.tobytes(): word for one, word in zip(first.digests, first.words, strict=True)}
        for one, word in zip(second.digests, second.words, strict=True):
            name = one.tobytes()
            if name in known:
                words = (int.from_bytes(each.tobytes(), "little") for each in (known[name], word))
                if words_match(*words, bits=bits):
                    both.append(name)
        return cls(lists=(receipt(first.data), receipt(second.data)), digests=tuple(both))

    @property
    def hash(self) -> str:
        """Hash of the reports."""
        return digest("operators list", *self.digests).hex()
