"""Many nodes of Flower in one process, for the load table; runs in Flower's environment and imports nothing of twofold.

Each node has a key that the SuperLink knows, a connection and heartbeats of its own, all by the functions with which a
SuperNode speaks to a SuperLink. What is left out is the process that a SuperNode starts for every question.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.proto.control_pb2 import RegisterNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import pull_objects, push_object_contents_from_iterable
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.fleet_http_connection import http_request_response

from twofold_flower.apps import pack
from twofold_flower.folders import Parcel

__all__ = ["main"]

#: Seconds between two looks for a question.
_POLL = 0.2
Node = tuple[Any, ...]


def main() -> None:
    """Make all nodes known and connect them; then answer one question each, and print a record of it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="of the SuperLink")
    parser.add_argument("authority", type=Path, help="certificate of its authority")
    parser.add_argument("messages", type=Path, help="folder with the message of each node")
    parser.add_argument("--senders", type=int, required=True, help="uploads at the same time")
    parser.add_argument("--patience", type=float, required=True, help="seconds to wait for a question")
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    files = sorted(asked.messages.iterdir())
    with ExitStack() as stack, ThreadPoolExecutor(asked.senders) as pool:
        opened = pool.map(partial(_connected, asked.address, asked.authority.read_bytes()), files)
        nodes = [stack.enter_context(one) for one in opened]
        _say(connected=len(nodes))
        last = _question(nodes[-1], asked.patience)  # the run has asked everybody by now, or almost
        start = time.monotonic()
        asked_before = [*[None] * (len(nodes) - 1), last]
        each = list(pool.map(partial(_answer, asked.patience), nodes, files, asked_before))
        _say(seconds=time.monotonic() - start, each=each)
        sys.stdin.readline()  # the nodes stay until the coordinator has everything


def _say(**record: object) -> None:
    print(json.dumps(record), flush=True)


def _connected(address: str, authority: bytes, _: Path) -> Any:
    """Register a new key, as `twofold-flower register` does, and give the connection of its node."""
    keys = generate_key_pairs()
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    with ControlHttpClient.from_server_address(address, False, authority, interceptors=[version]) as control:
        control.RegisterNode(RegisterNodeRequest(public_key=public_key_to_bytes(keys[1])))
    return http_request_response(address, False, authority, keys)


def _question(node: Node, patience: float) -> Any:
    """Wait until the run has asked this node."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if (found := node[1]()) is not None:
            return found
        time.sleep(_POLL)
    raise TimeoutError("no question came")


def _answer(patience: float, node: Node, file: Path, question: Any) -> float:
    """Take the question and send the message; give the seconds from asking for it to the last acknowledgement."""
    _, _, send, _, _, pull_object, push_object, confirm = node
    data = file.read_bytes()
    start = time.monotonic()
    question = question or _question(node, patience)
    asked, tree = question
    run = asked.metadata.run_id
    pull_objects([one.object_id for one in iterate_object_tree(tree)], partial(pull_object, run))
    confirm(run, asked.metadata.message_id)
    reply = Message(pack([Parcel.of("round1", data)], []), reply_to=asked)
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id  # as a SuperNode does
        objects = get_all_nested_objects(reply)
        wanted, session = send(reply, get_object_tree(reply), 0.0)
        contents = ((name, one.deflate()) for name, one in objects.items() if name in wanted)
        push: Callable[[str, bytes], None] = partial(push_object, run, session)
        push_object_contents_from_iterable(contents, push_object_fn=push)
    return time.monotonic() - start


if __name__ == "__main__":
    main()
