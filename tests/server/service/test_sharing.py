"""Every kind of sharing over requests: plain, peers, two operators; half by files, half by requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from studies.operators.forge import OPERATORS, halves_of
from tests.enrolled import OPERATOR, enrolled
from tests.operators import Two
from tests.refused import refused
from tests.served import NAMES, Served, hosted, listening, release_of, served, small_plan
from twofold.data.catalog import Catalog, Identifiers
from twofold.data.ratings import Ratings
from twofold.entity.agent import Entity
from twofold.entity.participate import ParticipationStatus, participate
from twofold.errors import BadMessage, KeyRefused, RoundClosed
from twofold.federation.factors import decode_factors
from twofold.federation.folder import EntityFolder
from twofold.federation.https import Client, Connection, HttpsMailbox, HttpsPeer
from twofold.federation.mailbox import AGREE, LISTS, REPORTS, ROUNDS, EntityMailbox, StepId
from twofold.federation.plan import Plan
from twofold.federation.secure import SecureSum
from twofold.identity.log import Event, read_log
from twofold.privacy.ledger import Ledger
from twofold.server.service.app import Service
from twofold.server.service.hosted import Federation, Hosted

SITES = tuple(f"site-{number}" for number in range(5))
CATALOG = Catalog([f"item-{number}" for number in range(6)])


class Group:
    """Entities with data, ledgers and keys, around one service."""

    def __init__(self, folder: Path, *, secure: SecureSum | None = None) -> None:
        given = {"feedback": "counts", "bound": 2, "max_items": 3, "rank": 2, "mechanism": "gram", "n_entities": 5}
        plan = Plan(catalog=CATALOG, secure=secure, **given)  # type: ignore[arg-type]
        self.folder, self.made = folder, enrolled(plan, *SITES, folder=folder)
        self.plan = self.made.plan
        counts = np.random.default_rng(3).integers(0, 3, (9, 6)).astype(float)
        ids = Identifiers([f"u{row}" for row in range(9)])
        self.ratings = Ratings(sparse.csr_array(counts), ids, CATALOG, "counts")
        for name in SITES:
            Ledger.create(folder / f"{name}.ledger", dataset=name, ceiling=self.plan.budget, unit=self.plan.unit)

    def join(self, name: str, box: EntityMailbox) -> ParticipationStatus:
        """Do what is due, as a new process would."""
        place = self.folder / name
        keys, ledger = place.with_suffix(".keys"), place.with_suffix(".ledger")
        return participate(Entity(name, self.ratings, self.plan, ledger=ledger, keys=keys), box)

    def host(self, **more: object) -> Hosted:
        """Without the agreements: they are sent like everything else."""
        return hosted(self.made, **({"agreements": None} | more))


@contextmanager
def around(group: Group, **more: object) -> Iterator[Served]:
    service = Service(group.folder / "state", [group.host(**more)], poll=0.05)
    try:
        yield Served(group.made, service)
    finally:
        service.stop()


def test_a_plain_federation_from_agreement_to_factors(tmp_path: Path) -> None:
    group = Group(tmp_path)
    with around(group) as one:
        for _ in range(2):
            waits = {group.join(name, one.box(name)).waits for name in SITES}
            assert len(waits) == 1
            one.look()
        assert waits == {StepId.ROUNDS}
        found = {group.join(name, one.box(name)).factors for name in SITES}
        assert len(found) == 1
        assert None not in found


def test_peers_mask_their_numbers_over_requests(tmp_path: Path) -> None:
    group = Group(tmp_path, secure=SecureSum(survivors=4, present=4))
    with around(group) as one:
        for step in (StepId.AGREE, StepId.KEYS, StepId.MASKED, StepId.ANSWERS):
            for name in SITES:
                assert group.join(name, one.box(name)).waits is step
            one.look()
        assert {group.join(name, one.box(name)).waits for name in SITES} == {None}
        factors = group.join(SITES[0], one.box(SITES[0])).factors
        assert factors is not None
        assert decode_factors(factors, group.plan).entities == 5


def test_half_by_files_half_by_requests(tmp_path: Path) -> None:
    group, box = Group(tmp_path), tmp_path / "box"
    with around(group, folders=(box, box)) as one:

        def mailbox(number: int) -> EntityMailbox:
            return one.box(SITES[number]) if number % 2 else EntityFolder(box, box, group.plan)

        for _ in range(2):
            for number, name in enumerate(SITES):
                assert group.join(name, mailbox(number)).factors is None
            one.look()
        found = {group.join(name, mailbox(number)).factors for number, name in enumerate(SITES)}
        assert len(found) == 1
        assert None not in found
        assert len(one.federation.store.messages(ROUNDS)) == 2
        # A message that came both ways is one message.
        assert one.federation.status is not None
        assert one.federation.status.refused == ()


def test_a_folder_that_is_away_does_not_stop_the_others(tmp_path: Path) -> None:
    made, box = enrolled(small_plan(), *NAMES), tmp_path / "box"
    service = Service(tmp_path / "state", [hosted(made, folders=(box, box))])
    one = Served(made, service)
    try:
        one.look()
        for path in box.iterdir():
            path.unlink()
        box.rmdir()
        one.box("st-anna").submit(ROUNDS, release_of(made, "st-anna"), entity="st-anna")
        one.look()
        assert one.federation.store.receipt_of(ROUNDS, "st-anna") is not None
        assert one.federation.problem is not None
        box.mkdir()
        assert one.look().arrived == 1
        assert one.federation.problem is None
    finally:
        service.stop()


class Pair:
    """Two services of one plan, each with the address of the other."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.two = Two(folder)
        self.plan = self.two.plan
        self.services: list[Service] = []
        self.peers: list[_Late] = [_Late(), _Late()]
        for place in (0, 1):
            one = Hosted(plan=self.plan, keys=self.two.keys(place), peer=self.peers[place])
            self.services.append(Service(folder / f"state-{place}", [one], poll=60))
        self.urls = [stack.enter_context(listening(service)) for service in self.services]
        self.stack = stack
        for place in (0, 1):
            client = self.client(OPERATORS[place], 1 - place)
            self.peers[place].way = HttpsPeer(client, self.plan)

    def client(self, name: str, place: int) -> Client:
        connection = Connection(server=self.urls[place], attempts=1)
        made = Client(connection, name=name, signer=self.two.made.secrets[name].sign, sleep=lambda _: None)
        return self.stack.enter_context(made)

    def box(self, name: str, place: int) -> HttpsMailbox:
        return HttpsMailbox(self.client(name, place), self.plan)

    def federation(self, place: int) -> Federation:
        return self.services[place].federations[self.plan.hash]


