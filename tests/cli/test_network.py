"""`join --server`, `invite`, `forward` and `coordinate --listen`: one command each, resumable, with plain refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.agreed import OPERATOR, make_keys
from tests.certificates import Authority
from tests.refused import check_refusal
from tests.served import listening
from twofold.cli import app
from twofold.cli.network import documents_of
from twofold.errors import (
    BadMessage,
    KeyRefused,
    MissingExtra,
    PlanMismatch,
    Unreachable,
    UntrustedServer,
)
from twofold.federation.https import Client
from twofold.federation.invitation import Invitation
from twofold.federation.plan import Plan
from twofold.identity.keystore import KeyStore
from twofold.identity.log import read_log
from twofold.server.service.app import Service
from twofold.server.service.hosted import Federation, Hosted
from twofold.server.service.limits import Limits

NAMES = ("anna", "bern")
ITEMS = [f"item-{number}" for number in range(8)]


def ask(line: str) -> Result:
    return CliRunner().invoke(app, line.split())


def call(line: str, code: int = 0) -> str:
    result = ask(line)
    assert result.exit_code == code, (line, result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, tables, a plan, and certificates."""
    folder = tmp_path_factory.mktemp("network")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        pl.DataFrame({"item": ITEMS}).write_csv("items.csv")
        for seed, name in enumerate(NAMES):
            rng = np.random.default_rng(seed)
            users, items = np.nonzero(rng.random((25, 8)) < 0.4)
            frame = {"user": users + 100, "item": np.array(ITEMS)[items], "value": rng.integers(1, 6, users.size)}
            pl.DataFrame(frame).write_csv(f"{name}.csv")
        call(f"plan new plan.toml --catalog items.csv --n-users 25 --rank 2 {make_keys(NAMES)}")
        call(f"plan agree plan.toml --keys {OPERATOR}.keys")
        Authority(folder).issue("server")
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


class Running:
    """The service of the plan in this folder."""

    def __init__(self, url: str, federation: Federation) -> None:
        self.url, self.federation = url, federation

    def join(self, name: str, more: str = "", *, files: str = "--plan plan.toml --ca ca.crt") -> str:
        own = f"--data {name}.csv --ledger {name}.ledger --new-ledger --keys {name}.keys -o {name}.model"
        return f"join {files} {own} --server {self.url} --agree --confirm {more}"


@pytest.fixture
def running(folder: Path) -> Iterator[Running]:
    keys, plan = KeyStore(f"{OPERATOR}.keys"), Plan.read("plan.toml")
    one = Hosted(plan=plan, keys=keys, documents=documents_of(Path("plan.toml")))
    service = Service(folder / "state", [one], limits=Limits(retry_after=0), poll=0.02)
    with listening(service, certificate=(folder / "server.crt", folder / "server.key")) as url:
        yield Running(url, service.federations[plan.hash])


def test_a_federation_by_join_alone(running: Running) -> None:
    said = call(running.join("anna", "--once"), 3)
    assert "sent: the agreement" in said
    assert "everybody's agreements" in said
    with running.federation._working:  # nothing is published meanwhile
        call(running.join("bern", "--once"), 3)
    running.federation.look()
    waiting = json.loads(call(running.join("anna", "--once --json"), 3))
    assert (waiting["already_sent"], waiting["sent"]) == (["the agreement"], ["the agreement", "the message"])
    assert "item factors" in waiting["waits"]
    record = json.loads(call(running.join("bern", "--wait 60 --poll 0.05 --json")))
    assert (record["file"], record["waits"]) == ("bern.model", None)
    assert len(json.loads(call("recommend bern.model --user 100 -n 2 --json"))) == 2
    call(running.join("anna", "--wait 60 --poll 0.05"))
    events = [one.event.value for one in read_log(running.federation.log.path)]
    assert [events.count(one) for one in ("accepted", "published")] == [4, 2]
    assert "accepted" in call(f"log show {running.federation.log.path}")


def test_an_invitation_is_all_the_set_up(running: Running, folder: Path) -> None:
    made = f"--plan plan.toml --keys {OPERATOR}.keys --server {running.url} --certificate server.crt"
    call(f"invite {made} --ca ca.crt --entity anna -o anna.invitation")
    own = "--data anna.csv --ledger anna.ledger --new-ledger --keys anna.keys -o anna.model"
    for path in ("plan.toml", "plan.roster", "items.csv", "ca.crt"):
        Path(path).rename(f"away-{path}")
    said = call(f"join --invitation anna.invitation {own} --agree --confirm --once", 3)
    assert "sent: the agreement" in said
    fetched = Path("anna.federation")
    assert {path.name for path in fetched.iterdir()} == {"plan.toml", "plan.roster", "items.csv"}
    assert Plan.read(fetched / "plan.toml").hash == running.federation.plan.hash
    assert "already sent" in call(f"join --invitation anna.invitation {own} --once", 3)
    assert not list(folder.glob(".anna*"))


