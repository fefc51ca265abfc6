"""The two ends inside Flower: what a SuperNode answers, and what the coordinator's run asks.

One exchange is one message to each node and its reply. Down go the published files that the node lacks, and the digests
of what the coordinator has; up come the other files of the outbox, and the digests of what the site has. Both ends hold
no state but their folders, so a run that was killed is simply started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO, WARNING, getLogger
from pathlib import Path
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from twofold_flower.folders import DOWN, LAST, UP, Limits, Parcel, digests, outgoing, store

__all__ = ["ACTION", "client", "pack", "server", "unpack"]

ACTION: Final = "carry"
_FILES: Final = "files"
_ABOUT: Final = "about"
_HAVE: Final = "have"
_log = getLogger("flwr")
#: A site takes little: the coordinator publishes a handful of files per plan.
AT_A_SITE: Final = Limits(total=4 << 30)

client = ClientApp()
server = ServerApp()


def pack(parcels: Sequence[Parcel], have: Iterable[str]) -> RecordDict:
    """Put files and the digests of what this end has into a record of Flower; long files travel in chunks."""
    arrays = {one.label: Array(np.frombuffer(one.data, dtype=np.uint8)) for one in parcels}
    return RecordDict({_FILES: ArrayRecord(arrays), _ABOUT: ConfigRecord({_HAVE: sorted(have)})})


def unpack(content: RecordDict, kinds: frozenset[str]) -> tuple[list[Parcel], list[str]]:
    """Give the files of these kinds whose bytes are what their labels say, and the digests that the other end has.

    Examples
    --------
    >>> sent = [Parcel.of("round1", b"release"), Parcel.of("round2", b"factors")]
    >>> files, have = unpack(pack(sent, ["ab"]), UP)
    >>> [one.kind for one in files], have
    (['round1'], ['ab'])
    >>> unpack(RecordDict(), UP)
    ([], [])
    """
    files, about = content.array_records.get(_FILES, {}), content.config_records.get(_ABOUT, {})
    have = about.get(_HAVE, [])
    read = (Parcel.read(label, array.numpy().tobytes()) for label, array in files.items())
    held = [one for one in have if isinstance(one, str)] if isinstance(have, list) else []
    return [one for one in read if one is not None and one.kind in kinds], held


@client.query(ACTION)
def answer(message: Message, context: Context) -> Message:
    """Store what arrived, and send what the coordinator does not have. The folders are the site's own words."""
    inbox, outbox = (Path(str(context.node_config[name])) for name in ("inbox", "outbox"))
    try:
        arrived, known = unpack(message.content, DOWN)
        store(inbox, arrived, DOWN, AT_A_SITE)
        reply = pack(outgoing(outbox, UP, known, AT_A_SITE), digests(inbox, DOWN, AT_A_SITE))
    except OSError as error:  # Flower would send its text, with the path, to the server
        raise RuntimeError(f"the folders of this site cannot be used: {error.strerror}") from None
    return Message(reply, reply_to=message)


@server.main()
def carry(grid: Grid, context: Context) -> None:
    """Exchange files with all nodes until the last message is everywhere, or time is up."""
    asked = Run.of(context.run_config)
    link = Link(asked.inbox, asked.outbox)
    until = time.monotonic() + asked.wait
    while True:
        done = link.exchange(list(grid.get_node_ids()), _sender(grid, asked.timeout))
        if done >= asked.sites:
            _log.log(INFO, "all %d sites have the last message", done)
            return
        if time.monotonic() >= until:
            _log.log(WARNING, "not yet: %d of %d sites have the last message; run again", done, asked.sites)
            return
        time.sleep(asked.poll)


@dataclass(frozen=True, kw_only=True)
class Run:
    """What the coordinator asked for, from the configuration of its run."""

    inbox: Path
    outbox: Path
    sites: int
    wait: float
    poll: float
    timeout: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Run:
        """Read the configuration; Flower has checked the types."""
        inbox, outbox = (Path(str(config[name])) for name in ("inbox", "outbox"))
        wait, poll, timeout = (float(config[name]) for name in ("wait", "poll", "timeout"))
        return cls(inbox=inbox, outbox=outbox, sites=int(config["sites"]), wait=wait, poll=poll, timeout=timeout)


@dataclass
class Link:
    """The coordinator's folders, and what each node was seen to have.

    Parameters
    ----------
    inbox, outbox : Path
        Folders of `twofold coordinate`.
    limits : Limits
        How much a node may bring.

    Examples
    --------
    A node that brings forty files is heard for as many as the limits say, and one that fails for none:

    >>> import tempfile
    >>> from types import SimpleNamespace as Reply
    >>> def reply(node, parcels):
    ...     source = Reply(src_node_id=node)
    ...     return Reply(metadata=source, has_error=lambda: not parcels, content=pack(parcels, []), error=Reply(code=3))
    >>> many = [Parcel.of("round1", bytes([number])) for number in range(40)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     link = Link(Path(folder, "in"), Path(folder, "out"))
    ...     for _ in range(2):
    ...         done = link.exchange([1, 2], lambda records: [reply(1, many), reply(2, [])])
    ...     done, len(list(link.inbox.iterdir())), {node: len(digests) for node, digests in link.brought.items()}
    (0, 32, {1: 32})
    """

    inbox: Path
    outbox: Path
    limits: Limits = field(default_factory=Limits)
    held: dict[int, set[str]] = field(default_factory=dict)
    brought: dict[int, set[str]] = field(default_factory=dict)

    def exchange(self, nodes: Sequence[int], send: Callable[[Mapping[int, RecordDict]], Iterable[Message]]) -> int:
        """Exchange once with these nodes; gives how many have every published file, the last one included."""
        known = digests(self.inbox, UP, self.limits)
        records = {
            node: pack(outgoing(self.outbox, DOWN, self.held.get(node, ()), self.limits), known) for node in nodes
        }
        for reply in send(records):
            self._take(reply)
        if not list(self.outbox.glob(f"*.{LAST}")):
            return 0
        every = set(digests(self.outbox, DOWN, self.limits))
        return sum(every <= have for have in self.held.values())

    def _take(self, reply: Message) -> None:
        node = reply.metadata.src_node_id
        if reply.has_error():  # its text may hold what a site would not say; the code is enough
            _log.log(WARNING, "node %d: error %d", node, reply.error.code)
            return
        arrived, have = unpack(reply.content, UP)
        self.held[node] = set(have)
        before = self.brought.setdefault(node, set())
        fresh = [one for one in arrived if one.digest not in before][: self.limits.files - len(before)]
        kept = store(self.inbox, fresh, UP, self.limits)
        before.update(kept)
        if kept:
            _log.log(INFO, "node %d: %d new files", node, len(kept))


def _sender(grid: Grid, timeout: float) -> Callable[[Mapping[int, RecordDict]], Iterable[Message]]:
    """Give what sends one record to each node and waits for the replies."""

    def send(records: Mapping[int, RecordDict]) -> Iterable[Message]:
        kind = f"query.{ACTION}"
        messages = [
            Message(record, dst_node_id=node, message_type=kind, ttl=timeout) for node, record in records.items()
        ]
        return grid.send_and_receive(messages, timeout=timeout) if messages else ()

    return send
