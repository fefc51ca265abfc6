"""Pictures of our own pages for the documentation: every page on a desktop and a phone, light and dark.

`python -m studies screenshots [NAME ...] [-o docs/images]`; `make screenshots` builds the documentation first. It needs
Chromium. A picture is the first screen of a page with at most 64 colours, so that it stays small.

To add a page, write a function that makes it in a folder and yields its address, and name it in `PAGES`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from PIL import Image
from playwright.sync_api import Browser

from tests.browser.chromium import chromium, found, opened
from twofold.errors import BadParameter, TransportError

__all__ = ["LARGEST", "PAGES", "SCREENS", "main", "take"]

ROOT: Final = Path(__file__).parents[1]
#: Width and height of a screen, and whether it is that of a phone.
SCREENS: Final = {"desktop": (1280, 800, False), "phone": (390, 844, True)}
COLOURS: Final = 64
#: Bytes of a picture: more would make the repository heavy.
LARGEST: Final = 150_000

_Page = Callable[[Path], AbstractContextManager[str]]


def _run(command: str, folder: Path) -> None:
    """Run commands of the shell in a folder, with this environment's programs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
    )


@contextmanager
def _built(page: str) -> Iterator[str]:
    made = ROOT / "site" / page
    if not made.exists():
        raise TransportError("the documentation is not built.", fix="make docs", parameter="site")
    yield made.as_uri()


def _front(_: Path) -> AbstractContextManager[str]:
    return _built("index.html")


def _tutorial(_: Path) -> AbstractContextManager[str]:
    return _built("tutorial/first_federation.html")


def _type_tutorial(folder: Path) -> None:
    """Type the tutorial; its last step makes a card."""
    text = (ROOT / "docs" / "tutorial" / "first_federation.md").read_text(encoding="utf-8")
    section = text.split("## Type it\n", 1)[1].split("\n## ", 1)[0]
    _run("".join(re.findall(r"```bash\n(.*?)```", section, re.DOTALL)), folder)


@contextmanager
def _card(folder: Path) -> Iterator[str]:
    _type_tutorial(folder)
    yield (folder / "st-clara.card.html").as_uri()


@contextmanager
def _entity_report(folder: Path) -> Iterator[str]:
    _type_tutorial(folder)
    _run("twofold report st-clara.model --plan plan.toml --factors drop/*.round2 -o report.html", folder)
    yield (folder / "report.html").as_uri()


@contextmanager
def _console(folder: Path) -> Iterator[str]:
    """Serve the model of the tutorial's small hospital."""
    from twofold.serve.api import LIMITS, Api, build_app
    from twofold.serve.console import console_routes
    from twofold.serve.current import Current
    from twofold.server.service.run import Running, server_for

    _type_tutorial(folder)
    api = Api(Current(folder / "st-clara.model", catalog=folder / "items.csv"))
    shown = {"ledger": folder / "st-clara.ledger", "log": None, "card": folder / "st-clara.card.html"}
    app = build_app(api, more=console_routes(api, **shown))
    with Running(server_for(app, LIMITS, host="127.0.0.1", port=0)) as running:
        yield f"{running.url}/similar?item=heart-1"


@contextmanager
def _report(folder: Path) -> Iterator[str]:
    _run("twofold demo --output demo.html", folder)
    yield (folder / "demo.html").as_uri()


@contextmanager
def _status(folder: Path) -> Iterator[str]:
    """Serve the status page of the tests: five hospitals, two of which have not sent."""
    from tests.browser.test_status import Site, address
    from twofold.server.service.app import build_app
    from twofold.server.service.run import Running, server_of

    site = Site(folder)
    app = build_app(site.service, more=site.routes)
    with Running(server_of(site.service, host="127.0.0.1", port=0, app=app)) as running:
        site.url = running.url
        site.send(running.url)
        yield address(site, site.made["waiting"].plan.hash, site.password())


#: Name of a picture to what makes its page.
PAGES: Final[Mapping[str, _Page]] = {
    "docs-front": _front,
    "docs-tutorial": _tutorial,
    "card": _card,
    "report": _report,
    "entity-report": _entity_report,
    "console": _console,
    "status": _status,
}


def take(browser: Browser, address: str, name: str, folder: Path) -> Iterator[Path]:
    """Take the pictures of one page; give their files."""
    for screen, (width, height, phone) in SCREENS.items():
        for look in ("light", "dark"):
            page = opened(browser, address, width=width, height=height, dark=look == "dark", phone=phone).page
            time.sleep(0.5)  # scripts of the theme arrange the page after it has loaded
            path = folder / f"{name}-{screen}-{look}.png"
            _smaller(page.screenshot()).save(path, optimize=True)
            yield path


def _smaller(data: bytes) -> Image.Image:
    """Keep few colours: pages have few, and letters stay sharp."""
    return Image.open(io.BytesIO(data)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Take pictures, and print their sizes.

    Examples
    --------
    >>> main(["--list"])
    docs-front docs-tutorial card report entity-report console status
    0
    """
    parser = argparse.ArgumentParser(prog="python -m studies screenshots", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"pages; all by default: {', '.join(PAGES)}")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images", help="folder for the pictures")
    parser.add_argument("--list", action="store_true", help="print the names of the pages and stop")
    asked = parser.parse_args(arguments)
    if asked.list:
        print(*PAGES)
        return 0
    unknown = [name for name in asked.names if name not in PAGES]
    if unknown:
        raise BadParameter("no such page.", expected=", ".join(PAGES), parameter="names")
    if found() is None:
        raise TransportError("Chromium is not installed.", fix="apt install chromium", parameter="chromium")
    for name in asked.names or PAGES:
        with tempfile.TemporaryDirectory() as folder, PAGES[name](Path(folder)) as address, chromium() as browser:
            for path in take(browser, address, name, asked.output):
                print(f"{path.name:32} {path.stat().st_size / 1000:6.0f} kB")
    return 0
