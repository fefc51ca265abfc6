"""What a coordinator keeps on disk: every message whole, what was refused, the list that counts, and the factors.

::

    STATE/plan.json                the plan all of it belongs to
    STATE/messages/RECEIPT.round1  each message that was taken, byte for byte
    STATE/refused.json             receipts of those that were not, and why
    STATE/closed.json              the receipts that count, written before anything is computed from them
    STATE/items.round2             the item factors, written before they are published

In a secure sum each step has such a folder of its own, with the ending of its messages instead of round1 and round2.

Each file is put in place at once and lasts from then on, so that whatever happens the folder tells how far the round
has come. Nothing is ever changed after `closed.json` but the list of those who came too late.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from twofold.errors import BadMessage, PlanMismatch, ProtocolError, TransportError
from twofold.federation.header import read_header
from twofold.federation.plan import Plan
from twofold.federation.steps import ROUNDS, Phase
from twofold.storage.container import LARGEST_HEADER
from twofold.storage.files import make_folder, read_limited, write_whole
from twofold.storage.locks import Busy, locked

__all__ = ["State"]

_STORED: Final = re.compile(r"([0-9a-f]{64})\.([a-z0-9]+)")
_LARGEST_RECORD: Final = 64 * 1024 * 1024
#: Refusals that are remembered; whoever sends more is only refused again.
MOST_REFUSED: Final = 10_000


class State:
    """The folder of one coordinator.

    Parameters
    ----------
    folder : Path
        Made if it is not there; its parent must be.
    plan : Plan
        A folder of another plan is refused.
    phase : Phase
        Which step; the two rounds by default.

    Examples
    --------
    >>> import tempfile
    >>> from twofold.federation.plan import CatalogKey
    >>> plan = Plan(catalog=CatalogKey(hash="0" * 64, n_items=3), feedback="counts", bound=5, max_items=2)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     state = State(Path(place) / "state", plan)
    ...     with state.locked():
    ...         state.open()
    ...         state.messages(), state.closed(), state.result()
    ({}, None, None)
    """

    def __init__(self, folder: Path, plan: Plan, phase: Phase = ROUNDS) -> None:
        self.folder = folder
        self.plan = plan
        self.phase = phase
        self._entities: dict[str, str] = {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other coordinator out of this folder."""
        _our_errors(self.folder, lambda: make_folder(self.folder))
        try:
            with locked(self.folder / "lock", wait=0):
                yield
        except Busy as error:
            raise TransportError(
                "another coordinator works in this folder.",
                found=str(error),
                fix="let it finish or end it, or give this one a folder of its own",
            ) from None

    def open(self) -> None:
        """Make what is missing, clear what a killed process left, and refuse the folder of another plan."""
        _our_errors(self.folder, lambda: make_folder(self.folder / "messages"))
        for left in (*self.folder.glob(".*.part"), *(self.folder / "messages").glob(".*.part")):
            with suppress(OSError):
                left.unlink()
        path = self.folder / "plan.json"
        if not path.exists():
            write_whole(path, self.plan.canonical().encode(), mode=0o600)
        elif read_limited(path, _LARGEST_RECORD) != self.plan.canonical().encode():
            raise PlanMismatch(
                "this folder holds the round of another plan.",
                found=self.folder.name,
                expected=f"the plan with hash {self.plan.hash[:12]}",
                fix="give every plan a folder of its own",
            )

    def messages(self) -> dict[str, str]:
        """Entity to receipt of every message that was taken."""
        found = {}
        for path in (self.folder / "messages").iterdir():
            if (named := _STORED.fullmatch(path.name)) and named[2] == self.phase.up_suffix:
                found[self._entity(named[1])] = named[1]
        return found

    def path(self, receipt: str) -> Path:
        """Where a message is."""
        return self.folder / "messages" / f"{receipt}.{self.phase.up_suffix}"

    def store(self, receipt: str, data: bytes) -> None:
        """Keep a message."""
        write_whole(self.path(receipt), data, mode=0o600)

    def refused(self) -> dict[str, tuple[str, str]]:
        """Receipt to public name and reason of every message that was not taken."""
        record = self._read("refused.json") or {}
        return {str(key): (str(name), str(reason)) for key, (name, reason) in record.items()}

    def refuse(self, refused: Mapping[str, tuple[str, str]]) -> None:
        """Remember all refusals."""
        self._write("refused.json", dict(list(refused.items())[:MOST_REFUSED]))

    def closed(self) -> list[str] | None:
        """Receipts that count, or None while the round is open."""
        record = self._read("closed.json")
        if record is None:
            return None
        if record.get("plan") != self.plan.hash or not isinstance(record.get("receipts"), list):
            raise _damaged("closed.json")
        return [str(one) for one in record["receipts"]]

    def close(self, receipts: list[str], why: str) -> None:
        """Write down which messages count; nothing is added afterwards."""
        self._write("closed.json", {"plan": self.plan.hash, "receipts": sorted(receipts), "why": why})

    def result(self) -> bytes | None:
        """Bytes of what the server publishes, or None while there is nothing."""
        path = self._result
        return read_limited(path, self.phase.down_limit(self.plan)) if path.exists() else None

    def store_result(self, data: bytes) -> None:
        """Keep what is to be published."""
        write_whole(self._result, data)

    @property
    def _result(self) -> Path:
        return self.folder / f"items.{self.phase.down_suffix}"

    def _entity(self, receipt: str) -> str:
        if receipt not in self._entities:
            try:
                with self.path(receipt).open("rb") as file:
                    header = read_header(file.read(8 + LARGEST_HEADER))
            except (OSError, ProtocolError):
                raise _damaged(self.path(receipt).name) from None
            self._entities[receipt] = header.entity or ""
        return self._entities[receipt]

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.exists():
            return None
        try:
            found = json.loads(read_limited(path, _LARGEST_RECORD))
        except ValueError:
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
            fix="check that its parent exists, its rights and its free space",
        ) from None


def _damaged(name: str) -> BadMessage:
    return BadMessage(
        "a file of the coordinator is damaged.",
        found=name,
        expected="what the coordinator wrote",
        fix="restore the folder from a copy; entities can send their messages again at no cost",
    )
