"""How-to pages that go on in the folder of the tutorial: their commands and Python run as written, in this order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

DOCS = Path(__file__).parents[2] / "docs"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def blocks(page: str, language: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return "".join(re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def shell(commands: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        timeout=600,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def python(page: str, folder: Path, more: str = "") -> str:
    code = f"import warnings; warnings.simplefilter('ignore')\n{blocks(page, 'python')}\n{more}"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def spent(folder: Path) -> str:
    found = json.loads(shell("twofold ledger show st-clara.ledger --json", folder))
    return str(found["spent"]["epsilon"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which somebody has typed the tutorial."""
    home = tmp_path_factory.mktemp("tutorial")
    text = (DOCS / "tutorial" / "first_federation.md").read_text(encoding="utf-8")
    section = text.split("## Type it\n", 1)[1].split("\n## ", 1)[0]
    shell("".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL)), home)
    return home


def test_choosing_epsilon_reads_no_data(folder: Path) -> None:
    told = shell(blocks("how-to/choose_epsilon.md", "bash"), folder)
    assert "Prediction:" in told
    assert spent(folder) == "1"


def test_new_users_cost_nothing(folder: Path) -> None:
    told = shell(blocks("how-to/new_users.md", "bash"), folder)
    assert "lung-" in told
    more = "print(len(model.recommend({'lung-3': 4}, n=3)), len(model.recommend({}, n=3)))"
    assert python("how-to/new_users.md", folder, more).split() == ["3", "3"]
    assert (folder / "st-clara-tonight.model").exists()
    assert spent(folder) == "1"


def test_new_items_are_left_out_or_stay_at_home(folder: Path) -> None:
    shell(blocks("how-to/new_items.md", "bash"), folder)
    assert python("how-to/new_items.md", folder, "print(len(longer.items) - len(catalog.items))").strip() == "1"
    assert spent(folder) == "1"


def test_by_sftp_a_report_stands_in_the_outbox(folder: Path) -> None:
    told = shell(blocks("how-to/sftp.md", "bash"), folder)
    assert re.search(r"st-anna\.\w+\.report", told)


def test_a_card_and_a_ledger_are_verified(folder: Path) -> None:
    told = shell(blocks("how-to/verify.md", "bash"), folder)
    assert "the signer's key is the one you named" in told
    assert "the ledger holds this release, and nothing since" in told
    assert python("how-to/verify.md", folder).strip()
    page = folder / "st-clara.card.html"
    sound = page.read_text(encoding="utf-8")
    page.write_text(sound.replace("73.2%", "53.2%"), encoding="utf-8")
    shell("twofold card verify st-clara.card.html --key st-clara.pub || test $? = 2", folder)
    page.write_text(sound, encoding="utf-8")


def test_a_second_release_needs_room_and_adds_up(folder: Path) -> None:
    """Last: it spends."""
    shell(blocks("how-to/release_again.md", "bash"), folder)
    assert spent(folder) == "2"
    assert "ε = 2" in shell("twofold card show st-clara.ledger", folder)
