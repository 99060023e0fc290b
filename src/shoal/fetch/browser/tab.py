"""One tab of the browser: it goes where it is sent, and asks before every further page."""

import asyncio
import time
from base64 import b64decode
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from shoal.core.browsing import BrowserSettings
from shoal.core.errors import (
    BrokenAnswer,
    InvalidSetting,
    OutOfScope,
    PageCrashed,
    ShoalError,
    TooLarge,
    shorten,
)
from shoal.core.urls import host_of
from shoal.fetch.browser import scripts
from shoal.fetch.browser.errors import translated
from shoal.fetch.browser.passes import Pass
from shoal.fetch.browser.visit import WITHOUT_PAGE, Document, Visit, check_encoding, fields_of
from shoal.fetch.browser.wire import Event, Wire, WireFailed

STAGES = {"dom": "DOMContentLoaded", "load": "load", "idle": "networkIdle"}
LONGEST_IDLE = 10.0  # seconds that the network may take to fall silent after the page has loaded
LAST_WORDS = 0.5  # seconds
TRAFFIC = 8  # times the largest body is what a page and all that it loads may weigh, packed and unpacked
PART = 1 << 20  # bytes of a body that are read at a time
MOST_EVENTS = 50_000  # of one page; what has more goes on for ever
DOCUMENTS = [
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"},
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
]
OTHERS = {"urlPattern": "*", "resourceType": "Other", "requestStage": "Request"}  # icons, and some rare parts
MEDIA = {"urlPattern": "*", "resourceType": "Media", "requestStage": "Request"}
# Tells how large bodies are once they are unpacked; the browser keeps none of them for us.
BODIES = {"maxTotalBufferSize": 0, "maxResourceBufferSize": 0, "maxPostDataSize": 0}
# Workers, and frames that have a process of their own: what they load counts too.
PARTS = {
    "autoAttach": True,
    "waitForDebuggerOnStart": False,
    "flatten": True,
    "filter": [{"type": "iframe"}, {"type": "worker"}],
}
# What pages see of it, with or without a window around them.
VIEW = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
EVERYTHING = {"urlPattern": "*", "requestStage": "Request"}


