"""Security middleware: every request passes through it, whatever its route."""

import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shoal.core.text import shorten
from shoal.web.auth import BEARER, Credentials, Principal, Throttle
from shoal.web.context import WebSettings
from shoal.web.errors import ApiError, error_response, expects_json, path_of

log = logging.getLogger(__name__)

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
PUBLIC_PATHS = HEALTH_PATHS | {"/login", "/static/shoal.css"}
SAFE_METHODS = ("GET", "HEAD")
MAX_BODY, MAX_TASKS_BODY = 1 << 20, 32 << 20
BODY_TIMEOUT_SECONDS = 30.0  # to wait for the next part of a body
MAX_REQUESTS = 500  # in progress at a time; an open live page holds one

POLICY = "Content-Security-Policy"
HEADERS = {
    POLICY: "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NO_STORE, CACHED = "no-store", "public, max-age=86400, immutable"


class SecurityMiddleware:
    """Authenticates and checks every request, and sets the security headers of every response."""

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
                await self._handle(scope, receive, send)
            finally:
                self._in_progress -= 1
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        outgoing = _ResponseHeaders(path_of(scope), send)
        try:
            if response := self._authorize(scope):
                await response(scope, receive, outgoing.send)
            else:
                await self._app(scope, _LimitedBody(scope, receive).receive, outgoing.send)
        except ApiError as error:
            response = error_response(scope, error.status_code, error.kind, error.detail, error.headers)
            await response(scope, receive, outgoing.send)
        except Exception as error:
            if outgoing.has_started:
                raise  # closes the connection, so the client sees that the response is incomplete
            # Without the error text, which may contain anything.
            target = f"{scope['method']} {shorten(path_of(scope))}"
            log.error("request failed: %r: %s", target, type(error).__name__)
            message = "Internal server error. The server's log names the kind of error."
            await error_response(scope, 500, "Failed", message)(scope, receive, outgoing.send)

    def _authorize(self, scope: Scope) -> Response | None:
        """Return None if the request may proceed, else the redirect to the login; raises ApiError."""
        headers, path = Headers(scope=scope), path_of(scope)
        cookies = Request(scope).cookies
        if path not in HEALTH_PATHS:  # they reveal nothing, and probes use any address
            self._check_host(headers)
            self._check_load()
        if scope["method"] not in SAFE_METHODS:
            self._check_origin(headers, has_cookie=self._credentials.cookie in cookies)
        _check_length(scope, headers)
        role = self._credentials.role_of(headers, cookies)
        if role:
            name = scope["client"][0] if scope.get("client") else "unknown"
            scope.setdefault("state", {})["principal"] = Principal(role, name)
            return None
        return None if path in PUBLIC_PATHS else self._reject(scope, path, headers)

    def _check_host(self, headers: Headers) -> None:
        # DNS rebinding: a foreign page whose name resolves to this machine must not pass as ours.
        if len(headers.getlist("host")) != 1 or headers["host"].lower() not in self._authorities:
            raise ApiError(
                421,
                "WrongHost",
                "This Host is not allowed. Start the server with --allow-host NAME, or NAME:PORT.",
            )

    def _check_load(self) -> None:
        if self._in_progress > MAX_REQUESTS:
            message = f"{MAX_REQUESTS} requests are in progress. Close some pages, or try again later."
            raise ApiError(503, "Overloaded", message, {"Retry-After": "5"})

    def _check_origin(self, headers: Headers, *, has_cookie: bool) -> None:
        origin = headers.get("origin")
        own = f"{self._settings.scheme}://{headers.get('host', '')}".lower()
        is_foreign = origin.lower() != own if origin is not None else has_cookie
        if is_foreign or headers.get("sec-fetch-site") == "cross-site":
            raise ApiError(
                403, "WrongOrigin", "The request came from another site's page. Use the pages of this server."
            )

    def _reject(self, scope: Scope, path: str, headers: Headers) -> Response:
        address = scope["client"][0] if scope.get("client") else "unknown"
        if headers.get("authorization", "").lower().startswith(BEARER):
            if wait := self._throttle.wait_seconds(address):
                raise too_many_failures(wait)
            self._throttle.record_failure(address)
        if expects_json(path):
            raise ApiError(
                401,
                "Unauthorized",
                "Authentication required. Send the header: Authorization: Bearer TOKEN",
                {"WWW-Authenticate": "Bearer"},
            )
        return RedirectResponse(f"{scope.get('root_path', '')}/login{_next_param(scope, path)}", 303)


class _ResponseHeaders:
    """Adds the security headers to a response."""

    def __init__(self, path: str, send: Send) -> None:
        self._path, self._send = path, send
        self.has_started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            headers = MutableHeaders(scope=message)
            is_cached = self._path.startswith("/static/") and message["status"] in (200, 304)
            stricter = headers.get(POLICY)  # of a route that shows what a host sent
            headers.update({**HEADERS, "Cache-Control": CACHED if is_cached else NO_STORE})
            if stricter:
                headers[POLICY] = stricter
        await self._send(message)


class _LimitedBody:
    """Reads a request body, with a size limit and a timeout."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._left, self._receive = limit_of(scope), receive
        self._is_complete = False

    async def receive(self) -> Message:
        try:
            # After the body only the disconnect follows, and that may take hours.
            async with asyncio.timeout(None if self._is_complete else BODY_TIMEOUT_SECONDS):
                message = await self._receive()
        except TimeoutError as error:
            raise ApiError(
                408, "TooSlow", f"No data received for {BODY_TIMEOUT_SECONDS:g} s. Send the request again."
            ) from error
        self._is_complete = not message.get("more_body", False)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _too_large()
        return message


def limit_of(scope: Scope) -> int:
    """Return the maximum size of a request body in bytes."""
    path = path_of(scope)
    has_tasks = path == "/api/runs" or (path.startswith("/api/runs/") and path.endswith("/enqueue"))
    return MAX_TASKS_BODY if has_tasks else MAX_BODY


def too_many_failures(wait: int) -> ApiError:
    """Return the error for too many failed logins."""
    return ApiError(
        429,
        "TooManyFailures",
        f"Too many failed logins. Try again in {wait} s.",
        {"Retry-After": str(wait)},
    )


def _check_length(scope: Scope, headers: Mapping[str, str]) -> None:
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared[:20]) > limit_of(scope):
        raise _too_large()


def _too_large() -> ApiError:
    limits = f"{MAX_BODY >> 20} MB, or {MAX_TASKS_BODY >> 20} MB for URLs and tasks"
    return ApiError(413, "TooLarge", f"The limit is {limits}. Split the request.")


def _next_param(scope: Scope, path: str) -> str:
    """Return the query string that makes the login return to the requested page."""
    if scope["method"] not in SAFE_METHODS or path == "/":
        return ""
    query = scope.get("query_string", b"").decode("latin-1")
    return f"?next={quote(f'{path}?{query}' if query else path, safe='')}"
