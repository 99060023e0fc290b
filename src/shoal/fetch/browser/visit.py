"""One request that is under way in a tab: how far it has come, and what may go with each of its questions."""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from shoal.core.errors import OutOfScope, ShoalError, TooLarge
from shoal.core.exchange import Headers, Hop, Request
from shoal.core.secrets import Secrets, current_secrets
from shoal.core.urls import canonical
from shoal.fetch.browser.wire import Event
from shoal.fetch.hops import HARMLESS, REDIRECTS, callers_headers, for_hop, origin
from shoal.fetch.limits import Limits

T = TypeVar("T")

# What the browser is told once for all its questions, because it says it to everybody anyway.
OF_THE_BROWSER = ("user-agent", "accept-language")
WITHOUT_PAGE = frozenset({204, 205, 304})
SHOWN = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True, slots=True)
class Document:
    """The answer that a page came with."""

    url: str
    status: int
    headers: Headers


@dataclass(slots=True, eq=False)
class Visit:
    """Where a request has got to. It fails once, for one reason."""

    request: Request
    limits: Limits
    failed: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    headers: Mapping[str, str] = field(default_factory=dict)  # of the caller, that may go on
    names: frozenset[str] = frozenset()  # of all the caller's headers
    spoken: dict[str, str] = field(default_factory=dict)  # what the browser itself says to everybody
    at: str = ""  # the URL that was asked last
    hops: list[Hop] = field(default_factory=list)
    led: int = 0  # to further URLs
    is_begun: bool = False  # its first URL was asked
    document: Document | None = None
    raw: bytes | None = None
    secrets: Secrets | None = field(default_factory=current_secrets)  # events are heard in no task of ours

    def __post_init__(self) -> None:
        given = dict(callers_headers(self.request.headers))
        self.spoken = {name: given.pop(name) for name in OF_THE_BROWSER if name in given}
        self.headers, self.names = given, frozenset(given)
        if self.secrets:
            self.secrets.sent(given, self.request.way.url if self.request.way else None)
        self.failed.add_done_callback(lambda done: done.cancelled() or done.exception())

    def fail(self, error: BaseException) -> None:
        """End the visit; who waits for it is told why."""
        if not self.failed.done():
            self.failed.set_exception(error)

    async def unless_failed(self, work: Awaitable[T]) -> T:
        """Return what the work gives; raises why the visit failed, if that comes first."""
        task: asyncio.Future[Any] = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task, self.failed], return_when=asyncio.FIRST_COMPLETED)
            if self.failed.done():
                self.failed.result()
            found: T = task.result()
            return found
        finally:
            task.cancel()

    async def lead(self, url: str) -> None:
        """Go on to another URL, if that is allowed; raises OutOfScope, or what `on_hop` raises."""
        self.led += 1
        if self.led > self.limits.max_redirects:
            raise OutOfScope(f"The page redirects more than {self.limits.max_redirects} times")
        with suppress(ShoalError):  # the gate refuses what is no address
            url = canonical(url)
        if self.request.on_hop:
            await self.request.on_hop(url)
        self.headers = for_hop(self.headers, self.at, url)

    def said_to(self, url: str, own: Mapping[str, str], *, is_page: bool) -> list[dict[str, str]] | None:
        """Return all headers of a question of the main frame; None where they are as they should be."""
        if not self.names:
            return None
        may_go = is_page or origin(url) == origin(self.request.url)
        mine = self.headers if may_go else {}
        # What was added on an earlier hop may still be among the browser's own.
        taken = mine.keys() | (self.names - HARMLESS)
        kept = {name: value for name, value in own.items() if name.lower() not in taken}
        return [{"name": name, "value": value} for name, value in {**kept, **mine}.items()]

    def answered(self, url: str, status: int, fields: Headers) -> None:
        """Take note of an answer to the main frame; raises TooLarge."""
        if self.secrets:
            # Chromium puts several fields of one name into one, a line each.
            self.secrets.received(line for text in fields.all("set-cookie") for line in text.splitlines())
        if status in REDIRECTS and "location" in fields:
            self.hops.append(Hop(url=url, status=status, headers=fields))
            return
        self.document = Document(url.partition("#")[0], status, fields)
        check_encoding(url, fields)
        size = fields.get("content-length", "")
        if size.isdecimal() and int(size[:20]) > self.limits.max_body:
            raise TooLarge(
                f"{origin(url)[2]} announces {int(size[:20]):,} bytes; the limit is {self.limits.max_body:,}"
            )

    @property
    def is_raw(self) -> bool:
        """Whether the answer is no page that a browser shows as it is: its bytes are wanted."""
        if self.document is None or self.document.status in WITHOUT_PAGE:
            return False
        fields = self.document.headers
        kind = fields.get("content-type", "").partition(";")[0].strip().lower()
        is_download = fields.get("content-disposition", "").strip().lower().startswith("attachment")
        return is_download or (bool(kind) and kind not in SHOWN)


def check_encoding(url: str, fields: Headers) -> None:
    """Raise TooLarge for a body that is packed more than once, as no honest host does it."""
    names = ",".join(fields.all("content-encoding")).lower().split(",")
    if sum(name.strip() not in ("", "identity") for name in names) > 1:
        raise TooLarge(f"{origin(url)[2]} sends a body that is packed more than once")


def fields_of(event: Event) -> Headers:
    """Return the header fields of an answer that is held up."""
    listed: list[dict[str, Any]] = event.get("responseHeaders") or []
    return Headers((str(one["name"]), str(one["value"])) for one in listed)
