"""Real federations in folders for attacks: a dishonest operator shows every entity another folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tests.enrolled import Enrolled, enrolled
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.participate import ParticipationStatus, participate
from twofold.federation.bodies import encode_body
from twofold.federation.folder import EntityFolder, ServerFolder
from twofold.federation.key_messages import decode_answer, decode_shares, encode_participants, secure_terms
from twofold.federation.messages import SURVIVORS
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.privacy.ledger import Ledger
from twofold.secure_sum import SharesMessage, UnmaskMessage
from twofold.server.coordinate import CoordinationStatus, coordinate, server_for
from twofold.server.state import FolderState
from twofold.storage.container import receipt

CATALOG = Catalog(["x", "y", "z"])
NAMES = ("a", "b", "c", "d", "e")
ROWS = Ratings(sparse.csr_array(np.tile([1.0, 1.0, 0.0], (7, 1))), Identifiers(list("stuvwxy")), CATALOG, "counts")


def small_plan(*names: str, secure: SecureSum | None = None, **more: Any) -> Plan:
    """A plan of three items that is not a simulation."""
    numbers = {"feedback": "counts", "bound": 1, "max_items": 2, "mechanism": "gram", "epsilon": 1, "n_users": 10}
    return Plan(catalog=CATALOG, secure=secure, entities=names, **{**numbers, "rank": 1, **more})


class Stage:
    """A real federation; everybody sends into one folder, and reads from one that the operator fills.

    Parameters
    ----------
    folder : Path
        For keys, ledgers and mailboxes.
    plan : Plan
        With the names of its entities.
    base : Enrolled, optional
        Another federation's members, to be the same people under another plan.
    shared : bool
        Whether all folders are one.
    """

    def __init__(self, folder: Path, plan: Plan, *, base: Enrolled | None = None, shared: bool = False) -> None:
        self.folder, self.shared = folder, shared
        secrets = None if base is None else base.secrets
        if base is not None and base.folder != folder:
            for name in base.secrets:
                (folder / f"{name}.keys").write_bytes(base.secrets[name].to_bytes())
        self.members = enrolled(plan, folder=folder, secrets=secrets)
        self.plan, self.operator = self.members.plan, self.members.signer()
        self.box = folder / f"box-{plan.name}"
        self.box.mkdir()
        self.seen: dict[str, set[bytes]] = {}

    @classmethod
    def again(cls, stage: Stage, *, shared: bool) -> Stage:
        """The same federation from its start, with the same keys in another folder."""
        folder = stage.folder / "again"
        folder.mkdir()
        return cls(folder, stage.plan, base=stage.members, shared=shared)

    def inbox(self, name: str) -> Path:
        place = self.box if self.shared else self.folder / f"in-{self.plan.name}-{name}"
        place.mkdir(exist_ok=True)
        return place

    def entity(self, name: str) -> Entity:
        """A new process: nothing is remembered but what is on disk."""
        ledger = self.folder / f"{name}.ledger"
        return Entity(name, ROWS, self.plan, ledger=ledger, **self.members.given(name))

    def join(self, name: str) -> ParticipationStatus:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return participate(self.entity(name), EntityFolder(self.box, self.inbox(name), self.plan))

    def serve(self, **more: Any) -> CoordinationStatus:
        """One look of an honest server."""
        server = server_for(self.plan, signer=self.operator)
        mailbox = ServerFolder(self.box, self.box, self.plan)
        state = FolderState(self.folder / f"state-{self.plan.name}", self.plan)
        return coordinate(server, mailbox, state=state, agreements=self.members.agreements, **more)

    def show(self, suffix: str, data: bytes, *names: str) -> None:
        """The operator puts a file into the folders of some entities."""
        for name in names or self.plan.entities:
            (self.inbox(name) / f"from-server-{receipt(data)[:8]}.{suffix}").write_bytes(data)

    def hide(self, suffix: str, *names: str) -> None:
        for name in names or self.plan.entities:
            for path in self.inbox(name).glob(f"*.{suffix}"):
                path.unlink()

    def sent(self, name: str, suffix: str) -> list[bytes]:
        return sorted({path.read_bytes() for path in self.box.glob(f"{name}.*.{suffix}")})

    def spent(self, name: str) -> int:
        path = self.folder / f"{name}.ledger"
        return len(Ledger(path).state().entries) if path.exists() else 0

    def released(self, name: str) -> bytes:
        """What the ledger holds for this plan."""
        found = Ledger(self.folder / f"{name}.ledger").stored(plan=self.plan.hash)
        assert found is not None
        return found

    # What a dishonest operator signs.

    def shares(self) -> dict[str, SharesMessage]:
        for name in self.plan.entities:
            self.join(name)
        return {name: decode_shares(self.sent(name, "shares")[0], self.plan).content for name in self.plan.entities}

    def roll(self, shares: Mapping[str, SharesMessage]) -> bytes:
        return encode_participants(shares, self.plan, signer=self.operator)

    def survivors(self, survivors: Iterable[str], present: Iterable[str] | None = None) -> bytes:
        """A signed list, whatever it says."""
        body = {"present": list(self.plan.entities if present is None else present), "survivors": list(survivors)}
        return encode_body(SURVIVORS, self.plan, body, signer=self.operator)

    def to_the_lists(self) -> dict[str, SharesMessage]:
        """Go on until everybody has sent a masked message."""
        shares = self.shares()
        self.show("roll", self.roll(shares))
        for name in self.plan.entities:
            self.join(name)
        return shares

    def answers(self, *names: str) -> dict[str, UnmaskMessage]:
        """What entities answered, once each, and never both secrets of anybody."""
        found = {}
        for name in names or self.plan.entities:
            self.seen.setdefault(name, set()).update(self.sent(name, "answer"))
            assert len(self.seen[name]) <= 1, f"{name} answered twice"
            for data in self.seen[name]:
                one = decode_answer(data, self.plan).content
                assert not set(one.seeds) & set(one.keys), f"{name} gave both secrets"
                found[name] = one
        return found

    @property
    def terms(self) -> Any:
        return secure_terms(self.plan)
