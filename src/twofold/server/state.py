"""The state of a coordinator: every complete message, refusals, the list that counts, and what it publishes.

::

    STATE/plan.json                the plan of this folder
    STATE/messages/RECEIPT.round1  each message that was taken, byte for byte
    STATE/refused.json             receipts of those that were not, and why
    STATE/closed.json              the receipts that count, written before anything is computed from them
    STATE/items.round2             the item factors, written before they are published

Every other step (agreements, and those of a secure sum) has its own folder of this form inside, with the suffixes of
its messages instead of round1 and round2. `MemoryState` keeps the same for as long as a process lives, for simulations.

Each file is put in place at once and lasts from then on, so that whatever happens the folder tells how far the round
has come. Nothing is ever changed after `closed.json` but the list of those who came too late.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Final

from twofold.checks import is_hash
from twofold.errors import BadMessage, PlanMismatch, ProtocolError, TransportError
from twofold.federation.mailbox import ROUNDS, Rejected, Step, StepId, steps_of
from twofold.federation.messages import read_header
from twofold.federation.plan import Plan
from twofold.storage.container import LARGEST_HEADER
from twofold.storage.container import receipt as receipt_of
from twofold.storage.files import Busy, locked, make_folder, open_plain, read_limited, write_whole

__all__ = ["FolderState", "MemoryState", "State", "StepState"]

_STORED: Final = re.compile(r"([0-9a-f]{64})\.([a-z0-9]+)")
_LARGEST_RECORD: Final = 64 * 1024 * 1024
#: Refusals that are remembered; further ones are refused without being stored.
MOST_REFUSED: Final = 10_000


class StepState(ABC):
    """The state of one step.

    Attributes
    ----------
    conflicts : list of Rejected
        What the last look found in conflict; not remembered longer than the process lives.
    notes : dict
        Receipt to what the server made of the message when it took it, to save reading it again.
    """

    def __init__(self) -> None:
        self.conflicts: list[Rejected] = []
        self.notes: dict[str, Any] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Prepare the state, and keep every other coordinator out."""
        yield

    @abstractmethod
    def messages(self) -> dict[str, str]:
        """Entity to receipt of every accepted message."""

    @abstractmethod
    def store(self, entity: str, receipt: str, data: bytes) -> None:
        """Keep a message."""

    @abstractmethod
    def read(self, receipt: str) -> bytes:
        """Give the current bytes under a receipt."""

    def reader(self, receipt: str) -> Callable[[], bytes] | None:
        """Give a function that reads a message again; None if it stays in memory anyway."""
        return partial(self.read, receipt)

    def message(self, receipt: str) -> bytes:
        """Give a message; refuse bytes other than those that were accepted."""
        found = self.read(receipt)
        if receipt_of(found) != receipt:
            raise BadMessage(
                "a stored message is not the one that was accepted.",
                found=receipt[:12],
                expected="the bytes whose receipt is its name",
                fix="restore the folder from a copy",
                parameter="receipt",
            )
        return found

    @abstractmethod
    def refused(self) -> dict[str, tuple[str, str]]:
        """Receipt to public name and reason of every rejected message."""

    @abstractmethod
    def refuse(self, refused: Mapping[str, tuple[str, str]]) -> None:
        """Remember all refusals."""

    @abstractmethod
    def closed(self) -> list[str] | None:
        """Receipts that count, or None while the step is open."""

    @abstractmethod
    def close(self, receipts: list[str], why: str) -> None:
        """Record which messages count; nothing is added afterwards."""

    @abstractmethod
    def result(self) -> bytes | None:
        """Bytes that the server publishes, or None before that."""

    @abstractmethod
    def store_result(self, data: bytes) -> None:
        """Keep the bytes to publish."""


class MemoryState:
    """A coordinator's state in memory, as long as the process lives.

    Examples
    --------
    >>> from twofold.federation.mailbox import ROUNDS
    >>> state = MemoryState().of(ROUNDS)
    >>> state.store("st-anna", "0" * 64, b"...")
    >>> state.messages(), state.closed(), state.result()
    ({'st-anna': '0000000000000000000000000000000000000000000000000000000000000000'}, None, None)
    """

    def __init__(self) -> None:
        self._steps: dict[StepId, _StepMemory] = {}

    def of(self, step: Step) -> StepState:
        """Give the state of a step."""
        return self._steps.setdefault(step.id, _StepMemory())


class _StepMemory(StepState):
    def __init__(self) -> None:
        super().__init__()
        self._taken: dict[str, str] = {}
        self._data: dict[str, bytes] = {}
        self._refused: dict[str, tuple[str, str]] = {}
        self._closed: list[str] | None = None
        self._result: bytes | None = None

    def messages(self) -> dict[str, str]:
        return dict(self._taken)

    def store(self, entity: str, receipt: str, data: bytes) -> None:
        self._taken[entity], self._data[receipt] = receipt, data

    def read(self, receipt: str) -> bytes:
        return self._data[receipt]

    def reader(self, receipt: str) -> None:  # noqa: ARG002
        return None

    def refused(self) -> dict[str, tuple[str, str]]:
        return dict(self._refused)

    def refuse(self, refused: Mapping[str, tuple[str, str]]) -> None:
        self._refused = dict(refused)

    def closed(self) -> list[str] | None:
        return self._closed

    def close(self, receipts: list[str], why: str) -> None:  # noqa: ARG002
        self._closed = receipts

    def result(self) -> bytes | None:
        return self._result

    def store_result(self, data: bytes) -> None:
        self._result = data


