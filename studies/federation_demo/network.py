"""Where the parties of the demonstration run: each in a network namespace of its own, or all on the loopback.

The namespaces hang on a bridge in one more namespace, so nothing of this machine's own network is touched::

    coordinator --- veth ---+
    st-anna     --- veth ---+--- bridge, in the namespace "wire"
    st-bern     --- veth ---+
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol

__all__ = ["Loopback", "Namespaces", "Network", "network_of", "why_no_namespaces"]

_PREFIX: Final = "tfdemo"
_NET: Final = "10.77.0"
_PORT: Final = 8443
#: Seconds for one command of iproute2.
_PATIENCE: Final = 20


class Network(Protocol):
    """Gives each party an address, and what to put before its commands."""

    name: str
    about: str

    def address(self, party: str) -> tuple[str, int]:
        """Host and port at which a party's service is to listen."""
        ...

    def before(self, party: str) -> list[str]:
        """Words before a command, so that it runs where the party is."""
        ...


class Loopback:
    """Every party is a process of this machine; services have ports of their own.

    Parameters
    ----------
    reason : str
        Why there are no namespaces.

    Examples
    --------
    >>> Loopback("as asked").before("st-anna")
    []
    """

    name = "loopback"

    def __init__(self, reason: str) -> None:
        self.about = f"Without network namespaces ({reason}): the parties are processes that share the loopback."
        self._ports: dict[str, int] = {}

    def address(self, party: str) -> tuple[str, int]:
        """Choose a free port, once for each party."""
        if party not in self._ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._ports[party] = free.getsockname()[1]
        return "127.0.0.1", self._ports[party]

    def before(self, party: str) -> list[str]:  # noqa: ARG002
        """Nothing: a command runs as it is."""
        return []


class Namespaces:
    """Every party has a network namespace with one cable, and sees the others at the other end of it only.

    Parameters
    ----------
    parties : sequence of str
        Who takes part.
    """

    name = "namespaces"

    def __init__(self, parties: Sequence[str]) -> None:
        self._hosts = {party: f"{_NET}.{number}" for number, party in enumerate(parties, start=1)}
        self.about = (
            f"In {len(parties)} network namespaces, one for each party, joined by a bridge; nobody shares a machine's "
            "network, and there is no way out."
        )

    def address(self, party: str) -> tuple[str, int]:
        """Give the party's own address."""
        return self._hosts[party], _PORT

    def before(self, party: str) -> list[str]:
        """Run in the party's namespace."""
        return ["ip", "netns", "exec", _space(party)]

    @contextmanager
    def up(self) -> Iterator[Namespaces]:
        """Make the namespaces, and remove them with everything in them at the end."""
        _sweep()
        with ExitStack() as stack:
            wire = _made("wire", stack)
            _ip("-n", wire, "link", "add", "bridge0", "type", "bridge")
            _ip("-n", wire, "link", "set", "bridge0", "up")
            for number, (party, host) in enumerate(self._hosts.items()):
                space, plug = _made(party, stack), f"plug{number}"
                _ip("link", "add", "cable0", "netns", space, "type", "veth", "peer", "name", plug, "netns", wire)
                _ip("-n", wire, "link", "set", plug, "master", "bridge0", "up")
                _ip("-n", space, "address", "add", f"{host}/24", "dev", "cable0")
                for link in ("lo", "cable0"):
                    _ip("-n", space, "link", "set", link, "up")
            yield self


@contextmanager
def network_of(parties: Sequence[str], *, loopback: bool = False) -> Iterator[Network]:
    """Give namespaces if this machine allows them, else the loopback, which says why."""
    reason = "as asked" if loopback else why_no_namespaces()
    if reason:
        yield Loopback(reason)
        return
    with Namespaces(parties).up() as made:
        yield made


def why_no_namespaces() -> str:
    """Say why namespaces cannot be made here; nothing if they can. Tries one."""
    if shutil.which("ip") is None:
        return "the program ip of iproute2 is missing"
    if os.geteuid() != 0:
        return "they need root"
    try:
        with ExitStack() as stack:
            space = _made("try", stack)
            _ip("-n", space, "link", "add", "a0", "type", "veth", "peer", "name", "b0")
            _ip("-n", space, "link", "add", "c0", "type", "bridge")
    except (subprocess.SubprocessError, OSError):
        return "the system does not allow them"
    return ""


def _space(party: str) -> str:
    return f"{_PREFIX}-{os.getpid()}-{party}"


def _made(party: str, stack: ExitStack) -> str:
    """Make a namespace; its removal is arranged before it is there, so that no signal comes between."""
    space = _space(party)
    stack.callback(_remove, space)
    _ip("netns", "add", space)
    return space


def _remove(space: str) -> None:
    subprocess.run(["ip", "netns", "delete", space], check=False, capture_output=True, timeout=_PATIENCE)


def _sweep() -> None:
    """Remove namespaces of earlier runs that were killed; their processes have ended with them."""
    listed = subprocess.run(["ip", "netns", "list"], check=False, capture_output=True, text=True, timeout=_PATIENCE)
    for space, process in re.findall(rf"^({_PREFIX}-([0-9]+)-\S+)", listed.stdout, re.MULTILINE):
        if not Path("/proc", process).exists():
            _remove(space)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=_PATIENCE)
