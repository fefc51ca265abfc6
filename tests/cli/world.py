"""One folder with a good file of every kind, and bad ones to put in their places."""

from __future__ import annotations

import os
import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from tests.agreed import OPERATOR, agree, make_keys
from tests.certificates import Authority
from tests.site_keys import write_keys
from twofold.cli import app
from twofold.errors import NotApproved, TwofoldError

NAMES = ("anna", "bern", "clara")
ITEMS = "abcdefgh"
NUMBERS = "--catalog items.csv --mechanism gram --n-users 2000 --rank 1 --max-items 4"
#: Values of people, which nothing may ever show.
SECRET = ("Jane", "Doe", "hiv-test", "positive", "John", "negative")
AUDIT = """{"schema": "twofold.audit/1", "at": "2026-01-01T00:00:00Z", "software": "twofold 0", "mechanisms": ["x"],
"passed": true, "confidence": 0.99, "findings": [], "enumeration": []}"""
ROWS = "Jane Doe,hiv-test,positive\nJohn Roe,heparin,negative\n"


@dataclass(frozen=True)
class Told:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str
    error: BaseException | None


def ask(*line: str, charset: str = "utf-8", given: str | bytes | None = None) -> Told:
    """Run a command in this process, with the exit code that a shell sees; a fault of ours is no exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = CliRunner(charset=charset).invoke(app, list(line), input=given)
    error = result.exception
    code = result.exit_code
    if isinstance(error, TwofoldError):
        code = 3 if isinstance(error, NotApproved) and error.parameter == "approvals" else 2
    elif error is not None and not isinstance(error, SystemExit):
        code = 1
    return Told(code, result.stdout, result.stderr, error)


def call(line: str, *codes: int) -> str:
    told = ask(*line.split())
    assert told.code in (codes or (0,)), (line, told)
    return told.out


def build(folder: Path) -> None:
    """Fill a folder by the commands themselves: keys, a plan that all agreed to, both rounds, a card, a policy."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        _build()
        _spoil()
    finally:
        os.chdir(here)


def _build() -> None:
    for name in ("box", "in", "out", "state", "site"):
        Path(name).mkdir()
    Path("items.csv").write_text("item,title\n" + "\n".join(f"{item},Title {item}" for item in ITEMS))
    for name in NAMES:
        rows = [f"{user},{ITEMS[(user * 3 + place) % 8]},{1 + place}" for user in range(30) for place in range(3)]
        Path(f"{name}.csv").write_text("user,item,value\n" + "\n".join(rows))
    rows = [f"{name},{line}" for name in NAMES for line in Path(f"{name}.csv").read_text().splitlines()[1:]]
    Path("all.csv").write_text("entity,user,item,value\n" + "\n".join(rows))
    keys = make_keys(NAMES)
    call(f"plan new plan.toml {NUMBERS} --epsilon 3 {keys}")
    call(f"plan new sim.toml {NUMBERS} --simulation --n-entities 3")
    agree("plan.toml", write=True)
    for name in (*NAMES, OPERATOR):
        call(f"plan agree plan.toml --keys {name}.keys -o {name}.agreement")
    for name in NAMES:
        line = f"release --plan plan.toml --data {name}.csv --ledger {name}.ledger --keys {name}.keys --new-ledger"
        call(f"{line} -o {name}.round1")
    messages = " ".join(f"{name}.round1" for name in NAMES)
    call(f"factorize {messages} --plan plan.toml --keys {OPERATOR}.keys -o items.round2")
    call("personalize items.round2 --plan plan.toml --data anna.csv -o anna.model")
    call("ledger export anna.ledger -o anna.statement")
    call("keys new --entity old --keys old.keys -o old.pub")
    call("keys revoke --keys old.keys -o old.revoked")
    call("keys person --keys me.keys -o me.request")
    write_keys(Path("site"), "officer")
    call(
        f"policy new -o site/policy.toml --writer {OPERATOR}.pub --operator {OPERATOR}.pub --approver site/officer.pub"
    )
    text = Path("site/policy.toml").read_text()
    Path("site/policy.toml").write_text(text.replace("max_epsilon = 1", "max_epsilon = 9"))
    shutil.copy("anna.keys", "site/anna.keys")
    line = "release --plan plan.toml --data anna.csv --ledger site/anna.ledger --new-ledger --keys site/anna.keys"
    call(f"{line} -o site/anna.round1", 3)
    Authority(Path()).issue("server")
    shutil.copy("items.csv", "kinds.csv")
    invite = f"invite --plan plan.toml --server http://127.0.0.1:1 --keys {OPERATOR}.keys --ca ca.crt"
    call(f"{invite} --entity anna -o anna.invitation")
    Path("card.toml").write_text('use = "to try"\n')
    Path("audit.json").write_text(AUDIT)
    call("card show anna.ledger --keys anna.keys --curator A --use B --region C --curator-type Nonprofit -o card.json")


def _spoil() -> None:
    Path("bad").mkdir()
    Path("bad/empty").touch()
    Path("bad/binary").write_bytes(bytes(range(256)) * 16)
    Path("bad/rows").write_text(ROWS)
    Path("bad/text").write_text("ceci n'est pas un fichier\n" * 3)
    Path("bad/json").write_text('{"user": "Jane Doe", "item": "hiv-test"}\n')
    Path("bad/deep").write_text("[" * 100_000)
    Path("bad/latin").write_bytes("item,Jane Doe\nKrankenhaus Süd,positive\n".encode("latin-1"))
    Path("bad/folder").mkdir()
    Path("bad/loop").symlink_to("loop")
    Path("bad/closed").write_text(ROWS)
    Path("bad/closed").chmod(0)
    os.mkfifo("bad/pipe")
    with Path("bad/huge").open("wb") as file:
        file.truncate(1 << 36)
    Path("bad/cut").write_bytes(Path("anna.model").read_bytes()[:-100])
    Path("bad/utf16").write_bytes(ROWS.encode("utf-16"))


#: Names that lead to something else than a file of the wanted kind.
BAD_INPUTS = (
    "bad/none",
    "bad/empty",
    "bad/binary",
    "bad/rows",
    "bad/text",
    "bad/json",
    "bad/deep",
    "bad/latin",
    "bad/folder",
    "bad/loop",
    *(() if os.geteuid() == 0 else ("bad/closed",)),  # nothing is closed to root
    "bad/pipe",
    "bad/huge",
    "bad/cut",
    "bad/utf16",
    "items.csv/none",
    "x" * 300,
)
#: Names under which nothing can be written, or nothing may be.
BAD_OUTPUTS = (
    "bad/none/x",
    "bad/folder",
    "items.csv/x",
    "items.csv",
    "bad/rows",
    "bad/loop",
    "bad/pipe",
    "/proc/twofold-x",
    "/dev/full",
    "x" * 300,
)
