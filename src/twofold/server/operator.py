r"""One of the two operators of a sum in shares: it takes reports, agrees on one list, and lets one noisy sum leave.

States, each stored before anything of it is sent:

=========  ====================================================  ==========================================
state      stored first                                          then sent
=========  ====================================================  ==========================================
open       every report that opens                               nothing
listed     the own list                                          the list
frozen     one list for good, the noisy sum of shares            a commitment to it
collected  the other's equal list                                the sum
published  the other's sum, which fits its commitment            the item factors, signed by both
=========  ====================================================  ==========================================

Privacy
-------
**Per plan, at most one noisy sum of shares leaves**: over one list, each entity at most once, a whole noise inside,
stored before it is sent. The proof in docs/reference/operators.md rests on that and on nothing else here. Reports are
left out for their signature, their length, a box that does not open, or a check word, none of which depends on the
numbers of an honest entity.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike

import numpy as np
from numpy.typing import NDArray

from twofold.errors import (
    BadMessage,
    ConflictingMessage,
    NotForRealUse,
    NotReady,
    PlanMismatch,
    RoundClosed,
    Run,
    TwofoldError,
)
from twofold.federation.exchange import (
    Draft,
    Freeze,
    ListMessage,
    decode_draft,
    decode_freeze,
    decode_list,
    decode_reveal,
    encode_draft,
    encode_freeze,
    encode_list,
    encode_reveal,
)
from twofold.federation.factors import ItemFactors, decode_factors, encode_factors
from twofold.federation.messages import modulus_bits, roster_of
from twofold.federation.plan import Plan
from twofold.federation.reports import decode_report, half, seals_of
from twofold.identity.keystore import KeyStore
from twofold.privacy.rng import source
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.content import BilinearSums
from twofold.secure_sum.derive import SECRET_BYTES, digest
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.masking import modulus_mask
from twofold.secure_sum.messages import pack, unpack
from twofold.secure_sum.operators import ReportHeader, add_share, commitment, joined_sum, open_share
from twofold.server.factorize import differing, factorize_moments, signed
from twofold.server.operator_book import Kept, OperatorBook
from twofold.storage.container import COSIGNATURE, cosign, open_container, receipt

__all__ = ["Operator", "Pair"]

#: Reports that are stored in one transaction, and their bytes.
_BATCH, _BATCH_BYTES = 500, 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two lists, the first operator's first, and the reports that both hold and whose check words match."""

    lists: tuple[str, str]
    digests: tuple[bytes, ...] = field(repr=False)

    @property
    def hash(self) -> str:
        """Hash of the reports."""
        return digest("operators list", *self.digests).hex()


