"""The door of the server: every request passes it, whatever routes there are behind it."""

import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.errors import shorten
from shoal.web.answers import Refused, is_for_programs, path_of, trouble
from shoal.web.guard import BEARER, Credentials, Guest
from shoal.web.site import WebSettings
from shoal.web.throttle import Throttle

log = logging.getLogger(__name__)

HEALTH = frozenset({"/healthz", "/readyz"})
OPEN = HEALTH | {"/login", "/static/shoal.css"}
SAFE = ("GET", "HEAD")
MOST_BYTES, MOST_BYTES_OF_TASKS = 1 << 20, 32 << 20
PATIENCE = 30.0  # seconds for the next part of a body
MAX_REQUESTS = 500  # in progress at a time; a page that is open keeps one

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FRESH, KEPT = "no-store", "public, max-age=86400, immutable"


class Door:
    """Lets in who may come in, and gives every answer its headers."""

    def __init__(
        self, app: ASGIApp, settings: WebSettings, credentials: Credentials, throttle: Throttle
    ) -> None:
        self._app, self._settings = app, settings
        self._credentials, self._throttle = credentials, throttle
        self._authorities = settings.authorities
        self._in_progress = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            self._in_progress += 1
            try:
                await self._attend(scope, receive, send)
            finally:
                self._in_progress -= 1
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _attend(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(path_of(scope), send)
        try:
            if away := self._let_in(scope):
                await away(scope, receive, answer.send)
            else:
                await self._app(scope, _Limited(scope, receive).receive, answer.send)
        except Refused as error:
            said = trouble(scope, error.status_code, error.kind, error.detail, error.headers)
            await said(scope, receive, answer.send)
        except Exception as error:
            if answer.has_begun:
                raise  # the connection breaks off, and the client knows that it has not all
            # Without its text, which may hold anything.
            place = f"{scope['method']} {shorten(path_of(scope))}"
            log.error("failed: %r: %s", place, type(error).__name__)
            words = "This could not be done. The server's log says which kind of error it was."
            await trouble(scope, 500, "Failed", words)(scope, receive, answer.send)

    def _let_in(self, scope: Scope) -> Response | None:
        """Return where to send a stranger, None for whoever may come in; raises Refused."""
        headers, path = Headers(scope=scope), path_of(scope)
        cookies = Request(scope).cookies
        if path not in HEALTH:  # they say one word, and probes ask by whatever address they have
            self._check_host(headers)
            self._check_load()
        if scope["method"] not in SAFE:
            self._check_origin(headers, has_cookie=self._credentials.cookie in cookies)
        _check_length(scope, headers)
        role = self._credentials.role_of(headers, cookies)
        if role:
            name = scope["client"][0] if scope.get("client") else "unknown"
            scope.setdefault("state", {})["guest"] = Guest(role, name)
            return None
        return None if path in OPEN else self._turn_away(scope, path, headers)

    def _check_host(self, headers: Headers) -> None:
        # Else a page of a stranger whose name leads to this machine could ask as if it were ours.
        if len(headers.getlist("host")) != 1 or headers["host"].lower() not in self._authorities:
            raise Refused(
                421,
                "WrongHost",
                "This server is not known by that name. Start it with --allow-host NAME, or NAME:PORT.",
            )

    def _check_load(self) -> None:
        if self._in_progress > MAX_REQUESTS:
            words = f"{MAX_REQUESTS} requests are in progress. Close some pages, or try again."
            raise Refused(503, "Overloaded", words, {"Retry-After": "5"})

    def _check_origin(self, headers: Headers, *, has_cookie: bool) -> None:
        origin = headers.get("origin")
        own = f"{self._settings.scheme}://{headers.get('host', '')}".lower()
        is_foreign = origin.lower() != own if origin is not None else has_cookie
        if is_foreign or headers.get("sec-fetch-site") == "cross-site":
            raise Refused(
                403, "WrongOrigin", "This was sent by another site's page. Use the pages of this server."
            )

    def _turn_away(self, scope: Scope, path: str, headers: Headers) -> Response:
        address = scope["client"][0] if scope.get("client") else "unknown"
        if headers.get("authorization", "").lower().startswith(BEARER):
            if wait := self._throttle.wait(address):
                raise too_many(wait)
            self._throttle.failed(address)
        if is_for_programs(path):
            raise Refused(
                401,
                "Unauthorized",
                "A token is needed. Send the header: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )
        return RedirectResponse(f"{scope.get('root_path', '')}/login{_back(scope, path)}", 303)


class _Answer:
    """Adds the headers to an answer on its way."""

    def __init__(self, path: str, send: Send) -> None:
        self._path, self._send = path, send
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            is_kept = self._path.startswith("/static/") and message["status"] in (200, 304)
            headers.update({**HEADERS, "Cache-Control": KEPT if is_kept else FRESH})
        await self._send(message)


class _Limited:
    """Reads a body up to its limit, from whoever does not let it wait."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._left, self._receive = limit_of(scope), receive
        self._is_whole = False

    async def receive(self) -> Message:
        try:
            # Behind the body comes only that the client has gone, and that may take hours.
            async with asyncio.timeout(None if self._is_whole else PATIENCE):
                message = await self._receive()
        except TimeoutError as error:
            raise Refused(408, "TooSlow", f"Nothing came for {PATIENCE:g} s. Send it again.") from error
        self._is_whole = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _too_large()
        return message


def limit_of(scope: Scope) -> int:
    """Return how many bytes the body of a request may have."""
    path = path_of(scope)
    brings_tasks = path == "/api/runs" or (path.startswith("/api/runs/") and path.endswith("/enqueue"))
    return MOST_BYTES_OF_TASKS if brings_tasks else MOST_BYTES


def too_many(wait: int) -> Refused:
    """Return the refusal of somebody who has tried too many wrong tokens."""
    return Refused(
        429,
        "TooManyFailures",
        f"Too many wrong tokens were tried. Try again in {wait} s.",
        {"Retry-After": str(wait)},
    )


def _check_length(scope: Scope, headers: Mapping[str, str]) -> None:
    said = headers.get("content-length", "0")
    if not said.isdecimal() or int(said[:20]) > limit_of(scope):
        raise _too_large()


def _too_large() -> Refused:
    most = f"{MOST_BYTES >> 20} MB, or {MOST_BYTES_OF_TASKS >> 20} MB of URLs and tasks"
    return Refused(413, "TooLarge", f"A request may bring {most}. Send it in parts.")


def _back(scope: Scope, path: str) -> str:
    """Return what lets a login lead to the page that was asked for."""
    if scope["method"] not in SAFE or path == "/":
        return ""
    query = scope.get("query_string", b"").decode("latin-1")
    return f"?next={quote(f'{path}?{query}' if query else path, safe='')}"
