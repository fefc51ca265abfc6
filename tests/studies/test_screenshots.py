"""Pictures of the documentation: all are there and small, and a page becomes four of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from studies.screenshots import LARGEST, PAGES, SCREENS, main, take
from tests.browser.chromium import chromium, found
from tests.refused import refused
from twofold.errors import BadParameter

IMAGES = Path(__file__).parents[2] / "docs" / "images"
NAMES = {f"{page}-{screen}-{look}.png" for page in PAGES for screen in SCREENS for look in ("light", "dark")}


def test_every_page_is_pictured_and_every_picture_is_small() -> None:
    assert {path.name for path in IMAGES.glob("*.png")} >= NAMES
    assert [path.name for path in IMAGES.iterdir() if path.stat().st_size > LARGEST] == []


def test_an_unknown_page_is_refused() -> None:
    with refused(BadParameter, "names"):
        main(["nothing"])


@pytest.mark.skipif(found() is None, reason="needs Chromium (Debian: apt install chromium)")
def test_a_page_is_taken_light_and_dark_on_two_screens(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<style>@media (prefers-color-scheme: dark) { body { background: #000 } }</style><p>twofold")
    with chromium() as browser:
        made = {path.name: Image.open(path).convert("RGB") for path in take(browser, page.as_uri(), "page", tmp_path)}
    assert {name.split("-", 1)[1] for name in made} == {name.removeprefix("card-") for name in NAMES if "card" in name}
    assert made["page-desktop-light.png"].getpixel((600, 600)) == (255, 255, 255)
    assert made["page-desktop-dark.png"].getpixel((600, 600)) == (0, 0, 0)
    assert made["page-desktop-dark.png"].size == SCREENS["desktop"][:2]
