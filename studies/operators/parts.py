"""Operators of a run: honest, dishonest in one way, killed and started again; and the way between them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from studies.operators.forge import World
from twofold.errors import TwofoldError
from twofold.federation.exchange import encode_draft, encode_freeze, encode_list, encode_reveal
from twofold.federation.factors import ItemFactors
from twofold.federation.mailbox import Rejected, Step, StepId, Submission
from twofold.federation.messages import read_header, receipt
from twofold.identity.keystore import KeyStore
from twofold.server.operate import operate
from twofold.server.operator import Operator
from twofold.server.operator_terms import Pair
from twofold.storage import files as disk

__all__ = ["DISHONEST", "Killed", "Part", "Way"]


class Killed(BaseException):
    """Stands for the end of a process."""


class Way:
    """An operator's mailbox: what it posts reaches the other one, sometimes a round later, sometimes twice."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.other: Way = self
        self.posted: dict[StepId, dict[str, bytes]] = {}
        self.out: bytes | None = None
        self._here: dict[StepId, list[Submission]] = {}
        self._later: list[tuple[StepId, bytes]] = []

    def deliver(self, step: StepId, data: bytes) -> None:
        """Let a message arrive."""
        name = read_header(data).entity or ""
        self._here.setdefault(step, []).append(Submission(entity=name, receipt=receipt(data), read=lambda: data))

    def next_round(self) -> None:
        """Let arrive what was on its way."""
        waiting, self._later = self._later, []
        for step, data in waiting:
            self.deliver(step, data)

    def submissions(self, step: Step) -> Iterator[Submission]:
        """Give what arrived."""
        yield from list(self._here.get(step.id, ()))

    def rejected(self, step: Step) -> list[Rejected]:  # noqa: ARG002
        """Nothing: the operators judge."""
        return []

    def post(self, step: Step, data: bytes) -> None:
        """Send to the other operator."""
        known = self.posted.setdefault(step.id, {})
        if receipt(data) in known:
            return
        known[receipt(data)] = data
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            if self.rng.random() < 0.3:
                self.other._later.append((step.id, data))
            else:
                self.other.deliver(step.id, data)

    def sent(self, step: Step) -> Iterator[Submission]:
        """Give what was posted."""
        for mark, data in list(self.posted.get(step.id, {}).items()):
            yield Submission(entity=read_header(data).entity or "", receipt=mark, read=partial(bytes, data))

    def publish(self, step: Step, data: bytes) -> str:  # noqa: ARG002
        """Publish once."""
        assert self.out in (None, data), "two different publications"
        self.out = data
        return receipt(data)

    def published(self, step: Step) -> bytes | None:  # noqa: ARG002
        """Give what was published."""
        return self.out


class _NoNoise(Operator):
    """Adds no noise."""

    def _noisy_share(self, pair: Pair) -> bytes:
        terms = self.terms
        self.terms = terms.with_(noise="entities")
        try:
            return super()._noisy_share(pair)
        finally:
            self.terms = terms


class _OtherList(Operator):
    """Leaves out one report, and says a false check word of another."""

    def make_list(self) -> bytes:
        digests, words = self.book.listed()
        changed = words[1:].copy()
        changed[:1, 0] ^= 1
        number = len(self.own_lists) + 1
        data = encode_list(digests[1:], changed, self.plan, operator=self.name, number=number, signer=self.keys.signer)
        return self.book.once(f"list {number:06}", data)


class _OtherFreeze(Operator):
    """Freezes reports that are not those of the two lists."""

    def make_freeze(self, pair: Pair) -> bytes:
        return super().make_freeze(_FalsePair(lists=pair.lists, digests=pair.digests))


class _FalsePair(Pair):
    @property
    def hash(self) -> str:
        return "0" * 64


class _OtherReveal(Operator):
    """Shows another sum than it committed to."""

    def make_reveal(self) -> bytes:
        super_kept = self.book.get("share")
        assert super_kept is not None
        share, nonce = bytes([super_kept[0] ^ 1]) + super_kept[1:-32], super_kept[-32:]
        return self.book.once(
            "reveal", encode_reveal(share, nonce, self.plan, operator=self.name, signer=self.keys.signer)
        )


class _OtherFactors(Operator):
    """Hands out item factors that do not follow from the sum."""

    def factorize(self) -> ItemFactors:
        found = super().factorize()
        return ItemFactors(**{**vars(found), "means": found.means + 1.0})


class _Twice(Operator):
    """Sends a second, different message of one kind after the first."""

    kind: StepId

    def second(self) -> bytes | None:
        """Give it, once the first is stored."""
        signer, name, frozen = self.keys.signer, self.name, self.freeze
        if self.kind is StepId.LISTS and (lists := self.own_lists):
            one = lists[0]
            return encode_list(one.digests[1:], one.words[1:], self.plan, operator=name, number=1, signer=signer)
        if self.kind is StepId.FREEZES and frozen is not None:
            return encode_freeze(
                self.plan, operator=name, lists=frozen.lists, reports=frozen.reports, count=frozen.count,
                commitment="0" * 64, signer=signer,
            )  # fmt: skip
        kept = self.book.get("share")
        if self.kind is StepId.REVEALS and kept is not None and self.book.get("reveal") is not None:
            return encode_reveal(kept[1:-32] + kept[:1], kept[-32:], self.plan, operator=name, signer=signer)
        draft = self.book.get("draft")
        if self.kind is StepId.DRAFTS and draft is not None:
            return encode_draft(b"other", self.plan, operator=name, signer=signer)
        return None


def _twice(kind: StepId) -> type[Operator]:
    return type(f"_Twice{kind}", (_Twice,), {"kind": kind})


#: What a dishonest operator does.
DISHONEST: Final[dict[str, type[Operator]]] = {
    "operator adds no noise": _NoNoise,
    "operators' lists differ": _OtherList,
    "operator freezes another list": _OtherFreeze,
    "operator shows another sum than committed": _OtherReveal,
    "operator makes up item factors": _OtherFactors,
    "operator sends two lists": _twice(StepId.LISTS),
    "operator sends two final lists": _twice(StepId.FREEZES),
    "operator publishes two sums": _twice(StepId.REVEALS),
}


class Part:
    """One operator of a run, with the memory that outlives its processes."""

    def __init__(self, made: World, place: int, way: Way, kind: type[Operator], seed: int) -> None:
        self.way, self.kind, self.honest = way, kind, kind is Operator
        self._keys = KeyStore(made.operator(place))
        self._start = partial(kind, made.plan, self._keys, rng=seed)
        self.operator = self._start()
        self.errors: list[TwofoldError] = []
        self.kills = 0

    def look(self, *, close: bool, forward: bool, kill: int | None) -> None:
        """Look once; with `kill`, die at that step and start again with what was stored."""
        self.way.next_round()
        try:
            with _dying(kill):
                operate(self.operator, self.way, close=close, forward=forward)
        except Killed:
            self.kills += 1
            book, self.operator = self.operator.book, self._start()
            self.operator.book = book
        except TwofoldError as error:
            self.errors.append(error)
        if isinstance(self.operator, _Twice) and (data := self.operator.second()) is not None:
            self.way.other.deliver(self.operator.kind, data)


@contextmanager
def _dying(last: int | None) -> Iterator[None]:
    left = last

    def count(_: str) -> None:
        nonlocal left
        assert left is not None
        left -= 1
        if left == 0:
            raise Killed

    disk._listener = None if last is None else count
    try:
        yield
    finally:
        disk._listener = None
