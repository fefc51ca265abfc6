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

The first operator by name decides which two lists are frozen, and the second freezes the same ones: if both chose, a
list that is still on its way could make them choose differently, and the plan would be lost.

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
from os import PathLike
from typing import Final

import numpy as np
from numpy.typing import NDArray

from twofold.errors import (
    BadMessage,
    ConflictingMessage,
    NotReady,
    PlanMismatch,
    PrivacyError,
    RoundClosed,
    TwofoldError,
)
from twofold.federation.exchange import (
    Draft,
    Freeze,
    ListMessage,
    Reveal,
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
from twofold.progress import tell
from twofold.release.bilinear.mechanism import Bilinear
from twofold.release.content import BilinearSums
from twofold.secure_sum.derive import SECRET_BYTES
from twofold.secure_sum.keys import private_of
from twofold.secure_sum.masking import modulus_mask
from twofold.secure_sum.messages import pack, unpack
from twofold.secure_sum.operators import ReportHeader, add_share, commitment, joined_sum, open_share
from twofold.server.factorize import differing, factorize_moments, signed
from twofold.server.operator_book import Kept, OperatorBook
from twofold.server.operator_terms import Pair, check_known, check_real
from twofold.storage.container import cosign, open_container, receipt
from twofold.storage.container import field as taken

__all__ = ["Operator"]

#: Reports that are stored in one transaction, and their bytes.
_BATCH: Final = 500
_BATCH_BYTES: Final = 16 * 1024 * 1024
#: What is at fault with the half of a report that is for the other operator.
_OTHER_HALF: Final = "half"
#: Lists that one operator may send; honest ones send one, and another whenever reports arrived and too few were common.
_MOST_LISTS: Final = 9_999


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
    ) -> None:
        if plan.operators is None:
            raise PlanMismatch("the plan has no two operators.", fix="Plan(..., secure=OperatorSum(...))")
        members = roster_of(plan).operators
        self.plan, self.keys, self.terms = plan, keys, plan.operators
        self.name = keys.identity.name
        if members.get(self.name) != keys.identity:
            raise PlanMismatch(
                "the keys are not those of an operator of the plan.",
                found=f"keys of {self.name}",
                expected=f"those of {' or '.join(members)}",
                fix="use the right key file, or ask for a plan with the right roster",
                parameter="keys",
            )
        check_real(plan, keys, state=state, rng=rng)
        self.place = [*members].index(self.name)
        self.peer = next(name for name in members if name != self.name)
        keys.bind(plan.hash)
        self.book = OperatorBook(state, plan)
        self._private = private_of(keys.keys.seal)
        self._noise = source(rng)
        self._seals = seals_of(plan)
        # Stored messages never change, so each is decoded once: a list may name a hundred thousand reports.
        self._lists: dict[bytes, ListMessage] = {}
        self._freezes: dict[bytes, Freeze] = {}
        #: Receipts of messages of the other operator that are stored.
        self.heard: set[str] = set()

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
        kept = self._opened(data, {}, forward=True, room=self._room())
        if kept is None:
            return decode_report(data, self.plan).entity
        self.book.add([kept])
        if self.book.digest_of(kept.entity) != kept.digest:  # another process was first
            raise RoundClosed("another process of this operator took the last report, or made the list final.")
        return kept.entity

    def take_all(self, reports: Iterable[tuple[str, bytes]], *, forward: bool = True) -> int:
        """Take many reports, given with a public name each; refusals are remembered. Give how many were new.

        They are stored some hundred at a time, so memory does not grow with their number. With `forward`, the other
        operator's halves are kept until they are handed on.
        """
        new, waiting, marks = 0, dict[str, Kept](), list[tuple[str, str | None, str | None]]()
        size, room = 0, self._room()
        for label, data in reports:
            mark = receipt(data)
            if self.book.seen(mark):
                continue
            try:
                kept = self._opened(data, waiting, forward=forward, room=room)
                if kept is not None:
                    waiting[kept.entity] = kept
                    size += len(data)
                marks.append((mark, None, None))
            except TwofoldError as error:
                other = error.parameter == _OTHER_HALF  # in a shared folder nothing to speak of
                marks.append((mark, None, None) if other else (mark, label, error.summary))
            if len(marks) >= _BATCH or size >= _BATCH_BYTES:
                new += self._store(waiting, marks)
                waiting, marks, size, room = {}, [], 0, self._room()
        return new + self._store(waiting, marks)

    def _store(self, waiting: Mapping[str, Kept], marks: list[tuple[str, str | None, str | None]]) -> int:
        if waiting:
            self.book.add(waiting.values())
        if marks:
            self.book.mark(marks)
        return len(waiting)

    def _room(self) -> int | None:
        """How many more reports may come, or None if the list is final; counted once for many, it takes a while."""
        return None if self.frozen else self.plan.expected_entities - self.book.count

    def _opened(self, data: bytes, waiting: Mapping[str, Kept], *, forward: bool, room: int | None) -> Kept | None:
        """Open this operator's share of a report; None if the same report is here already."""
        report = decode_report(data, self.plan)
        box, other = report.boxes[self.place], report.boxes[1 - self.place]
        if box is None:
            raise BadMessage("this half of the report is for the other operator.", parameter=_OTHER_HALF)
        before = waiting.get(report.entity)
        known = before.digest if before is not None else self.book.digest_of(report.entity)
        if known == report.digest:
            if forward and other is not None and before is None and self.book.lacks_half(report.entity):
                self.book.add_half(report.entity, half(report, 1 - self.place))
            return None
        if known is not None:
            raise ConflictingMessage(
                "an entity sent two different reports; the first one counts.",
                found=f"two reports of {report.entity}",
                expected="one report from each entity; the same bytes may arrive twice",
                parameter="entity",
            )
        if room is None:
            raise RoundClosed("the list of reports is final; this one arrived too late.")
        if len(waiting) >= room:
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
            half=half(report, 1 - self.place) if forward and other is not None else None,
        )

    # Lists.

    @property
    def own_lists(self) -> list[ListMessage]:
        """The lists that this operator sent, the newest last."""
        return [self._list_of(data) for data in self.book.every("list ")]

    @property
    def peer_lists(self) -> list[ListMessage]:
        """The lists of the other operator that arrived, the newest last."""
        return [self._list_of(data) for data in self.book.every("peer list ")]

    def _list_of(self, data: bytes) -> ListMessage:
        if data not in self._lists:
            self._lists[data] = decode_list(data, self.plan)
        return self._lists[data]

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
        if found.number > _MOST_LISTS:
            raise BadMessage("the other operator sent too many lists.", parameter="number")
        self._heard(f"peer list {found.number:06}", data, "lists")

    def pair(self, own: ListMessage, peer: ListMessage) -> Pair:
        """Find the reports that both lists hold and whose check words match."""
        return Pair.of(own, peer, self.plan) if self.place == 0 else Pair.of(peer, own, self.plan)

    def newest_pair(self) -> Pair | None:
        """Give the pair of both operators' newest lists, or None."""
        own, peer = self.own_lists, self.peer_lists
        return self.pair(own[-1], peer[-1]) if own and peer else None

    def agreed_pair(self) -> Pair | None:
        """Give the pair of lists to freeze: the newest for the first operator, for the second what the first froze.

        Raises
        ------
        ConflictingMessage
            The first operator froze a list that this one never made, or other reports than the two lists have in
            common. Nothing is drawn and nothing leaves.
        """
        if self.place == 0:
            return self.newest_pair()
        frozen = self.peer_freeze
        if frozen is None:
            return None
        ours = {receipt(one.data): one for one in self.own_lists}
        theirs = {receipt(one.data): one for one in self.peer_lists}
        first, second = frozen.lists
        if second in ours and first not in theirs:
            return None  # it is still on its way
        pair = self.pair(ours[second], theirs[first]) if second in ours else None
        if pair is None or (pair.hash, len(pair.digests)) != (frozen.reports, frozen.count):
            raise ConflictingMessage(
                "the other operator froze a list that does not follow from the lists of both; nothing is shown.",
                found=f"{frozen.count} reports, signed by {self.peer}",
                expected="the reports that both lists name" if pair else "a list that this operator made",
                fix="a new plan; keep the messages: they are signed",
                parameter="freeze",
            )
        return pair

    # The sum.

    @property
    def freeze(self) -> Freeze | None:
        """What this operator froze, if it did."""
        return self._freeze_of(self.book.get("freeze"))

    @property
    def peer_freeze(self) -> Freeze | None:
        """What the other operator froze, if it arrived."""
        return self._freeze_of(self.book.get("peer freeze"))

    def _freeze_of(self, data: bytes | None) -> Freeze | None:
        if data is not None and data not in self._freezes:
            self._freezes[data] = decode_freeze(data, self.plan)
        return None if data is None else self._freezes[data]

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
            self._check_never_frozen()
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

    def _check_never_frozen(self) -> None:
        """Refuse a second noise under keys that froze a sum in another folder, or before this one was restored."""
        if self.keys.frozen is not None and self.book.get("freeze") is None:
            raise PrivacyError(
                "these keys have frozen a sum that this folder does not know; nothing is drawn.",
                expected="one sum under these keys: with a second noise, or over a second list, less stays hidden",
                fix="the folder in which the sum was frozen, or a new plan with new keys",
                parameter="freeze",
            )

    def _noisy_share(self, pair: Pair) -> bytes:
        bits, stated = modulus_bits(self.plan), self.plan.spec.sum
        assert stated is not None
        total = np.zeros(stated.length, dtype=np.uint64)
        for number, one in enumerate(self.book.reports(pair.digests)):
            tell("reports added", number, len(pair.digests))
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

    def recall(self, sent: Freeze | Reveal) -> None:
        """Refuse to go on after a message of this operator's own that its folder does not know; see `check_known`."""
        check_known(sent, freeze=self.book.get("freeze"), share=self.book.get("share"))

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
        if self.book.get("peer reveal") == data:
            return
        if frozen is None:
            raise NotReady("the other operator's final list has not arrived yet.", parameter="freeze")
        if commitment(found.share, found.nonce).hex() != frozen.commitment:
            self._keep_evidence("peer reveal", data)
            raise BadMessage(
                "the other operator shows a sum that it did not commit to.",
                found=f"from {self.peer}",
                expected="the sum behind its commitment",
                fix="keep both messages: they are signed; start a new plan without this operator",
                parameter="operators",
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
        if own is None or _first_signed(data) != _first_signed(own):
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
        self._keep_evidence(name, data)
        raise ConflictingMessage(
            f"the other operator sent two different {what}; nothing more is sent.",
            found=f"both signed by {self.peer}",
            expected="one",
            fix="keep the files as evidence, tell the entities, and start a new plan without this operator",
            parameter="operators",
        )

    def _keep_evidence(self, name: str, data: bytes) -> None:
        self.book.once(f"evidence {name}", data)  # the first is enough, and a thousand would fill the disk

    def check_peer(self) -> None:
        """Refuse to go on with an operator that was seen to break the rules, even if its messages are gone by now."""
        if self.final is None and self.book.every("evidence "):
            raise ConflictingMessage(
                "the other operator broke the rules before; nothing more is sent.",
                found=f"evidence signed by {self.peer}, kept in this operator's folder",
                fix="tell the entities, and start a new plan without this operator",
                parameter="operators",
            )


def _first_signed(data: bytes) -> tuple[str, str]:
    """What the first signature of a sealed message covers, every byte but the signatures, and that signature."""
    record = open_container(data).record
    return taken(record, "checksum", str), taken(record, "signature", str)