class _Late:
    """A way to the other operator that is known once both listen."""

    way: HttpsPeer | None = None

    def deliver(self, step: object, data: bytes) -> None:
        assert self.way is not None
        self.way.deliver(step, data)  # type: ignore[arg-type]

    def close(self) -> None:
        assert self.way is not None
        self.way.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(tmp_path, stack)


def test_two_operators_sum_reports_that_came_to_either(pair: Pair) -> None:
    for number, name in enumerate(pair.two.names):
        sent = pair.box(name, number % 2).submit(REPORTS, pair.two.reports[name], entity=name)
        assert sent.new
    for _ in range(8):
        for place in (0, 1):
            pair.federation(place).look()
    marks = {pair.federation(place).store.published_receipt(REPORTS) for place in (0, 1)}
    assert len(marks) == 1
    assert None not in marks
    found = {pair.box(pair.two.names[0], place).fetch(REPORTS) for place in (0, 1)}
    assert len(found) == 1
    assert decode_factors(found.pop(), pair.plan).entities == 3  # type: ignore[arg-type]
    for place in (0, 1):  # what the other one sent is in the log, each message once
        one, other = pair.federation(place), OPERATORS[1 - place]
        parts = [mark for step in one.between.values() for _, mark in one.store.parts(step)]
        logged = [line.fields for line in read_log(one.log.path) if line.event is Event.ACCEPTED]
        assert sorted(line["digest"] for line in logged if line["carrier"] == other) == sorted(parts) != []


def test_parts_beyond_their_number_leave_no_file(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.server.service.store._MOST_PARTS", 0)
    for name in pair.two.names:
        pair.box(name, 0).submit(REPORTS, pair.two.reports[name], entity=name)
    objects = pair.federation(1).store.folder / "objects"
    pair.federation(0).look()
    assert isinstance(pair.federation(0).problem, RoundClosed)
    assert [path for path in objects.rglob("*") if path.is_file()] == []


def test_a_service_closes_its_way_to_the_other_operator(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Way(_Late):
        def close(self) -> None:
            closed.append(True)

    two = Two(tmp_path)
    Service(tmp_path / "state", [Hosted(plan=two.plan, keys=two.keys(0), peer=Way())]).stop()
    assert closed == [True]


def test_only_the_other_operator_sends_parts(pair: Pair) -> None:
    half = halves_of(pair.two.reports["site-0"], pair.plan)[0]
    with refused(KeyRefused, "keys"):
        HttpsPeer(pair.client("site-0", 0), pair.plan).deliver(LISTS, half)
    with refused(BadMessage):
        HttpsPeer(pair.client(OPERATORS[1], 0), pair.plan).deliver(LISTS, half)
    assert pair.federation(0).store.parts(LISTS) == []


def test_an_operator_that_is_away_gets_everything_later(pair: Pair) -> None:
    way, pair.peers[0].way = pair.peers[0].way, HttpsPeer(pair.client(OPERATORS[0], 0), pair.plan)  # refused there
    for name in pair.two.names:
        pair.box(name, 0).submit(REPORTS, pair.two.reports[name], entity=name)
    pair.federation(0).look()
    assert pair.federation(0).problem is not None
    assert len(pair.federation(0).store.undelivered()) >= 2
    pair.peers[0].way = way
    for _ in range(6):
        for place in (0, 1):
            pair.federation(place).look()
    assert pair.federation(0).store.undelivered() == []
    assert pair.federation(1).is_published(REPORTS)


def test_the_operator_s_agreement_step_is_published_at_once(tmp_path: Path) -> None:
    with served(tmp_path) as one:
        one.look()
        assert one.federation.is_published(AGREE)
        assert one.federation.operator == OPERATOR
