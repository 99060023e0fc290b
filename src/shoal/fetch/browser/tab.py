"""One tab of the browser: it navigates, and every further page is checked first."""

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import (
    BrokenAnswer,
    ConnectFailed,
    DnsFailed,
    FetchError,
    FetchTimeout,
    InvalidSetting,
    OutOfScope,
    PageCrashed,
    ShoalError,
    TlsFailed,
    TooLarge,
)
from shoal.core.http import Response
from shoal.core.tasks import wait_for_event
from shoal.core.text import shorten
from shoal.core.urls import host_of
from shoal.fetch.browser import scripts
from shoal.fetch.browser.cdp import CdpConnection, CdpError, Event
from shoal.fetch.browser.intercept import RequestInterceptor
from shoal.fetch.browser.navigation import WITHOUT_PAGE, Navigation
from shoal.fetch.browser.proxy.credentials import ProxyCredential

_KINDS: tuple[tuple[str, type[FetchError]], ...] = (
    ("ERR_NAME_", DnsFailed),
    ("ERR_CERT_", TlsFailed),
    ("ERR_SSL_", TlsFailed),
    ("ERR_BAD_SSL", TlsFailed),
    ("ERR_TOO_MANY_REDIRECTS", OutOfScope),
    ("ERR_UNSAFE_", OutOfScope),
    ("ERR_BLOCKED_BY_", OutOfScope),
    ("ERR_DISALLOWED_URL_SCHEME", OutOfScope),
    ("ERR_UNKNOWN_URL_SCHEME", OutOfScope),
    ("ERR_TIMED_OUT", FetchTimeout),
    ("ERR_CONNECTION_TIMED_OUT", FetchTimeout),
    ("ERR_CONNECTION_REFUSED", ConnectFailed),
    ("ERR_CONNECTION_FAILED", ConnectFailed),
    ("ERR_ADDRESS_", ConnectFailed),
    ("ERR_TUNNEL_", ConnectFailed),
    ("ERR_PROXY_", ConnectFailed),
)

STAGES = {"dom": "DOMContentLoaded", "load": "load", "idle": "networkIdle"}
IDLE_TIMEOUT_SECONDS = 10.0  # that the network may take to become idle after the page has loaded
CRASH_REPORT_TIMEOUT = timedelta(seconds=0.5)
TRAFFIC = 8  # a page and all it loads may have this many times the body limit, compressed and not
MAX_EVENTS = 50_000  # of one page; one with more never ends
# Reports the decompressed size of bodies; the browser buffers none of them for us.
BODIES = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
# Workers, and frames in their own process: what they load counts too.
PARTS = {
    "autoAttach": True,
    "waitForDebuggerOnStart": False,
    "flatten": True,
    "filter": [{"type": "iframe"}, {"type": "worker"}],
}
# The viewport of pages, with or without a window.
VIEW = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}


def translate_error(text: str, url: str) -> FetchError:
    """Translate a Chromium error, such as net::ERR_CERT_DATE_INVALID."""
    name = text.removeprefix("net::")
    kind = next((kind for start, kind in _KINDS if name.startswith(start)), BrokenAnswer)
    return kind(f"{shorten(url)}: the browser reports {name}")


