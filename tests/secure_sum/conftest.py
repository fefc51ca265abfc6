"""A federation in memory: keys from a seed, terms, shares, and a run with drop-outs at any stage."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from twofold.secure_sum import (
    Keys,
    MaskedMessage,
    Opened,
    SharesMessage,
    Terms,
    UnmaskMessage,
    add_masked,
    answer,
    mask,
    share_secrets,
    unmask,
)


def keys_from(seed: int, place: int) -> Keys:
    """Repeatable keys: a test that fails fails again."""
    parts = {
        part: hashlib.sha256(f"{seed} {place} {part}".encode()).digest() for part in ("mask", "seal", "seed", "salt")
    }
    return Keys(**parts)


def only_for(message: SharesMessage, receiver: str) -> SharesMessage:
    """The part that a receiver needs."""
    return replace(message, boxes={name: box for name, box in message.boxes.items() if name == receiver})


@dataclass
class Federation:
    """Everyone's keys and the terms."""

    keys: dict[str, Keys]
    terms: Terms
    shares: dict[str, SharesMessage] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return self.terms.names

    def share(self, absent: Collection[str] = ()) -> list[str]:
        self.shares = {
            name: share_secrets(self.keys[name], name, self.terms) for name in self.names if name not in absent
        }
        return sorted(self.shares)

    def mask(self, name: str, values: NDArray[np.int64], present: list[str]) -> MaskedMessage:
        return mask(values, self.keys[name], name, self.terms, present)

    def answer(self, name: str, present: list[str], survivors: list[str], **more: UnmaskMessage) -> UnmaskMessage:
        handed_on = {sender: only_for(message, name) for sender, message in self.shares.items()}
        return answer(self.keys[name], name, self.terms, handed_on, present, survivors, **more)

    def run(
        self,
        values: dict[str, NDArray[np.int64]],
        *,
        before_sharing: Collection[str] = (),
        after_sharing: Collection[str] = (),
        after_masking: Collection[str] = (),
    ) -> Opened:
        """The whole protocol; the three collections name who drops out when."""
        present = self.share(before_sharing)
        sent = [self.mask(name, values[name], present) for name in present if name not in after_sharing]
        total, survivors = add_masked(sent, self.terms, present)
        answers = {name: self.answer(name, present, list(survivors)) for name in survivors if name not in after_masking}
        return unmask(total, answers, self.terms, self.shares, present, survivors)


def make(entities: int, *, seed: int = 0, context: bytes = b"plan", **numbers: int) -> Federation:
    """A federation with names e000, e001, ...; its numbers are as small as allowed unless given."""
    keys = {f"e{place:03}": keys_from(seed, place) for place in range(entities)}
    least = (entities + numbers.get("colluders", 0)) // 2 + 1
    numbers.setdefault("threshold", least)
    numbers.setdefault("least_survivors", numbers["threshold"])
    numbers.setdefault("least_present", numbers["least_survivors"])
    roster = {name: pair.public for name, pair in keys.items()}
    return Federation(keys, Terms(context=context, roster=roster, **numbers))


@pytest.fixture(scope="session")
def federation() -> Callable[..., Federation]:
    return make