def test_an_invitation_is_checked_every_time(running: Running) -> None:
    """Not only when the plan is fetched: the file may have been replaced since."""
    asked = f"--plan plan.toml --keys {OPERATOR}.keys --server {running.url} --ca ca.crt"
    call(f"invite {asked} --entity anna -o anna.invitation")
    own = "--data anna.csv --ledger anna.ledger --new-ledger --keys anna.keys -o anna.model --agree --confirm --once"
    call(f"join --invitation anna.invitation {own}", 3)
    good = Invitation.read("anna.invitation")
    Invitation(**{**vars(good), "server": "https://localhost:1"}).write("anna.invitation")
    for more in ("", "--plan plan.toml"):
        check_refusal(ask(f"join --invitation anna.invitation {more} {own}").exception, BadMessage, "invitation")
    good.write("anna.invitation")
    call(f"join --invitation anna.invitation --plan plan.toml {own}", 3)
    call(f"plan new other.toml --catalog items.csv --n-users 26 --rank 2 {made_keys()}")
    line = f"join --invitation anna.invitation --plan other.toml {own}"
    check_refusal(ask(line).exception, PlanMismatch, "invitation")


def made_keys() -> str:
    return " ".join(f"--public-key {name}.pub" for name in (*NAMES, OPERATOR))


def test_an_invitation_names_no_file_of_the_reader() -> None:
    with pytest.raises(BadMessage) as caught:
        Invitation(server="https://a.org", plan="ab" * 32, entity="anna", operator=OPERATOR, authority="/etc/passwd")
    assert caught.value.parameter == "invitation"


