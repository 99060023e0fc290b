"""One request in progress in a tab: its state, and which headers each of its requests may carry."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shoal.core.errors import OutOfScope, ShoalError, TooLarge
from shoal.core.http import Headers, Hop, Request, Response
from shoal.core.secrets import Secrets, current_secrets
from shoal.core.urls import canonical
from shoal.fetch.browser.cdp import Event
from shoal.fetch.contract import Limits
from shoal.fetch.http.client import REDIRECTS, SHAREABLE, check_headers, headers_for_hop, origin

T = TypeVar("T")

# Set once for all requests of the browser, which sends them to every host anyway.
BROWSER_HEADERS = ("user-agent", "accept-language")
WITHOUT_PAGE = frozenset({204, 205, 304})
DISPLAYED = ("text/html", "application/xhtml+xml")


@dataclass(slots=True, eq=False)
class Navigation:
    """The progress of a request. It fails once, for one reason."""

    request: Request
    limits: Limits
    failed: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    headers: Mapping[str, str] = field(default_factory=dict)  # of the caller, still allowed after redirects
    names: frozenset[str] = frozenset()  # of all the caller's headers
    browser_headers: dict[str, str] = field(
        default_factory=dict
    )  # headers that the browser sends to every host
    at: str = ""  # the URL that was requested last
    hops: list[Hop] = field(default_factory=list)
    redirects: int = 0  # number of redirects and navigations
    is_started: bool = False  # its first URL was requested
    document: Response | None = None  # that of the main document, without its body
    raw: bytes | None = None
    secrets: Secrets | None = field(default_factory=current_secrets)  # events arrive outside of any task

    def __post_init__(self) -> None:
        given = dict(check_headers(self.request.headers))
        self.browser_headers = {name: given.pop(name) for name in BROWSER_HEADERS if name in given}
        self.headers, self.names = given, frozenset(given)
        if self.secrets:
            self.secrets.sent(given, self.request.proxy.url if self.request.proxy else None)
        self.failed.add_done_callback(lambda done: done.cancelled() or done.exception())

    def fail(self, error: BaseException) -> None:
        """Fail the navigation; those that wait for it get the error."""
        if not self.failed.done():
            self.failed.set_exception(error)

    async def unless_failed(self, work: Awaitable[T]) -> T:
        """Return the result of the work; raises why the navigation failed, if that comes first."""
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, self.failed], return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                self.failed.result()
            found: T = task.result()
            return found
        finally:
            task.cancel()

    async def follow(self, url: str) -> None:
        """Navigate to another URL, if that is allowed; raises OutOfScope, or what `on_hop` raises."""
        self.redirects += 1
        if self.redirects > self.limits.max_redirects:
            raise OutOfScope(f"The page redirects more than {self.limits.max_redirects} times")
        with suppress(ShoalError):  # the browser proxy rejects invalid URLs
            url = canonical(url)
        if self.request.on_hop:
            await self.request.on_hop(url)
        self.headers = headers_for_hop(self.headers, self.at, url)

    def headers_for(self, url: str, own: Mapping[str, str], *, is_page: bool) -> list[dict[str, str]] | None:
        """Return all headers for a request of the main frame; None to leave them unchanged."""
        if not self.names:
            return None
        may_go = is_page or origin(url) == origin(self.request.url)
        mine = self.headers if may_go else {}
        # Headers added on an earlier hop may still be among the browser's own.
        taken = mine.keys() | (self.names - SHAREABLE)
        own_headers = {name: value for name, value in own.items() if name.lower() not in taken}
        return [{"name": name, "value": value} for name, value in {**own_headers, **mine}.items()]

    def record_response(self, url: str, status: int, fields: Headers) -> None:
        """Record a response to the main frame; raises TooLarge."""
        if self.secrets:
            # Chromium joins several fields of one name into one, a line each.
            self.secrets.received(line for text in fields.all("set-cookie") for line in text.splitlines())
        if status in REDIRECTS and "location" in fields:
            self.hops.append(Hop(url=url, status=status, headers=fields))
            return
        self.document = Response(url=url.partition("#")[0], status=status, headers=fields)
        check_encoding(url, fields)
        size = fields.get("content-length", "")
        if size.isdecimal() and int(size[:20]) > self.limits.max_body:
            raise TooLarge(
                f"{origin(url)[2]} announces {int(size[:20]):,} bytes; the limit is {self.limits.max_body:,}"
            )

    @property
    def is_raw(self) -> bool:
        """Whether the response is not a page that a browser displays: its raw bytes are returned."""
        if self.document is None or self.document.status in WITHOUT_PAGE:
            return False
        fields = self.document.headers
        kind = fields.get("content-type", "").partition(";")[0].strip().lower()
        is_download = fields.get("content-disposition", "").strip().lower().startswith("attachment")
        return is_download or (bool(kind) and kind not in DISPLAYED)


def check_encoding(url: str, fields: Headers) -> None:
    """Raise TooLarge for a body that is compressed more than once, which no honest host sends."""
    names = ",".join(fields.all("content-encoding")).lower().split(",")
    if sum(name.strip() not in ("", "identity") for name in names) > 1:
        raise TooLarge(f"{origin(url)[2]} sends a body that is compressed more than once")


def fields_of(event: Event) -> Headers:
    """Return the header fields of a paused response."""
    listed: list[dict[str, Any]] = event.get("responseHeaders") or []
    return Headers((str(one["name"]), str(one["value"])) for one in listed)
