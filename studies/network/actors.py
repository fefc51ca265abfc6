"""A small federation over HTTP whose processes die: what each of them does, and where it can be killed."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks import _kill_actors as folders
from benchmarks._kill_points import Places, Tell
from studies.network.place import OPEN, Place, hosted_in
from tests.enrolled import OPERATOR, Enrolled, enrolled, fixed_secrets
from tests.served import Served
from twofold.entity.agent import Entity
from twofold.entity.participate import participate
from twofold.errors import Unreachable
from twofold.federation.factors import decode_factors
from twofold.federation.https import Client, Connection, HttpsMailbox
from twofold.federation.mailbox import InProcess, Step, StepId, Submitted
from twofold.federation.messages import receipt
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.privacy.ledger import Ledger
from twofold.server.coordinate import coordinate, server_for
from twofold.server.service.app import Service, build_app
from twofold.server.service.run import server_of
from twofold.server.state import MemoryState
from twofold.storage.files import write_whole

__all__ = ["HOST", "RELEASES", "Scene", "rehearse", "run_entities", "run_server", "run_together"]

HOST: Final = "127.0.0.1"
#: Steps in which a release leaves.
RELEASES: Final = (StepId.ROUNDS, StepId.MASKED)
#: Seconds between two looks of those who wait.
_POLL: Final = 0.02
App = Callable[[MutableMapping[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Any]


class Scene:
    """A federation before anybody starts: a plan, keys and data that are the same in every process.

    Parameters
    ----------
    sharing : str
        "plain": three entities and one release each. "peers": five entities and the three visits of a secure sum.
    """

    def __init__(self, sharing: str) -> None:
        self.sharing = sharing
        count = 3 if sharing == "plain" else 5
        self.names = tuple(f"site-{number}" for number in range(count))
        given: dict[str, Any] = {
            "catalog": folders.CATALOG,
            "feedback": "counts",
            "bound": 2,
            "max_items": 3,
            "rank": 2,
        }
        if sharing == "plain":
            given |= {"mechanism": "popularity", "quorum": count}
        else:
            given |= {"mechanism": "gram", "secure": SecureSum(survivors=count - 1, present=count)}
        plan = Plan(n_users=folders.USERS, n_entities=count, **given)
        self.made: Enrolled = enrolled(plan, secrets=fixed_secrets(*self.names))
        self.plan = self.made.plan
        self.tables = {name: folders.table(name) for name in self.names}

    def prepare(self, folder: Path) -> None:
        """Make the files that exist before anybody starts; those of the next run are copied."""
        folder.mkdir(parents=True)
        for name, one in self.made.secrets.items():
            (folder / f"{name}.keys").write_bytes(one.to_bytes())
        Enrolled(self.plan, self.made.secrets, folder)
        place = Place(folder, self.made, agreed=False)
        shutil.copyfile(folder / f"{OPERATOR}.keys", place.folder / "plans" / self.plan.hash / "keys")

    def ledger(self, folder: Path, name: str) -> Path:
        """Where an entity's ledger is."""
        return folder / f"{name}.ledger"


class TellingMailbox(HttpsMailbox):
    """An entity's end that says what it tries to send, and what was acknowledged."""

    def __init__(self, client: Client, plan: Plan, tell: Tell) -> None:
        super().__init__(client, plan)
        self._tell = tell

    def submit(self, step: Step, data: bytes, *, entity: str) -> Submitted:
        """Send, and say so before and after."""
        self._tell(f"try {step.id} {receipt(data)}")
        sent = super().submit(step, data, entity=entity)
        self._tell(f"sent {step.id} {sent.receipt}")
        return sent


