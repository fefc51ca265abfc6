"""Headless Chromium for tests, spoken to over a pipe: no driver, no port, a fresh profile each time."""

from __future__ import annotations

import base64
import fcntl
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-lcd-text",
    "--remote-debugging-pipe",
)
#: Chromium reads from descriptor 3 and writes to 4.
LAUNCH = "import os, sys; [os.dup2(int(sys.argv[n + 1]), n + 3) for n in (0, 1)]; os.execv(sys.argv[3], sys.argv[3:])"
#: Seconds for one answer; the first one includes the start.
PATIENCE = 60.0


def found() -> str | None:
    """Path of Chromium, if it is installed."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name)) is not None), None)


class Tab:
    """One tab, in the words of the browser's debugging protocol."""

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of, self._number, self._rest = to, of, 0, b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """Call a method; give its result."""
        self._number += 1
        record = {"id": self._number, "method": method, "params": given}
        if self._session is not None:
            record["sessionId"] = self._session
        os.write(self._to, json.dumps(record).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            assert time.monotonic() < until, "the browser does not answer"
            try:
                self._rest += os.read(self._of, 1 << 20)
            except BlockingIOError:
                time.sleep(0.005)
        line, _, self._rest = self._rest.partition(b"\0")
        record: dict[str, Any] = json.loads(line)
        return record

    def open(self, url: str, *, width: int = 1000, height: int = 800, dark: bool = False, phone: bool = False) -> None:
        """Load a page on a screen of this size."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1.5 if phone else 1,
            mobile=phone,
        )
        scheme = "dark" if dark else "light"
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        answer = self.ask("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        while not any(one.get("method") == "Page.loadEventFired" for one in self.events):
            self.events.append(self._next())

    def value(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def complaints(self) -> list[str]:
        """What the browser complained about since the page was opened, such as refused styles."""
        return [
            one["params"]["entry"]["text"]
            for one in self.events
            if one.get("method") == "Log.entryAdded" and one["params"]["entry"]["level"] in ("error", "warning")
        ]

    def requests(self) -> list[str]:
        """Addresses that the page asked for."""
        sent = [one for one in self.events if one.get("method") == "Network.requestWillBeSent"]
        return [one["params"]["request"]["url"] for one in sent]

    def picture(self, path: Path, *, most: float = math.inf) -> None:
        """Save the whole page, or the upper part of a long one."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], most), "scale": 1}
        data = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def chromium() -> Iterator[Tab]:
    """Start a browser with an empty profile; end it with everything it started."""
    program = found()
    assert program is not None
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        commands, to = os.pipe()
        of, answers = os.pipe()
        high = [fcntl.fcntl(one, fcntl.F_DUPFD, 10) for one in (commands, answers)]
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, high), program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=high,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for one in (commands, answers, *high):
            os.close(one)
        os.set_blocking(of, False)
        try:
            yield Tab(to, of)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()
            os.close(to)
            os.close(of)
