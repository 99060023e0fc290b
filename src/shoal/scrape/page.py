"""A page as a step sees it: what came back, and the verbs that get at what is in it."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import msgspec
from turbohtml import Document

from shoal.core.ask import NO_HEADERS, Ask
from shoal.core.errors import InvalidInput, InvalidUrl, ParseFailed, shorten
from shoal.core.exchange import Headers, Live, Response
from shoal.core.model import Task
from shoal.core.urls import join
from shoal.scrape.charset import read_text
from shoal.scrape.forms import fields_of
from shoal.scrape.node import Node, evaluated, every, first
from shoal.scrape.text import text_of
from shoal.scrape.tree import parse_html

LONG = 1 << 20  # bytes, about ten milliseconds
MAX_LINKS = 100_000  # of one page; reading them takes half a second
NOT_A_LINK, TOO_MANY = "not a web link", "too many links on one page"


class Named(Protocol):
    """What has a name: a step."""

    @property
    def name(self) -> str: ...


class Page:
    """One fetched page. It is parsed when first asked about its contents, and only once."""

    __slots__ = (
        "_base",
        "_document",
        "_encoding",
        "_failure",
        "_html",
        "_links",
        "dropped",
        "response",
        "task",
    )

    def __init__(self, response: Response, task: Task) -> None:
        self.response = response
        self.task = task
        self.dropped = defaultdict[str, int](int)  # links of this page that are no tasks, by reason
        self._html: str | None = None
        self._encoding = ""
        self._document: Document | None = None
        self._failure: str | None = None
        self._base: str | None = None
        self._links: set[str] = set()

    @property
    def url(self) -> str:
        """Where the page was found in the end, after redirects."""
        return self.response.url

    @property
    def status(self) -> int:
        """The status code of the response."""
        return self.response.status

    @property
    def headers(self) -> Headers:
        """The header fields of the response."""
        return self.response.headers

    @property
    def body(self) -> bytes:
        """The bytes of the page, decompressed."""
        return self.response.body

    @property
    def browser(self) -> Live:
        """The page in its browser, as long as the step runs; raises InvalidInput where there is none."""
        if self.response.live is None:
            raise InvalidInput(
                f"{shorten(self.url)} did not come by a browser. Write fetch='browser' on its step or scraper"
            )
        if not _is_in_loop():
            raise InvalidInput("page.browser needs a step that is defined with 'async def'")
        return self.response.live

    @property
    def payload(self) -> Mapping[str, Any]:
        """What the page's task carries."""
        return self.task.payload

    @property
    def encoding(self) -> str:
        """The encoding that the page was read with, such as "utf-8"."""
        if self._html is None:
            self._read()
        return self._encoding

    @property
    def html(self) -> str:
        """The page as text."""
        return self._read() if self._html is None else self._html

    @property
    def base(self) -> str:
        """What links are relative to: the page's URL, or what `<base href>` makes of it."""
        if self._base is None:
            self._base = self._found_base()
        return self._base

    def css(self, selector: str) -> list[Node]:
        """Return the elements that match a CSS selector, in document order."""
        return list(map(Node, every(self._parsed(), selector)))

    def css_first(self, selector: str) -> Node | None:
        """Return the first element that matches a CSS selector."""
        raw = first(self._parsed(), selector)
        return None if raw is None else Node(raw)

    def xpath(self, expression: str) -> list[Node | str | float | bool]:
        """Return what an XPath expression finds: elements as nodes, text and attributes as str."""
        return evaluated(self._parsed(), expression)

    def text(self, selector: str, default: str = "") -> str:
        """Return the text of the first match, with whitespace collapsed."""
        raw = first(self._parsed(), selector)
        return default if raw is None else text_of(raw)

    def attr(self, selector: str, name: str, default: str | None = None) -> str | None:
        """Return an attribute of the first match; the default if there is no match or no such attribute."""
        raw = first(self._parsed(), selector)
        return default if raw is None else raw.attr(name, default)

    def links(self, selector: str = "a[href]") -> list[str]:
        """Return where the matches lead: absolute, canonical, http(s) only, each once, in document order."""
        hrefs = dict.fromkeys(raw.attr("href") for raw in every(self._parsed(), selector))
        base, found = self.base, dict[str, None]()
        for href in list(hrefs)[:MAX_LINKS]:
            try:
                if href is not None:
                    found[join(base, href)] = None
            except InvalidUrl:
                continue  # mailto:, javascript: and what was never an address
        if len(hrefs) > MAX_LINKS:
            self.dropped[TOO_MANY] += len(hrefs) - MAX_LINKS
        self._links.update(found)
        return list(found)

    def json(self) -> Any:
        """Return the page's JSON as Python values; raises ParseFailed."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._lenient_json()
        except RecursionError as error:
            raise ParseFailed(f"{shorten(self.url)} holds JSON that is nested too deep") from error

    def follow(
        self,
        url: str | Node | None,
        step: Named | str | None = None,
        priority: int | None = None,
        **payload: Any,
    ) -> Task | None:
        """Return a task for a link of this page, for the same step unless another is named.

        None is no link and gives None, and so does what is no web address: a step may yield that.
        """
        return self._task(url.attr("href") if isinstance(url, Node) else url, step, priority, payload, None)

    def post(
        self,
        url: str | Node | None,
        *,
        form: Mapping[str, Any] | None = None,
        json: Any = None,
        body: bytes | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        step: Named | str | None = None,
        priority: int | None = None,
        **payload: Any,
    ) -> Task | None:
        """Return a task that sends a form, JSON or bytes, and else is as one of `follow`.

        A form of the page is named by its element: its action is where to. The same URL may be sent any
        number of things: what is sent tells the tasks apart.
        """
        if sum(one is not None for one in (form, json, body)) != 1:
            raise InvalidInput("A POST sends a form, JSON or bytes: page.post(url, form={'q': …})")
        if form is not None:
            ask = Ask.form(form, headers=headers)
        elif body is not None:
            ask = Ask(post=body, headers=headers)
        else:
            ask = Ask.json(json, headers=headers)
        # A form without an action is sent to the page that it stands on.
        href = (url.attr("action") or self.url) if isinstance(url, Node) else url
        return self._task(href, step, priority, payload, ask)

    def form(self, selector: str = "form") -> dict[str, Any]:
        """Return the fields of the first form that a selector finds, as a browser would send it untouched."""
        found = self.css_first(selector)
        return {} if found is None else fields_of(found)

    def _task(
        self,
        href: str | None,
        step: Named | str | None,
        priority: int | None,
        payload: Mapping[str, Any],
        ask: Ask | None,
    ) -> Task | None:
        if href is None:
            return None
        try:
            target = href if href in self._links else join(self.base, href)
        except InvalidUrl:
            self.dropped[NOT_A_LINK] += 1
            return None
        return Task(
            url=target,
            step=self.task.step if step is None else step_name(step),
            payload=payload,
            partition=self.task.partition,
            priority=self.task.priority if priority is None else priority,
            depth=self.task.depth + 1,
            ask=ask,
        )

    @property
    def is_long(self) -> bool:
        """Whether parsing the page would hold an event loop up; see `prepare`."""
        return len(self.body) > LONG and not self._is_json

    def prepare(self) -> None:
        """Parse the page now, in whatever thread this is, and keep a failure for whoever asks first."""
        with suppress(ParseFailed):
            self._parsed()

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"

    @property
    def _is_json(self) -> bool:
        return "json" in self.headers.get("content-type", "").lower()

    def _read(self) -> str:
        self._html, self._encoding = read_text(self.body, self.headers.get("content-type", ""))
        return self._html

    def _parsed(self) -> Document:
        if self._document is None:
            self._document = self._parse()
        return self._document

    def _parse(self) -> Document:
        if self._failure is not None:
            raise ParseFailed(self._failure)
        try:
            text = self.html
            return parse_html(text, self.body if self._encoding == "utf-8" else None)
        except ParseFailed as failure:
            # The next question must not take as long again. Not the error itself: it knows the frames that it
            # came through, they know this page, and a page in a circle stays in memory.
            self._failure = str(failure)
            raise

    def _found_base(self) -> str:
        if self._is_json:
            return self.url
        try:
            raw = self._parsed().select_one("base[href]")
            return self.url if raw is None else join(self.url, raw.attr("href") or "")
        except (InvalidUrl, ParseFailed):
            return self.url

    def _lenient_json(self) -> Any:
        # Another encoding, a mark in front, NaN, half an emoji: all are met, and none is JSON.
        try:
            return json.loads(self.html)
        except (ValueError, RecursionError) as error:
            raise ParseFailed(f"{shorten(self.url)} is not JSON: {error}") from error


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def step_name(step: Named | str) -> str:
    """Return the name of a step that was given as itself or by name; raises InvalidInput."""
    name = step if isinstance(step, str) else getattr(step, "name", None)
    if isinstance(name, str):
        return name
    raise InvalidInput(f"step must be a step of the scraper or its name, got {shorten(repr(step))}")
