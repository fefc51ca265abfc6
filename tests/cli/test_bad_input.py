"""Every verb with every kind of bad file and option: one message, the right exit code, no trace, nothing written.

The cases are made from one good command per verb, in which one file at a time is replaced by a bad one. Devices are
never written to: an output has to be refused before.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.world import BAD_INPUTS, BAD_OUTPUTS, SECRET, Told, ask, build
from twofold.errors import TwofoldError

#: A good command of every verb; what stands in braces is a file that it reads, or, after >, one that it writes.
GOOD = (
    "check {anna.csv} --catalog {items.csv}",
    "check {anna.csv} --plan {plan.toml}",
    "plan new {>new.toml} --catalog {items.csv} --features {kinds.csv} --simulation",
    "plan new {>new.toml} --catalog items.csv --public-key {anna.pub} --public-key coordinator.pub",
    "plan show {plan.toml}",
    "plan explain {plan.toml}",
    "plan agree {plan.toml} --keys {anna.keys} -o {>x.agreement}",
    "plan agree plan.toml --keys anna.keys --ledger {anna.ledger} --revoked {old.revoked}",
    "plan agreed {plan.toml} {anna.agreement} bern.agreement clara.agreement coordinator.agreement -o {>x.agreed}",
    "keys new --entity new --keys {>new.keys} -o {>new.pub}",
    "keys show {anna.pub}",
    "keys revoke --keys {anna.keys} -o {>x.revoked}",
    "keys person --keys {>you.keys} -o {>you.request}",
    "keys vouch {me.request} --plan {plan.toml} --keys {anna.keys} -o {>me.voucher}",
    "release --plan {plan.toml} --data {anna.csv} --ledger {anna.ledger} --keys {anna.keys} -o {>x.out} --entity anna",
    "release --plan plan.toml --data anna.csv --ledger new.ledger --new-ledger --keys anna.keys -o {>x.out} "
    "--entity anna --agreements {plan.agreed}",
    "factorize {anna.round1} bern.round1 clara.round1 --plan {plan.toml} --keys {coordinator.keys} -o {>x.round2}",
    "coordinate --plan {plan.toml} --keys {coordinator.keys} --state new --inbox box --outbox box",
    "personalize {items.round2} --plan {plan.toml} --data {anna.csv} --catalog {items.csv} -o {>anna.x}",
    "join --plan {plan.toml} --data {anna.csv} --ledger {anna.ledger} --keys {anna.keys} --outbox box --inbox box "
    "-o {>anna.x}",
    "join --invitation {anna.invitation} --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.x",
    "invite --plan {plan.toml} --entity anna --server https://a.example --keys {coordinator.keys} -o {>x.invitation} "
    "--ca {ca.crt} --certificate {server.crt}",
    "forward {anna.round1} --plan {plan.toml} --server http://127.0.0.1:1 --keys {anna.keys}",
    "init new --part trial --catalog {items.csv} --yes",
    "init new --part operator --name o --catalog items.csv --public-key {anna.pub} --yes",
    "recommend {anna.model} --user 3",
    "recommend {anna.model} --all -o {>lists.parquet}",
    "simulate --plan {sim.toml} --data {all.csv} --catalog {items.csv}",
    "ledger new {>new.ledger} --dataset x --epsilon 1",
    "ledger show {anna.ledger}",
    "ledger verify {anna.ledger} --key {anna.pub}",
    "ledger raise {anna.ledger} --epsilon 9 --reason why --keys {anna.keys}",
    "ledger sign {anna.ledger} --keys {bern.keys} --reason why",
    "ledger export {anna.ledger} -o {>x.statement}",
    "ledger card {anna.ledger} -o {>x.md}",
    "policy new -o {>x.toml} --approver {site/officer.pub} --writer {anna.pub}",
    "policy show {site/policy.toml}",
    "approve {site/anna.draft} --keys {site/officer.keys} --yes",
    "log show {anna.log}",
    "log verify {anna.log} --key {anna.pub}",
    "card show {anna.ledger} --keys {anna.keys} --site {card.toml} --audit {audit.json} -o {>x.html}",
    "card verify {card.json} --key {anna.pub} --ledger {anna.ledger}",
    "card export {card.json} --registry --author me -o {>x.yaml}",
)
#: Those that need somebody else to answer, or another kind of plan.
NOT_ALONE = ("keys vouch", "join --invitation", "forward")
#: Replacements that are no mistake.
FINE = {
    ("{card.toml}", "bad/empty"),  # a site that says nothing
    ("{>x.out}", "bad/folder"),  # a message may go into a folder
}


#: Every file of every command.
SLOTS = [(good, slot) for good in GOOD for slot in dict.fromkeys(re.findall(r"\S*\{[^}]*\}", good))]


def _lines(good: str, slot: str) -> list[list[str]]:
    """Put every bad file in the place of a good one."""
    bad = BAD_OUTPUTS if ">" in slot else BAD_INPUTS
    cases = [[name if word == slot else word.strip("{>}") for word in good.split()] for name in bad]
    return [line for line, name in zip(cases, bad, strict=True) if (slot, name) not in FINE]


@pytest.fixture(scope="module")
def good_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    build(folder)
    return folder


@pytest.fixture
def folder(good_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, with its pipe, and with the holes of its huge file."""
    subprocess.run(["cp", "-a", "--sparse=always", str(good_folder), str(tmp_path / "copy")], check=True)
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def state(folder: Path) -> dict[str, object]:
    """Every name with size and time; locks do not count."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_size,
            path.lstat().st_mtime_ns * path.is_file(),
        )
        for path in folder.rglob("*")
        if path.suffix != ".lock"
    }


def check(told: Told, *, code: int = 2) -> None:
    """One message, no trace, nothing printed as a result, no private value."""
    assert isinstance(told.error, TwofoldError | SystemExit), repr(told.error)
    assert told.code == code, told
    assert "Traceback" not in told.out + told.err
    messages = [
        line for line in told.err.splitlines() if re.match(r"[A-Z][A-Za-z]+: ", line) and not line.startswith("Usage")
    ]
    assert len(messages) == 1, told.err
    assert told.out == "", told.out
    shown = told.err + (str(told.error.as_dict()) if isinstance(told.error, TwofoldError) else "")
    assert not [word for word in SECRET if word in shown], shown


def words(line: str) -> list[str]:
    return [word.strip("{>}") for word in line.split()]


@pytest.mark.parametrize("good", [good for good in GOOD if not good.startswith(NOT_ALONE)])
def test_the_same_command_with_good_files_works(good: str, folder: Path) -> None:
    """Else the cases below would be refused for another reason."""
    told = ask(*words(good))
    assert told.code in (0, 3), told


@pytest.mark.parametrize(("good", "slot"), SLOTS)
def test_a_bad_file_is_refused(good: str, slot: str, folder: Path) -> None:
    before = state(folder)
    for line in _lines(good, slot):
        told = ask(*line)
        try:
            check(told)
        except AssertionError as error:
            raise AssertionError(f"{' '.join(line)}: {error}") from None
    after = state(folder)
    assert after == before, {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}


def test_there_are_enough_cases() -> None:
    assert sum(len(_lines(good, slot)) for good, slot in SLOTS) >= 300


#: Wrong options and values, which are refused before or after a file is read.
WRONG = """
frobnicate
--frobnicate
plan frobnicate
demo --patients 3
demo --hospitals 0
demo --epsilon 0
demo --epsilon nan
demo --seed -1
demo --seed x
demo extra
check
check anna.csv
check anna.csv --catalog items.csv --frobnicate
check anna.csv --catalog items.csv --user
check anna.csv --catalog items.csv --user patient
check anna.csv --catalog items.csv --item user
check anna.csv --catalog items.csv --value item
check anna.csv --catalog items.csv --value patient
check anna.csv --catalog items.csv --feedback stars
check anna.csv --catalog items.csv --duplicates maybe
check anna.csv --catalog items.csv --unknown-items maybe
check anna.csv --catalog items.csv --bound 0
check anna.csv --catalog items.csv --bound -1
check anna.csv --catalog items.csv --bound nan
check anna.csv --catalog items.csv --bound inf
check anna.csv --catalog items.csv --bound x
check anna.csv --catalog items.csv --max-items 0
check anna.csv --catalog items.csv --max-items 1.5
check anna.csv --catalog items.csv --l1 1 --l2 1
check anna.csv --catalog items.csv --l1 0
check anna.csv --catalog items.csv --separator ;
check anna.csv --catalog items.csv --separator ::
check anna.csv --catalog items.csv --separator é
check anna.csv --catalog items.csv --encoding klingon
check anna.csv --catalog items.csv --encoding base64
check anna.csv --catalog items.csv --encoding utf-16
check anna.csv --catalog items.csv --encoding utf-32
check anna.csv --catalog items.csv --decimal ;
check anna.csv bern.csv --catalog items.csv
check anna.csv --plan plan.toml --catalog kinds2.csv
check all.csv --plan plan.toml
init --yes
init --part dog --yes
init --part entity --yes
init --part entity --name ../x --yes
init --part entity --name a/b --yes
init --part trial --yes
init new --part trial --catalog items.csv --epsilon -1 --yes
init new --part trial --catalog items.csv --epsilon much --yes
init new --part trial --catalog items.csv --n-users 0 --yes
init items.csv --part trial --catalog items.csv --yes
doctor --frobnicate
plan new
plan new x.toml
plan new --catalog items.csv
plan new x.toml --catalog items.csv --epsilon 0
plan new x.toml --catalog items.csv --epsilon -1
plan new x.toml --catalog items.csv --epsilon 1e9
plan new x.toml --catalog items.csv --epsilon nan
plan new x.toml --catalog items.csv --epsilon inf
plan new x.toml --catalog items.csv --epsilon 1/0
plan new x.toml --catalog items.csv --delta 1
plan new x.toml --catalog items.csv --delta -1
plan new x.toml --catalog items.csv --n-entities 0
plan new x.toml --catalog items.csv --n-entities -3
plan new x.toml --catalog items.csv --n-users 0
plan new x.toml --catalog items.csv --n-users 1e3
plan new x.toml --catalog items.csv --rank 0
plan new x.toml --catalog items.csv --max-items 0
plan new x.toml --catalog items.csv --max-items 99
plan new x.toml --catalog items.csv --bound 0
plan new x.toml --catalog items.csv --lower 9
plan new x.toml --catalog items.csv --mechanism exact
plan new x.toml --catalog items.csv --mechanism magic
plan new x.toml --catalog items.csv --feedback stars
plan new x.toml --catalog items.csv --unit dog
plan new x.toml --catalog items.csv --quorum 99
plan new x.toml --catalog items.csv --deadline tomorrow
plan new x.toml --catalog items.csv --secure both
plan new x.toml --catalog items.csv --secure peers --floor 3
plan new x.toml --catalog items.csv --entity ../x
plan new x.toml --catalog items.csv --public-key anna.pub
plan new x.toml --catalog items.csv --item price
plan new x.toml --catalog items.csv --seed -1
plan show
plan show a b
plan explain --n-items 0 --n-users 9 --bound 1 --max-items 2 --n-prototypes 2
plan explain --n-items 9
plan explain plan.toml --epsilon 0
plan explain plan.toml --epsilon x
plan agree plan.toml
plan agree plan.toml --keys old.keys
plan agree sim.toml --keys anna.keys
plan agreed plan.toml -o x
plan agreed plan.toml anna.agreement -o x
keys new --keys x.keys -o x.pub
keys new --entity a --operator b --keys x.keys -o x.pub
keys new --entity ../x --keys x.keys -o x.pub
keys new --entity x --keys x.keys -o x.keys
keys new --entity x --keys x.keys -o x.pub --renew none.keys
keys new --entity x --keys x.keys -o x.pub --renew a --replace b
keys show
keys revoke --keys anna.keys
keys person --keys me.keys
keys vouch me.request --plan plan.toml
release
release --plan plan.toml --data anna.csv --ledger anna.ledger
release --plan plan.toml --data anna.csv --ledger none.ledger --keys anna.keys -o anna.x
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys bern.keys -o anna.x
release --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o stranger.x
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.x --entity stranger
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.csv
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.ledger
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.ledger.head
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.x --person
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.x --confirm
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.x --user patient
release --plan plan.toml --data all.csv --ledger anna.ledger --keys anna.keys -o anna.x
release --plan plan.toml --data anna.csv --ledger anna.ledger --keys anna.keys -o anna.x --version 2
release --plan plan.toml --data anna.csv --ledger bern.ledger --keys anna.keys -o anna.x
factorize --plan plan.toml -o x
factorize anna.round1 bern.round1 clara.round1 --plan plan.toml -o x
factorize anna.round1 bern.round1 clara.round1 --plan plan.toml --keys anna.keys -o x
factorize anna.round1 bern.round1 clara.round1 --plan sim.toml -o x
factorize anna.round1 bern.round1 clara.round1 --plan plan.toml --keys coordinator.keys -o anna.round1
factorize items.round2 --plan plan.toml --keys coordinator.keys -o x
coordinate
coordinate --plan plan.toml --state s
coordinate --plan plan.toml --state s --inbox none --outbox box
coordinate --plan plan.toml --state s --inbox box --outbox box
coordinate --plan plan.toml --state s --inbox box --outbox box --keys anna.keys
coordinate --plan plan.toml --state s --inbox box --outbox box --keys coordinator.keys --wait -1
coordinate --plan plan.toml --state s --inbox box --outbox box --keys coordinator.keys --poll 0
coordinate --plan plan.toml --state s --keys coordinator.keys --listen nowhere
coordinate --plan plan.toml --state s --keys coordinator.keys --listen 127.0.0.1:99999 --plain-http
coordinate --plan plan.toml --state s --keys coordinator.keys --listen 0.0.0.0:8443
coordinate --plan plan.toml --state s --keys coordinator.keys --server http://127.0.0.1:1
personalize --plan plan.toml --data anna.csv
personalize --plan plan.toml --data anna.csv -o anna.x --local magic
personalize --plan plan.toml --data anna.csv -o anna.x --strength 5
personalize --plan plan.toml --data anna.csv -o anna.x --strength -1
personalize items.round2 --plan plan.toml --data anna.csv -o anna.x --strength nan
personalize items.round2 --plan plan.toml --data anna.csv -o anna.x --strength much
personalize anna.round1 --plan plan.toml --data anna.csv -o anna.x
personalize items.round2 --plan sim.toml --data anna.csv -o anna.x
personalize items.round2 --plan plan.toml --data anna.csv -o stranger.x
personalize items.round2 --plan plan.toml --data anna.csv -o anna.model
join --data anna.csv --ledger anna.ledger -o anna.x
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys --inbox box
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys --inbox items.csv --outbox box
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys --server x --inbox box
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys --server ftp://x
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys --server http://example.org
join --plan plan.toml --data anna.csv --ledger anna.ledger -o anna.x --keys anna.keys --inbox box --outbox box --wait -1
invite --plan plan.toml --entity stranger --server https://a.example --keys coordinator.keys -o x
invite --plan plan.toml --entity anna --server nonsense --keys coordinator.keys -o x
invite --plan plan.toml --entity anna --server https://a.example --keys anna.keys -o x
forward anna.round1 --plan plan.toml --server nonsense --keys anna.keys
forward --plan plan.toml --server https://a.example --keys anna.keys
recommend anna.model
recommend anna.model --user nobody
recommend anna.model --user 3 --history a=1
recommend anna.model --history a
recommend anna.model --history a=x
recommend anna.model --history {
recommend anna.model --history {}x
recommend anna.model --history nothing=1
recommend anna.model --history a=1e400
recommend anna.model --user 3 -n 0
recommend anna.model --user 3 -n x
recommend anna.model --user 3 --only nothing
recommend anna.model --user 3 -o x.parquet
recommend anna.model --all
recommend anna.model --all --why -o x.parquet
recommend anna.model --all -o x.xlsx
recommend anna.model --all -o anna.model
simulate --plan sim.toml --data all.csv --entity hospital
simulate --plan plan.toml --data all.csv
simulate --plan sim.toml --data all.csv --seed -1
simulate --plan sim.toml --data all.csv --threads 0
simulate --plan sim.toml --data all.csv --strength -1
simulate --plan sim.toml --data all.csv -o items.csv
simulate --plan sim.toml --data all.csv -o items.csv/x
simulate --plan sim.toml --data all.csv --user entity
ledger new x.ledger
ledger new x.ledger --dataset x --epsilon 0
ledger new x.ledger --dataset x --epsilon much
ledger new x.ledger --dataset x --epsilon 1 --delta 2
ledger new x.ledger --dataset x --epsilon 1 --entities 0
ledger new x.ledger --dataset x --epsilon 1 --unit dog
ledger new anna.ledger --dataset x --epsilon 1
ledger raise anna.ledger --epsilon 1 --reason why --keys anna.keys
ledger raise anna.ledger --epsilon 9 --reason why
ledger raise anna.ledger --epsilon 9
ledger verify anna.ledger --head 00
ledger verify anna.ledger --key bern.pub
ledger verify anna.ledger --key 00
ledger card anna.ledger --record 99
ledger card anna.ledger --record -1
ledger card anna.ledger --format pdf
ledger card anna.ledger -o anna.ledger
ledger export anna.ledger -o anna.ledger.head
policy new -o site/policy.toml
policy new -o x.toml --approvals 9
policy new -o x.toml --approvals -1
approve site/anna.draft --keys anna.keys --policy site/policy.toml --yes
approve site/anna.draft --keys site/officer.keys --json
log show anna.log --since yesterday
log verify anna.log --key bern.pub
log verify anna.log --head 00
card show anna.ledger --record 99
card show anna.ledger --format pdf
card verify card.json --key bern.pub
card verify card.json --ledger bern.ledger
card export card.json -o x.yaml
card export card.json --registry -o X.yaml --author me
card export card.json --registry -o x.yaml
errors no-such-page
errors a b
completion
completion tcsh
audit --seed x
audit --seed 1 -o items.csv
audit --seed 1 -o bad/none/x
demo --output items.csv
demo --output items.csv/x
demo --output /dev/full
""".strip().splitlines()


@pytest.mark.parametrize("group", range(12))
def test_a_wrong_option_is_refused(group: int, folder: Path) -> None:
    before, wrong = state(folder), []
    for line in WRONG[group::12]:
        told = ask(*line.split())
        try:
            check(told)
        except AssertionError as error:
            wrong.append(f"{line}: {error}")
    after = state(folder)
    changed = {name for name in after.keys() | before.keys() if after.get(name) != before.get(name)}
    assert (wrong, changed) == ([], set())
