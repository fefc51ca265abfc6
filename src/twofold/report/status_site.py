"""The status page as part of a service: which paths it has, who may read it, and the headers it is sent with.

A coordinator is reachable by strangers, and a federation's members are nobody else's business. So names, states and
plans are shown to readers with a password only. There is one for each federation and one for the whole service, in
files that the service makes::

    STATE/status.password         opens every federation of this service: for its operator
    STATE/PLAN/status.password    opens one federation: for its members

Others learn that a service is here, as they do from any request. Browsers send the password by HTTP's own means
(Basic), so the page needs no form, cookie or script, and there is no session to steal.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from twofold.checks import is_hash
from twofold.report.page import Page
from twofold.report.status import FederationView, door_page, overview_page, status_page, view_of
from twofold.server.service.app import Service, password_in, shown

__all__ = ["PASSWORD_FILE", "send_page", "status_routes"]

#: File with the password of a service or of a federation.
PASSWORD_FILE: Final = "status.password"
_CHALLENGE: Final = {"www-authenticate": 'Basic realm="twofold status", charset="UTF-8"'}
_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": _NOTHING,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "vary": "authorization",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "x-robots-tag": "noindex, nofollow",
}
_Work = Callable[[Request, frozenset[str]], Awaitable[Response]]
_STYLE: Final = re.compile("<style>(.*?)</style>", re.DOTALL)


def status_routes(service: Service) -> list[Route]:
    """Give the routes of the status page, for `build_app(service, more=...)`; makes the passwords that are missing.

    ``/`` is the page of strangers, or of a reader's federations; ``/status`` is the same and asks for the password;
    ``/PLAN`` is the page of one federation.

    Raises
    ------
    TransportError
        A password cannot be stored or read, or somebody wrote a short one.
    """
    pages = _Pages(service)
    return [
        Route("/", pages.answering(pages.front), methods=["GET"]),
        Route("/status", pages.answering(pages.overview), methods=["GET"]),
        Route("/{plan}", pages.answering(pages.one), methods=["GET"]),
    ]


class _Pages:
    """One method per path; each gives a page, or None if the reader must say who they are."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._all = password_in(service.state / PASSWORD_FILE)
        self._each = {key: password_in(service.state / key / PASSWORD_FILE) for key in service.federations}

    def answering(self, work: _Work) -> Callable[[Request], Awaitable[Response]]:
        """Limit by address, find out what the reader may see, and count."""

        async def run(request: Request) -> Response:
            if after := self.service.wait_for(request):
                late = {**_HEADERS, "retry-after": str(max(1, round(after + 0.5)))}
                answer: Response = PlainTextResponse("Too many requests.\n", status_code=429, headers=late)
            else:
                answer = await work(request, self._opened(request))
            self.service.answers[answer.status_code] += 1
            return answer

        return run

    async def front(self, request: Request, opened: frozenset[str]) -> Response:
        """Show strangers that a service is here; show readers what they may see."""
        if opened:
            return await self._shown(request, opened)
        return _refused() if "authorization" in request.headers else send_page(door_page())

    async def overview(self, request: Request, opened: frozenset[str]) -> Response:
        """Ask for the password, and show what it opens."""
        return await self._shown(request, opened) if opened else _refused()

    async def one(self, request: Request, opened: frozenset[str]) -> Response:
        """Show one federation; whether there is another one is not told to those who may not see it."""
        key = request.path_params["plan"]
        if is_hash(key) and not opened:
            return _refused()
        if key not in opened:
            return PlainTextResponse("There is no such page.\n", status_code=404, headers=_HEADERS)
        return await self._shown(request, frozenset({key}))

    async def _shown(self, request: Request, keys: frozenset[str]) -> Response:
        views = await to_thread.run_sync(self._views, keys)
        now, live = datetime.fromtimestamp(self.service.clock(), UTC), "live" in request.query_params
        if len(views) == 1:
            return send_page(status_page(views[0], now=now, started=self.service.started, live=live))
        return send_page(overview_page(views, now=now, live=live))

    def _views(self, keys: frozenset[str]) -> list[FederationView]:
        return [view_of(one) for key, one in self.service.federations.items() if key in keys]

    def _opened(self, request: Request) -> frozenset[str]:
        """Federations that the request's password opens; every one is compared, so that time tells nothing."""
        given = shown(request.headers.get("authorization", ""))
        if given is None:
            return frozenset()
        every = hmac.compare_digest(given, self._all)
        single = [key for key, password in self._each.items() if hmac.compare_digest(given, password)]
        return frozenset(self._each if every else single)


def send_page(page: Page, *, status: int = 200, forms: bool = False) -> Response:
    """Send a page; the policy allows the page's own style sheet and, if asked, its own forms, and nothing else."""
    text = page.html()
    styles = [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in _STYLE.findall(text)]
    nothing = _NOTHING.replace("form-action 'none'", "form-action 'self'") if forms else _NOTHING
    policy = "; ".join([nothing, "style-src " + " ".join(f"'sha256-{one}'" for one in styles)])
    headers = {**_HEADERS, "content-security-policy": policy}
    if forms:
        headers["referrer-policy"] = (
            "same-origin"  # else a browser hides where a form came from, even from its own site
        )
    return HTMLResponse(text, status_code=status, headers=headers)


def _refused() -> Response:
    headers = {**_HEADERS, **_CHALLENGE}
    return PlainTextResponse("The status page needs a password.\n", status_code=401, headers=headers)