class DyingTransport(httpx.HTTPTransport):
    """Passes a place before each request leaves, and after its answer came."""

    def __init__(self, places: Places) -> None:
        super().__init__(verify=False)  # the address is of this machine, and plain HTTP
        self._places = places

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request."""
        self._places.passed("request", f"before {request.method}")
        answer = super().handle_request(request)
        self._places.passed("request", f"after {request.method}")
        return answer


def run_entities(scene: Scene, folder: Path, url: str, tell: Tell, places: Places) -> bool:
    """Let every entity take part in turn until all have the item factors; one at a time, so a kill meets one of them.

    What follows needs no network: `benchmarks._kills` kills it, too.
    """
    connection = Connection(server=url, attempts=1, seconds=10.0, proxy="")
    with httpx.Client(transport=DyingTransport(places), trust_env=False) as http:
        for _ in _turns(scene, folder, connection, http, tell, order=places.kill.share):
            time.sleep(_POLL)
    return True


def run_together(scene: Scene, folder: Path, tell: Tell, places: Places) -> bool:
    """Be the service and every entity in one process, without sockets: a kill ends both ends of a request at once.

    Cheaper than two processes, since nobody waits. The same application, store, coordinator and client run; requests
    pass from one to the other as calls, and the coordinator looks after every turn of the entities.
    """
    one = Served(scene.made, Service(folder / "state", hosted_in(folder), limits=OPEN))
    one.app = _dying(one.app, places)
    connection, order = Connection(server=f"http://{HOST}", attempts=1), places.kill.share
    for _ in _turns(scene, folder, connection, one.http(), tell, order=order):
        one.look()
    return True


def _turns(
    scene: Scene, folder: Path, connection: Connection, http: httpx.Client, tell: Tell, *, order: float
) -> Iterator[None]:
    """Let everybody who has no item factors do what is due, again and again."""
    waiting = [name for name in scene.names if not (folder / f"{name}.round2").exists()]
    random.Random(order).shuffle(waiting)
    while waiting:
        for name in list(waiting):
            client = Client(connection, name=name, signer=scene.made.signer(name), http=http)
            data = _turn(scene, folder, client, partial(_told, tell, name))
            if data is not None:
                write_whole(folder / f"{name}.round2", data)
                tell(f"{name}|factors {receipt(data)}")
                waiting.remove(name)
        yield


def _told(tell: Tell, name: str, line: str) -> None:
    tell(f"{name}|{line}")


def _turn(scene: Scene, folder: Path, client: Client, tell: Tell) -> bytes | None:
    """Do what is due for one entity, as a new process would."""
    name = client.name
    book = scene.ledger(folder, name)
    if not book.exists():
        Ledger.create(book, dataset=name, ceiling=scene.plan.budget, unit=scene.plan.unit)
    folders.tell_draws(book, tell)
    entity = Entity(name, scene.tables[name], scene.plan, ledger=book, keys=folder / f"{name}.keys")
    try:
        return participate(entity, TellingMailbox(client, scene.plan, tell)).factors
    except Unreachable:  # the service is dead for now
        return None


def rehearse(scene: Scene, folder: Path) -> None:
    """Run the federation without a network and without threads: what it loads, forks of this process have loaded."""
    box, state = InProcess(), MemoryState()
    service = Service(folder / "state", hosted_in(folder), limits=OPEN)
    server_of(service, host=HOST, port=0)
    service.stop()
    httpx.Client(transport=httpx.HTTPTransport()).close()
    server = server_for(scene.plan, threads=1, signer=scene.made.signer(OPERATOR))
    waiting = list(scene.names)
    for name in waiting:
        Ledger.create(scene.ledger(folder, name), dataset=name, ceiling=scene.plan.budget, unit=scene.plan.unit)
    for _ in range(10):
        for name in waiting:
            book = scene.ledger(folder, name)
            entity = Entity(name, scene.tables[name], scene.plan, ledger=book, keys=folder / f"{name}.keys")
            if (data := participate(entity, box).factors) is not None:
                decode_factors(data, scene.plan)
                return
        coordinate(server, box, state=state)
    raise RuntimeError("the federation does not end")


def run_server(folder: Path, port: int, places: Places) -> bool:
    """Be the service until somebody kills it."""
    service = Service(folder / "state", hosted_in(folder), limits=OPEN, poll=_POLL)
    server_of(service, host=HOST, port=port, app=_dying(build_app(service), places)).run()
    return True


def _dying(app: App, places: Places) -> App:
    """Pass places between the sockets and the application: bodies coming in, answers going out."""

    async def run(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return

        async def received() -> Any:
            got = await receive()
            places.passed("request", f"received {scope['method']}")
            return got

        async def sent(one: Any) -> None:
            places.passed("request", f"before answering {scope['method']}")
            await send(one)
            places.passed("request", f"after answering {scope['method']}")

        await app(scope, received, sent)

    return run