class Tab:
    """A page of a context, with one navigation at a time."""

    def __init__(
        self,
        cdp: CdpConnection,
        session: str,
        frame: str,
        credential: ProxyCredential,
        settings: BrowserSettings,
    ) -> None:
        self._cdp, self.session, self.frame = cdp, session, frame
        self._credential, self._settings = credential, settings
        self._navigation: Navigation | None = None
        self._loader = ""
        self._stages: set[str] = set()
        self._changed = asyncio.Event()
        self._event_count = 0  # events of this navigation,
        self._event_bytes = 0  # and their size in bytes
        self._body_bytes = 0  # bytes of all bodies of this navigation
        self._document_bytes = 0  # bytes of the document's body
        self._document = ""  # the network's id of the document
        self._began = 0.0
        self._parts: set[str] = set()  # sessions of its workers and of frames in their own process
        self._requests = RequestInterceptor(self.call, frame, credential, settings, self._begin_document)
        self.is_broken = False
        cdp.listen(session, self._on_event)

    async def prepare(self, user_agent: str) -> None:
        """Prepare it for its first navigation."""
        await asyncio.gather(
            self.call("Page.enable"),
            self.call("Page.setLifecycleEventsEnabled", enabled=True),
            self.call("Network.enable", **BODIES),
            self.call("Target.setAutoAttach", **PARTS),
            self.call("Network.setBypassServiceWorker", bypass=True),
            self.call("Emulation.setUserAgentOverride", userAgent=user_agent),
            self.call("Emulation.setDeviceMetricsOverride", **VIEW),
        )

    def call(self, method: str, /, **params: Any) -> asyncio.Future[Event]:
        """Send a CDP call to this tab."""
        return self._cdp.call(method, self.session, **params)

    async def navigate(self, navigation: Navigation, user_agent: str) -> Response:
        """Load a page and wait for it as the settings say; raises FetchError, or what `on_hop` raises."""
        self._navigation = navigation
        self._requests.begin()
        self._event_count = self._event_bytes = self._body_bytes = self._document_bytes = 0
        self._document = ""
        self._began = time.monotonic()
        self._credential.begin(TRAFFIC * navigation.limits.max_body, navigation.fail)
        navigation.at = url = navigation.request.url
        try:
            await navigation.unless_failed(self._requests.enable(navigation, user_agent))
            reply = await navigation.unless_failed(self.call("Page.navigate", url=url))
            failure = reply.get("errorText")
            if navigation.raw is None and failure and not self._is_empty(navigation):
                await self._raise_if_crashed(navigation, failure)
                raise self._refusal(navigation) or translate_error(failure, navigation.at)
            if navigation.raw is None and not failure:
                await navigation.unless_failed(self._wait_until_loaded(navigation))
        except CdpError as error:
            raise self.error_for(error) from error
        if navigation.document is None:
            raise BrokenAnswer(f"{shorten(url)}: the browser shows no response")
        return navigation.document

    async def _raise_if_crashed(self, navigation: Navigation, failure: str) -> None:
        """Raise PageCrashed where a navigation was aborted by a crash, which is reported a moment later."""
        if "ERR_ABORTED" in failure:
            await asyncio.wait([navigation.failed], timeout=CRASH_REPORT_TIMEOUT.total_seconds())
            if navigation.failed.done():
                await navigation.failed

    async def html(self, max_bytes: int) -> bytes:
        """Return the current HTML; raises TooLarge when it has more than `most` bytes."""
        found = await self.evaluate(scripts.HTML % max_bytes)
        body = found.encode(errors="replace") if isinstance(found, str) else b""
        if not isinstance(found, str) or len(body) > max_bytes:
            raise TooLarge(f"The page has grown larger than the limit of {max_bytes:,} bytes")
        return body

    async def evaluate(self, script: str, *, gesture: bool = False) -> Any:
        """Return the value of a script, awaited if need be; raises ScriptFailed, PageCrashed."""
        try:
            reply = await self.call(
                "Runtime.evaluate",
                expression=script,
                awaitPromise=True,
                returnByValue=True,
                userGesture=gesture,
                replMode=False,
            )
        except CdpError as error:
            raise self.error_for(error) from error
        if details := reply.get("exceptionDetails"):
            raise ScriptFailed(_error_text(details))
        return reply["result"].get("value")

    async def wait_for_selector(self, selector: str) -> None:
        """Wait until something matches a CSS selector, however often the page navigates meanwhile."""
        while True:
            try:
                await self.evaluate(scripts.wait_for_selector(selector))
                return
            except ScriptFailed as failure:
                if "SyntaxError" in str(failure):
                    raise InvalidSetting(
                        "browser", f"cannot wait for {selector!r}: not a CSS selector"
                    ) from failure
                raise
            except BrokenAnswer:
                await self._wait_for_change()  # the page navigated; the search goes on there

    async def blank(self) -> None:
        """Leave the page, so that nothing of it keeps running; raises CdpError."""
        self._end_navigation()
        await self.call("Page.navigate", url="about:blank")

    def close(self) -> None:
        """Stop handling its events."""
        self._end_navigation()
        for session in (self.session, *self._parts):
            self._cdp.forget(session)
        self._requests.close()

    def _end_navigation(self) -> None:
        if self._navigation:
            self._credential.end(self._navigation.fail)
        self._navigation = None

    async def _wait_until_loaded(self, navigation: Navigation) -> None:
        selector = self._settings.selector
        if selector and navigation.document and 200 <= navigation.document.status <= 299:
            return await self.wait_for_selector(selector)
        await self._wait_for_stage("dom" if self._settings.wait == "dom" else "load")
        if self._settings.wait == "idle":
            # A page whose network never becomes idle is used as it is.
            with suppress(TimeoutError):
                async with asyncio.timeout(IDLE_TIMEOUT_SECONDS):
                    await self._wait_for_stage("idle")
        return None

    async def _wait_for_stage(self, stage: str) -> None:
        while self._requests.is_loading or STAGES[stage] not in self._stages:
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await wait_for_event(self._changed, 1.0)

    @property
    def url(self) -> str:
        """The URL of the request in progress; empty while it is idle."""
        return self._navigation.request.url if self._navigation else ""

    def _on_event(self, method: str, event: Event, size: int) -> None:
        self._count_event(size)
        match method:
            case "Fetch.requestPaused":
                self._on_request_paused(event)
            case "Fetch.authRequired":
                self._requests.authenticate(event)
            case "Network.dataReceived":
                self._count_bytes(event["dataLength"], is_document=event["requestId"] == self._document)
            case "Target.attachedToTarget":
                self._attach(event["sessionId"])
            case "Page.lifecycleEvent" if (
                event["frameId"] == self.frame and event["loaderId"] == self._loader
            ):
                self._stages.add(event["name"])
                self._changed.set()
            case "Page.frameNavigated" if event["frame"]["id"] == self.frame:
                self._loader = event["frame"]["loaderId"]
                self._stages.clear()
                self._requests.is_loading = False
                self._changed.set()
            case "Page.javascriptDialogOpening":
                self.call("Page.handleJavaScriptDialog", accept=False)
            case "Inspector.targetCrashed":
                self.fail(PageCrashed("The page crashed in the browser"))
            case "Inspector.detached":
                self.fail(PageCrashed(str(event.get("reason") or "The browser detached from the page")))
            case _:
                pass

    def _on_request_paused(self, event: Event) -> None:
        if self._navigation is None or self._event_count > MAX_EVENTS:
            self._requests.abort(event)
        else:
            self._requests.decide(self._navigation, event)
            self._changed.set()

    def _attach(self, session: str) -> None:
        """Count what a worker or a frame loads."""
        self._parts.add(session)
        self._cdp.listen(session, self._on_part_event)
        self._cdp.call("Network.enable", session, **BODIES)
        self._cdp.call("Target.setAutoAttach", session, **PARTS)

    def _on_part_event(self, method: str, event: Event, size: int) -> None:
        self._count_event(size)
        match method:
            case "Network.dataReceived":
                self._count_bytes(event["dataLength"], is_document=False)
            case "Target.attachedToTarget":
                self._attach(event["sessionId"])
            case _:
                pass

    def _begin_document(self, network_id: str) -> None:
        """Count the body of a document that arrives."""
        self._document, self._document_bytes = network_id, 0

    def _count_event(self, size: int) -> None:
        """Count an event: a page that causes them without end would keep the worker busy."""
        self._event_count += 1
        self._event_bytes += size
        if self._event_count == MAX_EVENTS:
            self.fail(TooLarge(f"The page causes more than {MAX_EVENTS:,} events"))
        elif (
            self._navigation
            and self._event_bytes > TRAFFIC * self._navigation.limits.max_body >= self._event_bytes - size
        ):
            self.fail(TooLarge("The events of the page are larger than the limit; see max_body"))

    def _count_bytes(self, count: int, *, is_document: bool) -> None:
        """Count decompressed bytes of a body; fail a page that has too many."""
        navigation = self._navigation
        if navigation is None or navigation.failed.done():
            return
        self._body_bytes += count
        self._document_bytes += count if is_document else 0
        max_bytes = navigation.limits.max_body
        if self._document_bytes > max_bytes:
            self.fail(TooLarge(f"The body is larger than the limit of {max_bytes:,} bytes"))
        elif self._body_bytes > TRAFFIC * max_bytes:
            self.fail(TooLarge("The page and what it loads are larger than the limit; see max_body"))

    def fail(self, error: ShoalError) -> None:
        """Fail its navigation; the tab is not used again."""
        self.is_broken = True
        self._changed.set()
        if self._navigation:
            self._navigation.fail(error)
        self._cdp.fail(self.session, str(error))

    def _is_empty(self, navigation: Navigation) -> bool:
        return navigation.document is not None and navigation.document.status in WITHOUT_PAGE

    def _refusal(self, navigation: Navigation) -> ShoalError | None:
        """Return why the browser proxy refused the main frame."""
        with suppress(ShoalError):
            return self._credential.refusal(host_of(navigation.at), self._began)
        return OutOfScope(f"The page leads to a URL that cannot be fetched: {shorten(navigation.at)}")

    def error_for(self, error: CdpError) -> ShoalError:
        """Return the error for a failed call."""
        if (
            self._navigation
            and self._navigation.failed.done()
            and (why := self._navigation.failed.exception())
        ):
            return why if isinstance(why, ShoalError) else PageCrashed(str(why))
        if self.is_broken or not self._cdp.is_open:
            return PageCrashed(f"The browser ended under the page: {error}")
        return BrokenAnswer(f"The browser call failed: {error}")


class ScriptFailed(ShoalError):
    """A script that was run in the page failed."""


def _error_text(details: Event) -> str:
    thrown = details.get("exception") or {}
    return shorten(str(thrown.get("description") or thrown.get("value") or details.get("text") or ""), 500)
