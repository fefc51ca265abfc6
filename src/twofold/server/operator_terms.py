"""The terms of an operator: which keys and files a real one needs, and which reports two lists have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike

from twofold.errors import NotForRealUse, NotReady, PrivacyError, Run
from twofold.federation.exchange import Freeze, ListMessage, Reveal
from twofold.federation.messages import modulus_bits
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.secure_sum.derive import digest
from twofold.secure_sum.operators import words_match
from twofold.storage.container import receipt

__all__ = ["Pair", "check_known", "check_real"]


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


def check_real(plan: Plan, keys: KeyStore, *, state: str | PathLike[str] | None, rng: int | None) -> None:
    """Refuse an operator of a real plan with a seed, without files, or without its agreement."""
    if plan.simulation:
        return
    if rng is not None:
        raise NotForRealUse("repeatable noise protects nobody; nothing is drawn.", fix="leave rng out", parameter="rng")
    if state is None or keys.in_memory:
        raise NotForRealUse(
            "an operator without files forgets which sum it has shown.",
            expected="a file of secret keys and a folder for the state",
            fix="Operator(plan, KeyStore(path), state=folder)",
            parameter="state",
        )
    if keys.agreement(plan.hash) is None:
        raise NotReady(
            "the operator has not agreed to this plan; nothing is taken.",
            fix=Run(f"plan agree plan.toml --keys {keys.identity.name}.keys"),
            parameter="agreements",
        )


def check_known(sent: Freeze | Reveal, *, freeze: bytes | None, share: bytes | None) -> None:
    """Refuse a final list or a sum of an operator's own that is not the one in its folder.

    Raises
    ------
    PrivacyError
        The folder is an older copy, or another one; from there a second noise would be drawn.
    """
    known = sent.data == freeze if isinstance(sent, Freeze) else sent.share + sent.nonce == share
    if not known:
        raise PrivacyError(
            "this operator has sent a sum for this plan that its folder does not know; nothing is drawn or sent.",
            expected="the folder in which that sum was frozen: a second noise would hide less",
            fix="--state with that folder; if it is lost, start a new plan with new keys",
            parameter="state",
        )
