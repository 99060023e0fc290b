"""Intercepts the requests of one tab: pages are checked first, and headers and credentials are added."""

import asyncio
from base64 import b64decode
from collections.abc import Callable

from shoal.core.browser_settings import BrowserSettings
from shoal.core.errors import TooLarge
from shoal.core.tasks import start_in
from shoal.core.urls import host_of
from shoal.fetch.browser.cdp import CdpError, Event
from shoal.fetch.browser.navigation import WITHOUT_PAGE, Navigation, check_encoding, fields_of
from shoal.fetch.browser.proxy.credentials import ProxyCredential

Call = Callable[..., asyncio.Future[Event]]
CHUNK = 1 << 20  # bytes of a body that are read at a time
DOCUMENTS = [
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"},
    {"urlPattern": "*", "resourceType": "Document", "requestStage": "Response"},
]
OTHERS = {"urlPattern": "*", "resourceType": "Other", "requestStage": "Request"}  # icons, and rare types
MEDIA = {"urlPattern": "*", "resourceType": "Media", "requestStage": "Request"}
EVERYTHING = {"urlPattern": "*", "requestStage": "Request"}


class RequestInterceptor:
    """Decides on every request of a tab that the browser holds back for it."""

    def __init__(
        self,
        call: Call,
        frame: str,
        credential: ProxyCredential,
        settings: BrowserSettings,
        on_document: Callable[[str], None],
    ) -> None:
        self._call, self._frame = call, frame
        self._credential, self._settings = credential, settings
        self._on_document = on_document  # gets the network's id of each document that arrives
        self._authenticated: set[str] = set()  # requests that have sent the proxy credential already
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_loading = False  # a further page was requested, and has not arrived yet

    def begin(self) -> None:
        """Forget what belonged to the navigation before."""
        self.is_loading = False
        self._authenticated.clear()

    def close(self) -> None:
        """Cancel the requests that are being decided on."""
        for task in self._tasks:
            task.cancel()

    async def enable(self, navigation: Navigation, user_agent: str) -> None:
        """Intercept the requests that are checked: pages, and all if the caller set headers."""
        patterns: list[dict[str, str]] = [*DOCUMENTS, OTHERS]
        if "media" in self._settings.block:
            patterns.append(MEDIA)
        if navigation.names:
            patterns.append(EVERYTHING)
        calls = [self._call("Fetch.enable", patterns=patterns, handleAuthRequests=True)]
        if own := navigation.browser_headers:
            override = {"userAgent": own.get("user-agent", user_agent)}
            if "accept-language" in own:
                override["acceptLanguage"] = own["accept-language"]
            calls.append(self._call("Emulation.setUserAgentOverride", **override))
        await asyncio.gather(*calls, *self._set_cookies(navigation, navigation.at))

    def decide(self, navigation: Navigation, event: Event) -> None:
        """Continue or abort a request or response that the browser has paused."""
        is_page = event["resourceType"] == "Document" and event["frameId"] == self._frame
        if "responseErrorReason" in event:
            self.is_loading = self.is_loading and not is_page
            self._continue(event)
        elif "responseStatusCode" in event:
            self._on_response(navigation, event) if is_page else self._on_frame_response(event)
        elif is_page:
            start_in(self._tasks, self._request_page(navigation, event))
        elif _is_icon(event) or (event["resourceType"] == "Media" and "media" in self._settings.block):
            self.abort(event)
        else:
            self._request_resource(navigation, event)

    async def _request_page(self, navigation: Navigation, event: Event) -> None:
        """Let the main frame load a page, if it may; all but the first are hops."""
        url: str = event["request"]["url"].partition("#")[0]
        try:
            if navigation.is_started:
                await navigation.follow(url)
                await asyncio.gather(*self._set_cookies(navigation, url))
        except Exception as error:
            navigation.fail(error)
            self.abort(event)
            return
        navigation.at, navigation.is_started, self.is_loading = url, True, True
        self._continue(event, navigation.headers_for(url, event["request"]["headers"], is_page=True))

    def _request_resource(self, navigation: Navigation, event: Event) -> None:
        calls = event["request"]
        if event["frameId"] != self._frame:
            self._continue(event)  # a frame within the page is a third party, and gets none of our headers
            return
        self._continue(event, navigation.headers_for(calls["url"], calls["headers"], is_page=False))

    def _on_response(self, navigation: Navigation, event: Event) -> None:
        url, status = event["request"]["url"], event["responseStatusCode"]
        is_first = navigation.document is None
        self._on_document(str(event.get("networkId", "")))
        try:
            navigation.record_response(url, status, fields_of(event))
        except TooLarge as error:
            navigation.fail(error)
            self.abort(event)
            return
        if is_first and navigation.is_raw:
            start_in(self._tasks, self._read_raw(navigation, event))
            return
        if status in WITHOUT_PAGE:
            self.is_loading = False
        self._continue(event)

    def _on_frame_response(self, event: Event) -> None:
        try:
            check_encoding(event["request"]["url"], fields_of(event))
        except TooLarge:
            self.abort(event)
        else:
            self._continue(event)

    async def _read_raw(self, navigation: Navigation, event: Event) -> None:
        try:
            navigation.raw = await self._read_body(event["requestId"], navigation.limits.max_body)
        except TooLarge as error:
            navigation.fail(error)
        except CdpError:
            pass  # the caller that waits for the page gets the reason
        self.abort(event, "Aborted")

    async def _read_body(self, request_id: str, max_bytes: int) -> bytes:
        """Read the body of a paused response in chunks; raises TooLarge, CdpError."""
        # Not as a whole with Fetch.getResponseBody: a few bytes on the wire may decompress to gigabytes.
        stream = (await self._call("Fetch.takeResponseBodyAsStream", requestId=request_id))["stream"]
        body = bytearray()
        try:
            while True:
                part = await self._call("IO.read", handle=stream, size=CHUNK)
                data: str = part["data"]
                body += b64decode(data) if part.get("base64Encoded") else data.encode(errors="replace")
                if len(body) > max_bytes:
                    raise TooLarge(f"The body is larger than the limit of {max_bytes:,} bytes")
                if part["eof"]:
                    return bytes(body)
        finally:
            self._call("IO.close", handle=stream)

    def authenticate(self, event: Event) -> None:
        """Send the credential of the browser proxy, once for each request, and to nothing else."""
        is_proxy = (
            event["authChallenge"].get("source") == "Proxy" and event["requestId"] not in self._authenticated
        )
        self._authenticated.add(event["requestId"])
        reply = {"response": "CancelAuth"}
        if is_proxy:
            own = self._credential
            reply = {"response": "ProvideCredentials", "username": own.name, "password": own.secret}
        self._call("Fetch.continueWithAuth", requestId=event["requestId"], authChallengeResponse=reply)

    def _continue(self, event: Event, headers: list[dict[str, str]] | None = None) -> None:
        more = {"headers": headers} if headers is not None else {}
        self._call("Fetch.continueRequest", requestId=event["requestId"], **more)

    def abort(self, event: Event, reason: str = "BlockedByClient") -> None:
        """Let a paused request fail."""
        self._call("Fetch.failRequest", requestId=event["requestId"], errorReason=reason)

    def _set_cookies(self, navigation: Navigation, url: str) -> list[asyncio.Future[Event]]:
        """Set the cookies of the session's own jar for a URL in the context."""
        identity = navigation.request.identity
        stored = identity.cookies.matching(url, host_of(url)) if identity else ()
        if not stored:
            return []
        if navigation.secrets:
            navigation.secrets.received(f"{cookie.name}={cookie.value}" for cookie in stored)
        # With their attributes: a script of the page must not read an HttpOnly cookie.
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
            | ({"domain": f".{cookie.domain}"} if cookie.domain else {})  # without the dot: one host
            for cookie in stored
        ]
        return [self._call("Network.setCookies", cookies=cookies)]


def _is_icon(event: Event) -> bool:
    """Whether the browser requests the icon of its own tab: images of a page have another type."""
    wanted: str = event["request"]["headers"].get("Accept", "")
    return event["resourceType"] == "Other" and wanted.startswith("image/")
