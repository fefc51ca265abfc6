"""One round, from the first message to publication, however often the process is killed on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from os import PathLike
from typing import Any, Final

from twofold.errors import PlanMismatch
from twofold.protocol.messages import decode_prototypes, encode_factors
from twofold.protocol.phases import ROUNDS
from twofold.protocol.plan import Plan
from twofold.server.collector import Collector, Progress, Stored
from twofold.server.factorize import MEMORY_LIMIT, Server
from twofold.server.sources import checked
from twofold.transport.base import ServerMailbox

__all__ = ["ANYBODY", "Coordinator", "Progress"]

#: Said of a plan whose list of entities is empty.
ANYBODY: Final = (
    "The plan names no entities: any sender's made-up name counts, and can complete the round. "
    "Messages are not signed, so whoever can write into the folder can pose as an entity. "
    "A real federation should list its entities in the plan."
)


class Coordinator(Collector):
    """Collects messages, closes the round, factorizes, publishes once.

    Parameters
    ----------
    plan : Plan
        Who is expected, quorum and deadline are in it.
    mailbox : ServerMailbox
        Where messages come from and factors go to.
    state : path
        Folder of this round, of this coordinator alone; see `twofold.server.state`.
    clock : callable
        Gives the time, for tests.
    memory_limit, threads
        As for `Server`.

    Notes
    -----
    The round closes when everybody the plan expects has answered, or when the deadline has passed and the quorum is
    reached. A message that comes late still counts while the round is open: its sender has paid for it. Below the
    quorum nothing is published.

    Of two different messages from one entity the one that was stored first counts, and the other is refused. Of two
    found in one look neither is taken: nothing in them says which is the entity's, and any rule of ours could be met by
    a forger who tries long enough. Both are reported, and the round waits until a person removes one.

    Messages are not signed. Whoever can write into the mailbox can pose as an entity that has not answered yet, and
    where the plan names no entities, as one that was made up; see `remark`.

    A coordinator that is started again goes on from what is in its folder, and publishes the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from twofold.protocol.messages import encode_prototypes
    >>> from twofold.protocol.plan import CatalogKey
    >>> from twofold.transport.inprocess import InProcess
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
    >>> box = InProcess()
    >>> released = plan.release_mechanism.release(np.ones((9, 3)), plan.public)
    >>> _ = box.submit(encode_prototypes(released.value, entity="st-anna", plan=plan), entity="st-anna")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Coordinator(plan, box, state=folder).step()
    Progress(arrived=1, expected=1, rejected=0, closed=True, published=True)
    """

    def __init__(
        self,
        plan: Plan,
        mailbox: ServerMailbox,
        *,
        state: str | PathLike[str],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        memory_limit: int = MEMORY_LIMIT,
        threads: int | None = None,
    ) -> None:
        super().__init__(plan, mailbox, state=state, phase=ROUNDS, clock=clock)
        if plan.secure is not None:
            raise PlanMismatch("the plan asks for a secure sum, which has more steps.", fix="SecureCoordinator")
        self._server = Server(plan, memory_limit=memory_limit, scratch=state, threads=threads)

    @property
    def remark(self) -> str:
        """What whoever runs the round should know about the plan, in words; empty when there is nothing to say.

        Examples
        --------
        >>> from twofold.protocol.plan import CatalogKey
        >>> from twofold.transport.inprocess import InProcess
        >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=3)
        >>> Coordinator(plan, InProcess(), state="state").remark[:38]
        'The plan names no entities: any sender'
        >>> Coordinator(plan.with_(entities=["st-anna"]), InProcess(), state="state").remark
        ''
        """
        return "" if self.plan.entities else ANYBODY

    @property
    def step_name(self) -> str:
        """What is waited for, in words."""
        return "messages"

    @property
    def expected(self) -> int:
        """How many entities the plan expects."""
        return len(self.plan.entities) or self.plan.n_entities

    @property
    def quorum(self) -> int:
        """As the plan says."""
        return self.plan.quorum

    @property
    def deadline(self) -> str | None:
        """As the plan says."""
        return self.plan.deadline

    @property
    def names(self) -> tuple[str, ...]:
        """As the plan says."""
        return self.plan.entities

    def accept(self, message: Any) -> None:
        """Take all that the plan takes."""

    def compute(self, taken: Sequence[Stored]) -> bytes:
        """Factorize all messages that count."""
        arrived = [checked(decode_prototypes(one.data(), self.plan), one.read) for one in taken]
        return encode_factors(self._server.factorize_arrived(arrived), self.plan)
