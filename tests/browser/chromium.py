"""Headless Chromium, driven by Playwright: a fresh profile for every page, and all it complains about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from playwright.sync_api import Browser, Page, sync_playwright

__all__ = ["Tab", "chromium", "found", "opened"]

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-lcd-text",
)


def found() -> str | None:
    """Path of Chromium, if it is installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name)) is not None), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's browser; it ends with everything it started."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found(), args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Tab:
    """A page, what the browser complained about since it was opened, such as refused styles, and what it asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def opened(
    browser: Browser, url: str, *, width: int = 1000, height: int = 800, dark: bool = False, phone: bool = False
) -> Tab:
    """Open a page on a screen of this size, in a profile that remembers nothing; what was open before is closed."""
    for one in browser.contexts:
        one.close()
    page = browser.new_context(
        viewport={"width": width, "height": height},
        device_scale_factor=1.5 if phone else 1,
        is_mobile=phone,
        color_scheme="dark" if dark else "light",
    ).new_page()
    tab = Tab(page)
    page.on("console", lambda said: tab.complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: tab.complaints.append(str(error)))
    page.on("request", lambda request: tab.requests.append(request.url))
    page.goto(url)
    return tab