class Operator:
    """One of two operators.

    Parameters
    ----------
    plan : Plan
        With two operators, and its roster at hand.
    keys : KeyStore
        The operator's secret keys; in memory for simulations only.
    state : path, optional
        A folder of this operator alone, to resume after any kill; in memory for simulations only.
    rng : int or Source, optional
        Repeatable noise, for simulations only.

    Privacy
    -------
    Sees sealed reports, uniform shares and, at the end, the noisy sum. Its noise is whole: it hides one person in the
    sum even from the other operator and from all other entities together. It is drawn once, when the list is frozen,
    and neither the noise nor the sum without it is stored.

    Paper
    -----
    Algorithm 2, lines 3 and 4, without a server that sees messages.
    """

    def __init__(
        self,
        plan: Plan,
        keys: KeyStore,
        *,
        state: str | PathLike[str] | None = None,
        rng: int | None = None,
        threads: int | None = None,
    ) -> None:
        if plan.operators is None:
            raise PlanMismatch("the plan has no two operators.", fix="Plan(..., secure=OperatorSum(...))")
        members = roster_of(plan).operators
        self.plan, self.keys, self.terms, self.threads = plan, keys, plan.operators, threads
        self.name = keys.identity.name
        if members.get(self.name) != keys.identity:
            raise PlanMismatch(
                "the keys are not those of an operator of the plan.",
                found=f"keys of {self.name}",
                expected=f"those of {' or '.join(members)}",
                fix="use the right key file, or ask for a plan with the right roster",
                parameter="keys",
            )
        _check_real(plan, keys, state=state, rng=rng)
        self.place = [*members].index(self.name)
        self.peer = next(name for name in members if name != self.name)
        keys.bind(plan.hash)
        self.book = OperatorBook(state, plan)
        self._private = private_of(keys.keys.seal)
        self._noise = source(rng)
        self._seals = seals_of(plan)

    # Reports.

    @property
    def frozen(self) -> bool:
        """Whether the list is final."""
        return self.book.get("freeze") is not None

    def take(self, data: bytes) -> str:
        """Take a report or the half of one that is for this operator; give its entity's name.

        Raises
        ------
        BadMessage, PlanMismatch, NotForRealUse
            It does not belong here, or does not open.
        ConflictingMessage
            The entity sent another one before, which stays.
        RoundClosed
            The list is final, or there are as many reports as the plan has entities.
        """
        kept = self._opened(data)
        if kept is not None:
            self.book.add([kept])
            return kept.entity
        return decode_report(data, self.plan).entity

    def take_all(self, reports: Iterable[tuple[str, bytes]]) -> int:
        """Take many reports, given with a public name each; refusals are remembered. Give how many were new.

        They are stored some hundred or some megabytes at a time, so memory does not grow with their number.
        """
        new, size, waiting, marks = 0, 0, dict[str, Kept](), list[tuple[str, str | None, str | None]]()
        for label, data in reports:
            mark = receipt(data)
            if self.book.seen(mark):
                continue
            try:
                kept = self._opened(data, waiting)
                if kept is not None:
                    waiting[kept.entity] = kept
                    size += len(data)
                marks.append((mark, None, None))
            except _OtherHalf:
                continue
            except TwofoldError as error:
                marks.append((mark, label, error.summary))
            if len(marks) >= _BATCH or size >= _BATCH_BYTES:
                new += self._store(waiting, marks)
                size, waiting, marks = 0, {}, []
        return new + self._store(waiting, marks)

    def _store(self, waiting: Mapping[str, Kept], marks: list[tuple[str, str | None, str | None]]) -> int:
        if waiting:
            self.book.add(waiting.values())
        if marks:
            self.book.mark(marks)
        return len(waiting)

    def _opened(self, data: bytes, waiting: Mapping[str, Kept] | None = None) -> Kept | None:
        """Open this operator's share of a report; None if the same report is here already."""
        report = decode_report(data, self.plan)
        box, other = report.boxes[self.place], report.boxes[1 - self.place]
        if box is None:
            raise _OtherHalf("this half of the report is for the other operator.", parameter="boxes")
        before = (waiting or {}).get(report.entity)
        known = before.digest if before is not None else self.book.digest_of(report.entity)
        if known == report.digest:
            return None
        if known is not None:
            raise ConflictingMessage(
                "an entity sent two different reports; the first one counts.",
                found=f"two reports of {report.entity}",
                expected="one report from each entity; the same bytes may arrive twice",
                parameter="entity",
            )
        if self.frozen:
            raise RoundClosed("the list of reports is final; this one arrived too late.")
        if self.book.count + len(waiting or {}) >= self.plan.expected_entities:
            raise RoundClosed(
                "there are as many reports as the plan has entities.", found=f"{self.plan.expected_entities:,}"
            )
        share = open_share(self._private, box, report.header, self.place)
        return Kept(
            entity=report.entity,
            digest=report.digest,
            report=report.header.report,
            word=share.word,
            box=box,
            half=None if other is None else half(report, 1 - self.place),
        )

    # Lists.

    @property
    def own_lists(self) -> list[ListMessage]:
        """The lists that this operator sent, the newest last."""
        return [decode_list(data, self.plan) for data in self.book.every("list ")]

    @property
    def peer_lists(self) -> list[ListMessage]:
        """The lists of the other operator that arrived, the newest last."""
        return [decode_list(data, self.plan) for data in self.book.every("peer list ")]

    def make_list(self) -> bytes:
        """Store a list of all reports that are here, to be sent; a later one replaces it until one is frozen."""
        number = len(self.own_lists) + 1
        digests, words = self.book.listed()
        data = encode_list(digests, words, self.plan, operator=self.name, number=number, signer=self.keys.signer)
        return self.book.once(f"list {number:06}", data)

    def hear_list(self, data: bytes) -> None:
        """Take a list of the other operator.

        Raises
        ------
        ConflictingMessage
            It sent two different lists under one number: evidence, and the end of this plan.
        """
        found = decode_list(data, self.plan)
        self._from_peer(found.entity)
        self._heard(f"peer list {found.number:06}", data, "lists")

    def pair(self, own: ListMessage, peer: ListMessage) -> Pair:
        """Find the reports that both lists hold and whose check words match."""
        mine = {one.tobytes(): word for one, word in zip(own.digests, own.words, strict=True)}
        bits, both = modulus_bits(self.plan), list[bytes]()
        for one, word in zip(peer.digests, peer.words, strict=True):
            name = one.tobytes()
            if name in mine:
                total = int.from_bytes(word.tobytes(), "little") + int.from_bytes(mine[name].tobytes(), "little")
                if (total - 1) % 2**bits == 0:
                    both.append(name)
        lists = receipt(own.data), receipt(peer.data)
        return Pair(lists=lists if self.place == 0 else (lists[1], lists[0]), digests=tuple(both))

    def agreed_pair(self) -> Pair | None:
        """Give the pair of lists to freeze: that of the other's freeze, if it froze, else the newest ones; or None.

        A freeze may arrive before the list that it names. Then there is nothing to freeze yet: any other pair would
        end the plan.
        """
        own, peer = self.own_lists, self.peer_lists
        if not own or not peer:
            return None
        frozen = self.peer_freeze
        if frozen is not None:
            ours = {receipt(one.data): one for one in own}
            theirs = {receipt(one.data): one for one in peer}
            one, other = frozen.lists if self.place == 0 else (frozen.lists[1], frozen.lists[0])
            return self.pair(ours[one], theirs[other]) if one in ours and other in theirs else None
        return self.pair(own[-1], peer[-1])

    # The sum.

    @property
    def freeze(self) -> Freeze | None:
        """What this operator froze, if it did."""
        data = self.book.get("freeze")
        return None if data is None else decode_freeze(data, self.plan)

    @property
    def peer_freeze(self) -> Freeze | None:
        """What the other operator froze, if it arrived."""
        data = self.book.get("peer freeze")
        return None if data is None else decode_freeze(data, self.plan)

    def make_freeze(self, pair: Pair) -> bytes:
        """Add up the shares of a pair's reports, add the whole noise, and store a commitment to be sent.

        Privacy
        -------
        The one draw. If a kill comes before it is stored, it is drawn afresh: nothing of it has left. If it was
        stored before, in whatever process, the stored one counts. A sum below the floor is refused.
        """
        if len(pair.digests) < self.terms.floor:
            raise RoundClosed(
                "fewer entities than the plan's floor: nothing is summed.",
                found=f"{len(pair.digests)}",
                expected=f"at least {self.terms.floor}",
                parameter="secure.floor",
            )
        if self.book.get("freeze") is None:
            share, nonce = self._noisy_share(pair), os.urandom(SECRET_BYTES)
            freeze = encode_freeze(
                self.plan,
                operator=self.name,
                lists=pair.lists,
                reports=pair.hash,
                count=len(pair.digests),
                commitment=commitment(share, nonce).hex(),
                signer=self.keys.signer,
            )
            self.book.once_together({"freeze": freeze, "share": share + nonce})
        kept = self.book.get("freeze")
        assert kept is not None
        self.keys.keep_freeze(receipt(kept))
        return kept

    def _noisy_share(self, pair: Pair) -> bytes:
        bits, stated = modulus_bits(self.plan), self.plan.spec.sum
        assert stated is not None
        total = np.zeros(stated.length, dtype=np.uint64)
        for one in self.book.reports(pair.digests):
            header = ReportHeader(
                plan=bytes.fromhex(self.plan.hash),
                entity=one.entity,
                report=one.report,
                bits=bits,
                length=stated.length,
                seals=self._seals,
            )
            add_share(total, open_share(self._private, one.box, header, self.place), header)
        if self.terms.whole_noises:
            mechanism = self.plan.release_mechanism
            assert isinstance(mechanism, Bilinear)  # the plan has checked it
            total += mechanism.operator_noise(self.plan.parameters, rng=self._noise).astype(np.uint64)
        return pack(total & modulus_mask(bits), bits)

    def hear_freeze(self, data: bytes) -> None:
        """Take the other operator's final list; a second, different one is evidence and stops the plan."""
        self._from_peer(decode_freeze(data, self.plan).entity)
        self._heard("peer freeze", data, "final lists")

    def make_reveal(self) -> bytes:
        """Store the noisy sum of shares, to be sent, once the other has frozen the very same list.

        Raises
        ------
        ConflictingMessage
            It froze another list. Nothing leaves.
        """
        own, peer = self.freeze, self.peer_freeze
        kept = self.book.get("share")
        if own is None or peer is None or kept is None:
            raise NotReady("both operators must freeze their lists first; nothing is shown.", parameter="freeze")
        if (own.reports, own.count, own.lists) != (peer.reports, peer.count, peer.lists):
            raise ConflictingMessage(
                "the operators froze different lists; nothing is shown.",
                found=f"{own.count} and {peer.count} reports",
                expected="one list",
                fix="a new plan; keep both messages: they are signed",
                parameter="freeze",
            )
        self.keys.keep_freeze(receipt(own.data))
        data = encode_reveal(
            kept[:-SECRET_BYTES], kept[-SECRET_BYTES:], self.plan, operator=self.name, signer=self.keys.signer
        )
        return self.book.once("reveal", data)

    def hear_reveal(self, data: bytes) -> None:
        """Take the other operator's noisy sum; one that does not fit its commitment is refused.

        Raises
        ------
        BadMessage
            It is not the sum that the other operator committed to.
        """
        found, frozen = decode_reveal(data, self.plan), self.peer_freeze
        self._from_peer(found.entity)
        if frozen is None:
            raise NotReady("the other operator's final list has not arrived yet.", parameter="freeze")
        if commitment(found.share, found.nonce).hex() != frozen.commitment:
            raise BadMessage(
                "the other operator shows a sum that it did not commit to.",
                found=f"from {self.peer}",
                expected="the sum behind its commitment",
                fix="keep both messages: they are signed; start a new plan without this operator",
                parameter="reveal",
            )
        self._heard("peer reveal", data, "sums")

    # Item factors.

    def total(self) -> BilinearSums | None:
        """Give the noisy sum over all entities of the list, once both operators have shown theirs."""
        own, peer, frozen = self.book.get("reveal"), self.book.get("peer reveal"), self.freeze
        if own is None or peer is None or frozen is None:
            return None
        bits, stated, spec = modulus_bits(self.plan), self.plan.spec.sum, self.plan.spec
        assert stated is not None
        shares: list[NDArray[np.uint64]] = [unpack(decode_reveal(one, self.plan).share, bits) for one in (own, peer)]
        return BilinearSums(
            mechanism=spec.mechanism,
            numbers=joined_sum(shares, bits=bits),
            deviation=stated.total_deviation(frozen.count),
            law=spec.noise.law,
            seeded=self._noise.seeded,
            entities=frozen.count,
        )

    def factorize(self) -> ItemFactors:
        """Factorize the noisy sum."""
        total = self.total()
        if total is None:
            raise NotReady("the operators have not shown both sums yet.", parameter="reveal")
        moments = self.plan.release_mechanism.combine([total], self.plan.parameters)
        shared = factorize_moments(moments, self.plan)
        return signed(shared, self.plan, entities=total.entities, sound=not total.seeded)

    def make_draft(self) -> bytes:
        """First operator: compute the item factors, sign them, and store them for the second one."""
        kept = self.book.get("draft")
        if kept is not None:
            return kept
        factors = encode_factors(self.factorize(), self.plan, signer=self.keys.signer)
        return self.book.once("draft", encode_draft(factors, self.plan, operator=self.name, signer=self.keys.signer))

    def hear_draft(self, data: bytes) -> None:
        """Take the other operator's item factors: the second signs those of the first, and sends them back."""
        found = decode_draft(data, self.plan)
        self._from_peer(found.entity)
        if self.place == 0:
            self.hear_final(found.factors)
        self._heard("peer draft", data, "item factors")

    def sign_draft(self) -> bytes:
        """Second operator: compute the item factors as well, and sign the first one's if they are the same.

        Raises
        ------
        BadMessage
            They do not follow from the sum that both operators know.
        """
        kept, heard = self.book.get("final"), self.book.get("peer draft")
        if kept is not None:
            return kept
        if heard is None:
            raise NotReady("the first operator's item factors have not arrived yet.", parameter="draft")
        draft: Draft = decode_draft(heard, self.plan)
        theirs, ours = decode_factors(draft.factors, self.plan, draft=True), self.factorize()
        if wrong := differing(ours, theirs):
            raise BadMessage(
                "the other operator's item factors do not follow from the sum.",
                found=wrong,
                expected="what this operator computes from the same sum, to one per cent",
                fix="let both run the same version of twofold; else start a new plan without this operator",
                parameter="draft",
            )
        final = cosign(draft.factors, self.keys.signer)
        back = encode_draft(final, self.plan, operator=self.name, signer=self.keys.signer)
        return self.book.once_together({"final": final, "draft": back})["final"]

    def hear_final(self, data: bytes) -> bytes:
        """First operator: take the item factors back with both signatures.

        Raises
        ------
        BadMessage
            They are not those that this operator signed.
        """
        kept = self.book.get("draft")
        decode_factors(data, self.plan)
        own = None if kept is None else decode_draft(kept, self.plan).factors
        if own is None or _unsigned(data) != _unsigned(own):
            raise BadMessage("the published item factors are not those of this operator.", parameter="factors")
        return self.book.once("final", data)

    @property
    def final(self) -> bytes | None:
        """The item factors with both signatures, once they are here."""
        return self.book.get("final")

    def erase(self) -> None:
        """Erase the sealed shares; the sum is published."""
        if self.final is not None:
            self.book.erase()

    def _from_peer(self, name: str) -> None:
        if name != self.peer:
            raise BadMessage("the message is not the other operator's.", found=name, expected=self.peer)

    def _heard(self, name: str, data: bytes, what: str) -> None:
        """Store a message of the other operator; a different one under the same name is kept as evidence."""
        if self.book.once(name, data) == data:
            return
        self.book.once(f"evidence {name} {receipt(data)[:16]}", data)
        raise ConflictingMessage(
            f"the other operator sent two different {what}; nothing more is sent.",
            found=f"both signed by {self.peer}",
            expected="one",
            fix="keep the files as evidence, tell the entities, and start a new plan without this operator",
            parameter="operators",
        )


class _OtherHalf(BadMessage):
    """The half of a report that is for the other operator; in a shared folder nothing to speak of."""


def _check_real(plan: Plan, keys: KeyStore, *, state: str | PathLike[str] | None, rng: int | None) -> None:
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


def _unsigned(data: bytes) -> bytes:
    """A message without its second signature."""
    text = str(open_container(data).record.get(COSIGNATURE))
    return data.replace(text.encode(), b"")