def test_join_closes_its_connection(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    closed, real = list[str](), Client.close

    def close(self: Client) -> None:
        closed.append(self.name)
        real(self)

    monkeypatch.setattr(Client, "close", close)
    call(running.join("anna", "--once"), 3)
    assert closed == ["anna"]
    check_refusal(ask(f"{running.join('anna', '--once')} --pin {'ab' * 32}").exception, UntrustedServer, "pin")
    assert closed == ["anna", "anna"]


@pytest.mark.parametrize("document", ["plan", "roster", "catalog"])
def test_a_server_that_sends_another_document_is_found_out(running: Running, document: str) -> None:
    call(
        f"invite --plan plan.toml --keys {OPERATOR}.keys --server {running.url} --ca ca.crt "
        "--entity anna -o anna.invitation"
    )
    data = running.federation.documents[document]
    running.federation.documents[document] = data.replace(b"item-7", b"item-9").replace(b'"rank":2', b'"rank":3') + b" "
    result = ask(
        "join --invitation anna.invitation --data anna.csv --ledger anna.ledger --new-ledger --keys anna.keys "
        "-o anna.model --agree --confirm --once"
    )
    check_refusal(result.exception, PlanMismatch, document)
    assert not Path("anna.federation").exists()
    assert not Path("anna.ledger").exists()


def test_an_invitation_of_a_stranger(running: Running) -> None:
    asked = f"--plan plan.toml --keys {OPERATOR}.keys --server {running.url} --ca ca.crt"
    call(f"invite {asked} --entity anna -o anna.invitation")
    made = Invitation.read("anna.invitation")
    Invitation(**{**vars(made), "entity": "bern"}).write("bern.invitation")
    own = "--data bern.csv --ledger bern.ledger --new-ledger --keys bern.keys -o bern.model --once"
    check_refusal(ask(f"join --invitation bern.invitation {own}").exception, BadMessage, "invitation")
    Path("x.invitation").write_text("{}")
    check_refusal(ask(f"join --invitation x.invitation {own}").exception, BadMessage, "invitation")
    wrong = f"invite {asked.replace(OPERATOR, 'anna')} --entity anna -o x"
    check_refusal(ask(wrong).exception, PlanMismatch, "keys")
    check_refusal(ask(f"invite {asked} --entity nobody -o x").exception, PlanMismatch, "invitation")
    assert not Path("x").exists()


def test_a_site_without_a_line_hands_over_files(running: Running) -> None:
    """Bern may only write files; anna uploads them, and brings back what was published."""
    away = running.join("bern", "--outbox out --inbox in").replace(f"--server {running.url}", "")
    carry = f"forward out --plan plan.toml --keys anna.keys --server {running.url} --ca ca.crt"
    assert "waiting for everybody's agreements" in call(away, 3)
    assert "the agreement of bern, sent" in call(carry)
    call(running.join("anna", "--once"), 3)
    running.federation.look()
    assert "everybody's agreements" in call(f"{carry} --back in", 3)
    call(away, 3)
    said = call(carry)
    assert "the agreement of bern, already there" in said
    assert "the message of bern, sent" in said
    call(running.join("anna", "--wait 60 --poll 0.05"))
    assert "the item factors" in call(f"{carry} --back in")
    assert "bern.model: Model of bern" in call(away)
    carriers = {one.fields["carrier"] for one in read_log(running.federation.log.path) if one.event == "accepted"}
    assert carriers == {"anna"}


def test_forwarding_what_is_no_message(running: Running) -> None:
    line = f"--plan plan.toml --keys anna.keys --server {running.url} --ca ca.crt"
    check_refusal(ask(f"forward items.csv {line}").exception, BadMessage)
    Path("empty").mkdir()
    check_refusal(ask(f"forward empty {line}").exception, BadMessage, "files")


def test_refusals_before_anything_is_spent(running: Running) -> None:
    line = running.join("anna", "--once")
    check_refusal(ask(line.replace("--ca ca.crt", "")).exception, UntrustedServer, "ca")
    check_refusal(ask(f"{line} --pin {'ab' * 32}").exception, UntrustedServer, "pin")
    check_refusal(ask(line.replace("https", "http").replace("127.0.0.1", "example.org")).exception, UntrustedServer)
    assert ask(line.replace("--plan plan.toml", "")).exit_code == 2
    assert ask(f"{line} --outbox x --inbox x").exit_code == 2
    assert ask(line.replace(f"--server {running.url}", "")).exit_code == 2
    spent = json.loads(call("ledger show anna.ledger --json"))
    assert not spent.get("entries", spent.get("records"))


def test_a_key_that_the_server_does_not_know(running: Running) -> None:
    call(running.join("anna", "--once"), 3)
    running.federation.roster = running.federation.roster.joined(
        [one for name, one in running.federation.roster.items() if name != "anna"]
    )
    check_refusal(ask(running.join("anna", "--once")).exception, KeyRefused, "keys")


def test_a_server_that_is_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twofold.federation.https.time.sleep", lambda _: None)
    line = (
        "join --plan plan.toml --data anna.csv --ledger anna.ledger --new-ledger --keys anna.keys -o anna.model "
        "--agree --confirm --server http://127.0.0.1:1 --once"
    )
    check_refusal(ask(line).exception, Unreachable, "server")


def test_the_operator_closes_a_step_of_a_running_service(running: Running) -> None:
    close = f"coordinate --plan plan.toml --state state --server {running.url} --ca ca.crt --close"
    check_refusal(ask(f"{close} --keys anna.keys").exception, KeyRefused, "keys")
    assert ask(close.replace("--close", f"--keys {OPERATOR}.keys")).exit_code == 2
    with running.federation._working:
        assert "asked to close agreements" in call(f"{close} --keys {OPERATOR}.keys")
        asked = running.federation.store.asked_to_close()
    assert asked is not None
    assert asked[0] == "agree"
    assert [one.fields["step"] for one in read_log(running.federation.log.path) if one.event == "closed"] == ["agree"]


def test_what_a_service_needs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listen = f"coordinate --plan plan.toml --keys {OPERATOR}.keys --state state --listen"
    check_refusal(ask(f"{listen} 0.0.0.0:0 --plain-http").exception, UntrustedServer, "certificate")
    check_refusal(ask(f"{listen} 127.0.0.1:0").exception, UntrustedServer, "certificate")
    assert ask(f"{listen} nowhere").exit_code == 2
    assert ask(f"coordinate --plan plan.toml --keys {OPERATOR}.keys --state state").exit_code == 2
    call("plan new open.toml --catalog items.csv --n-users 25 --simulation")
    alone = "coordinate --plan open.toml --state other --listen 127.0.0.1:0 --plain-http"
    check_refusal(ask(alone).exception, PlanMismatch, "roster")
    monkeypatch.setattr("twofold.cli.network.find_spec", lambda _: None)
    check_refusal(ask(f"{listen} 127.0.0.1:0 --plain-http").exception, MissingExtra, "network")