class Tab:
    """A page of a context, with one visit at a time."""

    def __init__(self, wire: Wire, session: str, frame: str, shown: Pass, settings: BrowserSettings) -> None:
        self._wire, self.session, self.frame = wire, session, frame
        self._pass, self._settings = shown, settings
        self._visit: Visit | None = None
        self._loader = ""
        self._stages: set[str] = set()
        self._moved = asyncio.Event()
        self._under_way = False  # a further page was asked for, and has not come yet
        self._heard = 0  # events of this visit,
        self._told = 0  # and the bytes that they took
        self._unpacked = 0  # bytes of all bodies of this visit
        self._of_document = 0  # bytes of the document's body
        self._document = ""  # the network's id of the document
        self._began = 0.0
        self._parts: set[str] = set()  # sessions of its workers and of frames with a process of their own
        self._tried: set[str] = set()  # questions that have shown the pass already
        self._working: set[asyncio.Task[None]] = set()
        self.is_broken = False
        wire.listen(session, self._hear)

    async def prepare(self, user_agent: str) -> None:
        """Make it ready for its first visit."""
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
        """Ask the browser for something in this tab."""
        return self._wire.call(method, self.session, **params)

    async def go(self, visit: Visit, user_agent: str) -> Document:
        """Visit a page and wait for it as the settings say; raises FetchError, or what `on_hop` raises."""
        self._visit, self._under_way = visit, False
        self._heard = self._told = self._unpacked = self._of_document = 0
        self._document = ""
        self._tried.clear()
        self._began = time.monotonic()
        self._pass.begin(TRAFFIC * visit.limits.max_body, visit.fail)
        visit.at = url = visit.request.url
        try:
            await visit.unless_failed(self._arm(visit, user_agent))
            answer = await visit.unless_failed(self.call("Page.navigate", url=url))
            failure = answer.get("errorText")
            if visit.raw is None and failure and not self._is_empty(visit):
                await self._hear_of_death(visit, failure)
                raise self._refusal(visit) or translated(failure, visit.at)
            if visit.raw is None and not failure:
                await visit.unless_failed(self._wait(visit))
        except WireFailed as error:
            raise self.broken(error) from error
        if visit.document is None:
            raise BrokenAnswer(f"{shorten(url)}: the browser shows no answer")
        return visit.document

    async def _hear_of_death(self, visit: Visit, failure: str) -> None:
        """Raise PageCrashed where a page was given up because it died: that is told a moment later."""
        if "ERR_ABORTED" in failure:
            await asyncio.wait([visit.failed], timeout=LAST_WORDS)
            if visit.failed.done():
                await visit.failed

    async def html(self, most: int) -> bytes:
        """Return the page as it stands; raises TooLarge when it has more than `most` bytes."""
        found = await self.evaluate(scripts.HTML % most)
        body = found.encode(errors="replace") if isinstance(found, str) else b""
        if not isinstance(found, str) or len(body) > most:
            raise TooLarge(f"The page has grown larger than the limit of {most:,} bytes")
        return body

    async def evaluate(self, script: str, *, gesture: bool = False) -> Any:
        """Return what a script gives, awaited if need be; raises ScriptFailed, PageCrashed."""
        try:
            answer = await self.call(
                "Runtime.evaluate",
                expression=script,
                awaitPromise=True,
                returnByValue=True,
                userGesture=gesture,
                replMode=False,
            )
        except WireFailed as error:
            raise self.broken(error) from error
        if details := answer.get("exceptionDetails"):
            raise ScriptFailed(_said(details))
        return answer["result"].get("value")

    async def appears(self, selector: str) -> None:
        """Wait until something matches a CSS selector, however often the page changes meanwhile."""
        while True:
            try:
                await self.evaluate(scripts.appears(selector))
                return
            except ScriptFailed as failure:
                if "SyntaxError" in str(failure):
                    raise InvalidSetting(
                        "browser", f"cannot wait for {selector!r}: no CSS selector"
                    ) from failure
                raise
            except BrokenAnswer:
                await self._next_move()  # the page went elsewhere; it is looked for there

    async def blank(self) -> None:
        """Leave the page, so that nothing of it goes on; raises WireFailed."""
        self._end_visit()
        await self.call("Page.navigate", url="about:blank")

    def close(self) -> None:
        """Hear nothing of it any more."""
        self._end_visit()
        for session in (self.session, *self._parts):
            self._wire.forget(session)
        for task in self._working:
            task.cancel()

    def _end_visit(self) -> None:
        if self._visit:
            self._pass.end(self._visit.fail)
        self._visit = None

    async def _arm(self, visit: Visit, user_agent: str) -> None:
        """Hold up the questions that are looked at: pages, and with headers of the caller all."""
        patterns: list[dict[str, str]] = [*DOCUMENTS, OTHERS]
        if "media" in self._settings.block:
            patterns.append(MEDIA)
        if visit.names:
            patterns.append(EVERYTHING)
        asked = [self.call("Fetch.enable", patterns=patterns, handleAuthRequests=True)]
        if visit.spoken:
            asked.append(
                self.call(
                    "Emulation.setUserAgentOverride",
                    userAgent=visit.spoken.get("user-agent", user_agent),
                    **(
                        {"acceptLanguage": visit.spoken["accept-language"]}
                        if "accept-language" in visit.spoken
                        else {}
                    ),
                )
            )
        await asyncio.gather(*asked, *self._bring_cookies(visit, visit.at))

    async def _wait(self, visit: Visit) -> None:
        selector = self._settings.selector
        if selector and visit.document and 200 <= visit.document.status <= 299:
            return await self.appears(selector)
        await self._reach("dom" if self._settings.wait == "dom" else "load")
        if self._settings.wait == "idle":
            # A page that never falls silent is taken as it is.
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_IDLE):
                    await self._reach("idle")
        return None

    async def _reach(self, stage: str) -> None:
        while self._under_way or STAGES[stage] not in self._stages:
            await self._next_move()

    async def _next_move(self) -> None:
        self._moved.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._moved.wait()

    @property
    def url(self) -> str:
        """The URL of the request that it works on; empty while it is idle."""
        return self._visit.request.url if self._visit else ""

    def lose(self, error: ShoalError) -> None:
        """Let its visit fail, for the browser is gone."""
        self._end(error)

    def _hear(self, method: str, event: Event, size: int) -> None:
        self._count(size)
        match method:
            case "Fetch.requestPaused":
                self._hold_up(event)
            case "Fetch.authRequired":
                self._show_pass(event)
            case "Network.dataReceived":
                self._weigh(event["dataLength"], is_document=event["requestId"] == self._document)
            case "Target.attachedToTarget":
                self._attach(event["sessionId"])
            case "Page.lifecycleEvent" if (
                event["frameId"] == self.frame and event["loaderId"] == self._loader
            ):
                self._stages.add(event["name"])
                self._moved.set()
            case "Page.frameNavigated" if event["frame"]["id"] == self.frame:
                self._loader = event["frame"]["loaderId"]
                self._stages.clear()
                self._under_way = False
                self._moved.set()
            case "Page.javascriptDialogOpening":
                self.call("Page.handleJavaScriptDialog", accept=False)
            case "Inspector.targetCrashed":
                self._end(PageCrashed("The page crashed in the browser"))
            case "Inspector.detached":
                self._end(PageCrashed(str(event.get("reason") or "The browser let go of the page")))
            case _:
                pass

    def _attach(self, session: str) -> None:
        """Count what a worker or a frame loads."""
        self._parts.add(session)
        self._wire.listen(session, self._hear_part)
        self._wire.call("Network.enable", session, **BODIES)
        self._wire.call("Target.setAutoAttach", session, **PARTS)

    def _hear_part(self, method: str, event: Event, size: int) -> None:
        self._count(size)
        match method:
            case "Network.dataReceived":
                self._weigh(event["dataLength"], is_document=False)
            case "Target.attachedToTarget":
                self._attach(event["sessionId"])
            case _:
                pass

    def _count(self, size: int) -> None:
        """Count an event: a page that causes them without end would keep the worker busy."""
        self._heard += 1
        self._told += size
        if self._heard == MOST_EVENTS:
            self._end(TooLarge(f"The page does more than {MOST_EVENTS:,} things"))
        elif self._visit and self._told > TRAFFIC * self._visit.limits.max_body >= self._told - size:
            self._end(TooLarge("The events of the page are larger than the limit; see max_body"))

    def _weigh(self, count: int, *, is_document: bool) -> None:
        """Count bytes of a body as they are unpacked; end the tab of a page that has too many."""
        visit = self._visit
        if visit is None or visit.failed.done():
            return
        self._unpacked += count
        self._of_document += count if is_document else 0
        most = visit.limits.max_body
        if self._of_document > most:
            self._end(TooLarge(f"The body is larger than the limit of {most:,} bytes"))
        elif self._unpacked > TRAFFIC * most:
            self._end(TooLarge("The page and what it loads are larger than the limit; see max_body"))

    def _end(self, error: ShoalError) -> None:
        self.is_broken = True
        self._moved.set()
        if self._visit:
            self._visit.fail(error)
        self._wire.lose(self.session, str(error))

    def _hold_up(self, event: Event) -> None:
        visit = self._visit
        if visit is None or self._heard > MOST_EVENTS:
            self._refuse(event)
            return
        is_page = event["resourceType"] == "Document" and event["frameId"] == self.frame
        if "responseErrorReason" in event:
            self._under_way = self._under_way and not is_page
            self._moved.set()
            self._go_on(event)
        elif "responseStatusCode" in event:
            self._take_answer(visit, event) if is_page else self._take_frame(event)
        elif is_page:
            self._work(self._ask_page(visit, event))
        elif _is_icon(event) or (event["resourceType"] == "Media" and "media" in self._settings.block):
            self._refuse(event)
        else:
            self._ask_part(visit, event)

    async def _ask_page(self, visit: Visit, event: Event) -> None:
        """Let the main frame go to a page, if it may; all but the first are hops."""
        url: str = event["request"]["url"].partition("#")[0]
        try:
            if visit.is_begun:
                await visit.lead(url)
                await asyncio.gather(*self._bring_cookies(visit, url))
        except Exception as error:
            visit.fail(error)
            self._refuse(event)
            return
        visit.at, visit.is_begun, self._under_way = url, True, True
        self._go_on(event, visit.said_to(url, event["request"]["headers"], is_page=True))

    def _ask_part(self, visit: Visit, event: Event) -> None:
        asked = event["request"]
        if event["frameId"] != self.frame:
            self._go_on(event)  # a frame within the page is a stranger, and gets nothing
            return
        self._go_on(event, visit.said_to(asked["url"], asked["headers"], is_page=False))

    def _take_answer(self, visit: Visit, event: Event) -> None:
        url, status = event["request"]["url"], event["responseStatusCode"]
        is_first = visit.document is None
        self._document, self._of_document = str(event.get("networkId", "")), 0
        try:
            visit.answered(url, status, fields_of(event))
        except TooLarge as error:
            visit.fail(error)
            self._refuse(event)
            return
        if is_first and visit.is_raw:
            self._work(self._take_raw(visit, event))
            return
        if status in WITHOUT_PAGE:
            self._under_way = False
        self._go_on(event)

    def _take_frame(self, event: Event) -> None:
        try:
            check_encoding(event["request"]["url"], fields_of(event))
        except TooLarge:
            self._refuse(event)
        else:
            self._go_on(event)

    async def _take_raw(self, visit: Visit, event: Event) -> None:
        try:
            visit.raw = await self._read_body(event["requestId"], visit.limits.max_body)
        except TooLarge as error:
            visit.fail(error)
        except WireFailed:
            pass  # whoever waits for the page is told why
        self._refuse(event, "Aborted")

    async def _read_body(self, request_id: str, most: int) -> bytes:
        """Read the body of a response that is held up, part by part; raises TooLarge, WireFailed."""
        # Not as a whole with Fetch.getResponseBody: a few bytes on the wire may unpack to gigabytes.
        stream = (await self.call("Fetch.takeResponseBodyAsStream", requestId=request_id))["stream"]
        body = bytearray()
        try:
            while True:
                part = await self.call("IO.read", handle=stream, size=PART)
                data: str = part["data"]
                body += b64decode(data) if part.get("base64Encoded") else data.encode(errors="replace")
                if len(body) > most:
                    raise TooLarge(f"The body is larger than the limit of {most:,} bytes")
                if part["eof"]:
                    return bytes(body)
        finally:
            self.call("IO.close", handle=stream)

    def _show_pass(self, event: Event) -> None:
        is_gate = event["authChallenge"].get("source") == "Proxy" and event["requestId"] not in self._tried
        self._tried.add(event["requestId"])
        answer = (
            {"response": "ProvideCredentials", "username": self._pass.name, "password": self._pass.secret}
            if is_gate
            else {"response": "CancelAuth"}
        )
        self.call("Fetch.continueWithAuth", requestId=event["requestId"], authChallengeResponse=answer)

    def _go_on(self, event: Event, headers: list[dict[str, str]] | None = None) -> None:
        more = {"headers": headers} if headers is not None else {}
        self.call("Fetch.continueRequest", requestId=event["requestId"], **more)

    def _refuse(self, event: Event, reason: str = "BlockedByClient") -> None:
        self.call("Fetch.failRequest", requestId=event["requestId"], errorReason=reason)

    def _bring_cookies(self, visit: Visit, url: str) -> list[asyncio.Future[Event]]:
        """Let the context know what the visitor's own jar has for a URL."""
        guise = visit.request.guise
        kept = guise.cookies.fitting(url, host_of(url)) if guise else ()
        if not kept:
            return []
        if visit.secrets:
            visit.secrets.received(f"{cookie.name}={cookie.value}" for cookie in kept)
        # As the host has set them: a script of the page must not read what is HttpOnly.
        cookies = [
            {
                "name": cookie.name,
                "value": cookie.value,
                "url": url,
                "path": cookie.path,
                "secure": cookie.secure,
                "httpOnly": cookie.http_only,
            }
            | ({"sameSite": cookie.same_site} if cookie.same_site else {})
            for cookie in kept
        ]
        return [self.call("Network.setCookies", cookies=cookies)]

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    def _is_empty(self, visit: Visit) -> bool:
        return visit.document is not None and visit.document.status in WITHOUT_PAGE

    def _refusal(self, visit: Visit) -> ShoalError | None:
        """Return why the gate did not let the main frame through."""
        with suppress(ShoalError):
            return self._pass.refusal(host_of(visit.at), self._began)
        return OutOfScope(f"The page leads to where nothing can be fetched: {shorten(visit.at)}")

    def broken(self, error: WireFailed) -> ShoalError:
        """Return what it means that a call failed."""
        if self._visit and self._visit.failed.done() and (why := self._visit.failed.exception()):
            return why if isinstance(why, ShoalError) else PageCrashed(str(why))
        if self.is_broken or not self._wire.is_open:
            return PageCrashed(f"The browser ended under the page: {error}")
        return BrokenAnswer(f"The browser could not say: {error}")


def _is_icon(event: Event) -> bool:
    """Whether the browser wants the picture for its own tab: what a page shows is asked for as an image."""
    wanted: str = event["request"]["headers"].get("Accept", "")
    return event["resourceType"] == "Other" and wanted.startswith("image/")


class ScriptFailed(ShoalError):
    """A script that was run in the page failed."""


def _said(details: Event) -> str:
    thrown = details.get("exception") or {}
    return shorten(str(thrown.get("description") or thrown.get("value") or details.get("text") or ""), 500)