class FolderState:
    """A coordinator's state on disk, which survives any kill.

    Parameters
    ----------
    folder : path
        Of this coordinator alone. Made if it is not there; its parent must be.
    plan : Plan
        A folder of another plan is refused.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.federation.plan import CatalogKey
    >>> from twofold.federation.mailbox import ROUNDS
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     state = FolderState(Path(place) / "state", plan).of(ROUNDS)
    ...     with state.opened():
    ...         state.messages(), state.closed(), state.result()
    ({}, None, None)
    """

    def __init__(self, folder: str | PathLike[str], plan: Plan) -> None:
        self.folder, self.plan = Path(folder), plan
        self._steps: dict[StepId, _StepFolder] = {}
        if len(steps_of(plan)) > 1:
            make_folder(self.folder)

    def of(self, step: Step) -> StepState:
        """Give the state of a step; each but the two rounds has a folder of its own."""
        if step.id not in self._steps:
            folder = self.folder if step is ROUNDS else self.folder / step.id
            self._steps[step.id] = _StepFolder(folder, self.plan, step)
        return self._steps[step.id]


State = FolderState | MemoryState


class _StepFolder(StepState):
    def __init__(self, folder: Path, plan: Plan, step: Step) -> None:
        super().__init__()
        self.folder, self.plan, self.step = folder, plan, step
        self._entities: dict[str, str] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        _our_errors(self.folder, lambda: make_folder(self.folder))
        try:
            with locked(self.folder / "lock", wait=0):
                self._open()
                yield
        except Busy as error:
            raise TransportError(
                "another coordinator is using this folder.",
                found=str(error),
                fix="let it finish or end it, or give this one another folder",
                parameter="folder",
            ) from None

    def _open(self) -> None:
        """Create what is missing, clear what a killed process left, and refuse the folder of another plan."""
        _our_errors(self.folder, lambda: make_folder(self.folder / "messages"))
        for left in (*self.folder.glob(".*.part"), *(self.folder / "messages").glob(".*.part")):
            with suppress(OSError):
                left.unlink()
        path = self.folder / "plan.json"
        if not os.path.lexists(path):
            write_whole(path, self.plan.canonical().encode(), mode=0o600)
        elif read_limited(path, _LARGEST_RECORD) != self.plan.canonical().encode():
            raise PlanMismatch(
                "this folder holds the round of another plan.",
                found=self.folder.name,
                expected=f"the plan with hash {self.plan.hash[:12]}",
                fix="give every plan its own folder",
                parameter="plan",
            )

    def messages(self) -> dict[str, str]:
        found = {}
        for path in (self.folder / "messages").iterdir():
            if (named := _STORED.fullmatch(path.name)) and named[2] == self.step.up.suffix:
                found[self._entity(named[1])] = named[1]
        return found

    def read(self, receipt: str) -> bytes:
        return read_limited(self._path(receipt), self.step.up.limit(self.plan))

    def _path(self, receipt: str) -> Path:
        return self.folder / "messages" / f"{receipt}.{self.step.up.suffix}"

    def store(self, entity: str, receipt: str, data: bytes) -> None:  # noqa: ARG002
        write_whole(self._path(receipt), data, mode=0o600)

    def refused(self) -> dict[str, tuple[str, str]]:
        record = self._read("refused.json") or {}
        if not all(is_hash(key) and _is_pair(value) for key, value in record.items()):
            raise _damaged("refused.json")
        return {key: (name, reason) for key, (name, reason) in record.items()}

    def refuse(self, refused: Mapping[str, tuple[str, str]]) -> None:
        self._write("refused.json", dict(list(refused.items())[:MOST_REFUSED]))

    def closed(self) -> list[str] | None:
        record = self._read("closed.json")
        if record is None:
            return None
        receipts = record.get("receipts")
        if record.get("plan") != self.plan.hash or not isinstance(receipts, list) or not all(map(is_hash, receipts)):
            raise _damaged("closed.json")
        return receipts

    def close(self, receipts: list[str], why: str) -> None:
        self._write("closed.json", {"plan": self.plan.hash, "receipts": sorted(receipts), "why": why})

    def result(self) -> bytes | None:
        path = self._result
        return read_limited(path, self.step.down.limit(self.plan)) if os.path.lexists(path) else None

    def store_result(self, data: bytes) -> None:
        write_whole(self._result, data)

    @property
    def _result(self) -> Path:
        return self.folder / f"items.{self.step.down.suffix}"

    def _entity(self, receipt: str) -> str:
        if receipt not in self._entities:
            try:
                with os.fdopen(open_plain(self._path(receipt)), "rb") as file:  # a pipe is not waited for
                    header = read_header(file.read(8 + LARGEST_HEADER))
            except (OSError, ProtocolError):
                raise _damaged(self._path(receipt).name) from None
            self._entities[receipt] = header.entity or ""
        return self._entities[receipt]

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not os.path.lexists(path):
            return None
        try:
            found = json.loads(read_limited(path, _LARGEST_RECORD))
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise _damaged(name)
        return found

    def _write(self, name: str, record: Mapping[str, Any]) -> None:
        text = json.dumps(record, sort_keys=True, indent=1)
        write_whole(self.folder / name, text.encode(), mode=0o600)


def _our_errors(folder: Path, job: Any) -> None:
    try:
        job()
    except OSError as error:
        raise TransportError(
            "the coordinator's folder cannot be used.",
            found=f"{folder.name}: {error.strerror or type(error).__name__}",
            fix="check that its parent exists, its permissions and its free space",
        ) from None


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)


def _damaged(name: str) -> BadMessage:
    return BadMessage(
        "a file of the coordinator is damaged.",
        found=name,
        expected="what the coordinator wrote",
        fix="restore the folder from a copy; entities can send their messages again at no cost",
    )
