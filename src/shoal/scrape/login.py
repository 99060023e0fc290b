"""The argument of a login function: a session that fetches pages and sends forms, one request at a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from shoal.core.errors import InvalidInput
from shoal.core.http import Request, Response
from shoal.core.model import MINUTE, NOTHING, ZERO, Task
from shoal.core.request_options import RequestOptions
from shoal.core.urls import canonical, host_of
from shoal.scrape.page import Page

Send = Callable[[Request], Awaitable[Response]]
SetHeader = Callable[[str, str, str], None]  # origin, name and value of a header


class LoginSession:
    """A session that is about to log in: it keeps the cookies it receives and the headers you set.

    `number` is the session's index within its worker, from 0; `host` is the host it is for.
    """

    def __init__(
        self,
        send: Send,
        set_header: SetHeader,
        *,
        number: int,
        origin: str,
        gap: timedelta = ZERO,
        timeout: timedelta = MINUTE,
    ) -> None:
        self._send, self._set_header = send, set_header
        self._gap, self._timeout = gap.total_seconds(), timeout
        self.number, self._origin = number, origin
        self._lock, self._next = asyncio.Lock(), 0.0

    async def get(self, url: str, *, headers: Mapping[str, str] = NOTHING) -> Page:
        """Fetch a page; raises FetchError, also for an error status."""
        return await self._fetch(Request(url=url, headers=headers, timeout=self._timeout))

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, Any] | None = None,
        json: Any = None,
        headers: Mapping[str, str] = NOTHING,
    ) -> Page:
        """Send a form or JSON and return the resulting page. The request is never sent again."""
        options = RequestOptions.read(form=form, json=json, headers=headers)
        if options is None or options.post is None:
            raise InvalidInput("A login sends a form or JSON: session.post(url, form={'user': …})")
        return await self._fetch(
            Request(url=url, headers=options.headers, timeout=self._timeout, post=options.post)
        )

    @property
    def host(self) -> str:
        """The host that this session is for."""
        return host_of(self._origin)

    def header(self, name: str, value: str, *, host: str | None = None) -> None:
        """Send a header with all further requests to the session's host, or to `host` over https."""
        origin = host if host is None or "://" in host else f"https://{host}"
        self._set_header(canonical(origin).rstrip("/") if origin else self._origin, name, value)

    async def _fetch(self, request: Request) -> Page:
        async with self._lock:
            await asyncio.sleep(max(0.0, self._next - time.monotonic()))
            self._next = time.monotonic() + self._gap
            response = await self._send(replace(request, url=canonical(request.url)))
        return Page(response, Task(url=response.url, step="login"))


Login = Callable[[LoginSession], Awaitable[Any]]  # the user's function; False or an exception: it failed
