"""A page as a step sees it: the response, and methods to extract data from it."""

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from itertools import islice
from typing import Any, Protocol, overload

import msgspec
from msgspec.structs import replace
from turbohtml import Document

from shoal.core.errors import InvalidInput, InvalidUrl, ParseFailed
from shoal.core.http import Headers, LiveTab, Response, StoredFile
from shoal.core.model import NOTHING, ZERO, Task
from shoal.core.request_options import NO_HEADERS, RequestOptions
from shoal.core.tasks import is_in_loop
from shoal.core.text import shorten
from shoal.core.urls import join, join_all
from shoal.core.values import read_duration, read_positive_duration, read_size
from shoal.scrape.extract import (
    read_article,
    read_feed,
    read_jsonld,
    read_markdown,
    read_metadata,
    read_microdata,
    read_opengraph,
    read_table,
)
from shoal.scrape.files import DEFAULT_PATH, MAX_BYTES, Download, FileRequest, check_template, read_types
from shoal.scrape.node import Node, NodeList, XPathResults, evaluate_xpath, select, select_first, text_of
from shoal.scrape.other_tools import missing_attribute, refuse_options
from shoal.scrape.parsing import is_binary, names_text, parse_html, read_text
from shoal.scrape.requests import Send, add_params, send_request

LONG = 1 << 20  # bytes, about ten milliseconds of parsing
MAX_LINKS = 100_000  # per page; extracting them takes half a second
TASK_OPTIONS = frozenset({"key", "partition", "priority", "ttl", "delay"})
NOT_A_LINK, TOO_MANY = "not a web link", "too many links on one page"


class Named(Protocol):
    """Anything with a name, such as a step."""

    @property
    def name(self) -> str: ...


class Page:
    """One fetched page. It is parsed once, on first access to its contents."""

    __slots__ = (
        "_base",
        "_document",
        "_encoding",
        "_failure",
        "_html",
        "_links",
        "args",
        "dropped",
        "resources",
        "response",
        "send",
        "task",
    )

    def __init__(self, response: Response, task: Task, args: Any = None, resources: Any = None) -> None:
        self.response = response
        self.task = task
        self.args = args  # the arguments of the run, as the scraper declares them
        self.resources = resources  # what the worker's on_start hooks have put there
        self.dropped: dict[str, int] = defaultdict(int)  # number of links that gave no task, by reason
        self.send: Send | None = None  # sends the requests of `request`
        self._html: str | None = None
        self._encoding = ""
        self._document: Document | None = None
        self._failure: str | None = None
        self._base: str | None = None
        self._links: set[str] = set()

    @property
    def url(self) -> str:
        """The final URL, after redirects."""
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
    def browser(self) -> LiveTab:
        """The live browser tab while the step runs; raises InvalidInput for a page without one."""
        if self.response.live is None:
            raise InvalidInput(
                f"{shorten(self.url)} was not fetched by a browser. Set fetch='browser' on its step"
            )
        if not is_in_loop():
            raise InvalidInput("page.browser needs a step that is defined with 'async def'")
        return self.response.live

    @property
    def file(self) -> StoredFile | None:
        """The file that was downloaded for this step, None for a page."""
        return self.response.file

    @property
    def payload(self) -> Mapping[str, Any]:
        """The payload of the page's task."""
        return self.task.payload

    @property
    def encoding(self) -> str:
        """The encoding used to decode the page, such as "utf-8"."""
        if self._html is None:
            self._read()
        return self._encoding

    @property
    def html(self) -> str:
        """The page as text."""
        return self._read() if self._html is None else self._html

    @property
    def base(self) -> str:
        """The base URL for relative links: the page's URL or its `<base href>`."""
        if self._base is None:
            self._base = self._find_base()
        return self._base

    def css(self, selector: str) -> NodeList:
        """Return the elements that match a CSS selector, in document order."""
        return NodeList(map(Node, select(self._tree(), selector)))

    def css_first(self, selector: str) -> Node | None:
        """Return the first element that matches a CSS selector."""
        raw = select_first(self._tree(), selector)
        return None if raw is None else Node(raw)

    def xpath(self, expression: str) -> XPathResults:
        """Return the results of an XPath expression: elements as nodes, text and attributes as str."""
        return evaluate_xpath(self._tree(), expression)

    def text(self, selector: str = "body", default: str = "") -> str:
        """Return the text of the first match, with whitespace collapsed; of the whole page by default."""
        raw = select_first(self._tree(), selector)
        return default if raw is None else text_of(raw)

    def attr(self, selector: str, name: str, default: str | None = None) -> str | None:
        """Return an attribute of the first match; the default if there is no match or no such attribute."""
        raw = select_first(self._tree(), selector)
        return default if raw is None else raw.attr(name, default)

    def links(self, selector: str = "a[href]") -> list[str]:
        """Return the URLs of matching links: absolute, canonical, http(s) only, unique, in document order."""
        found = (raw.attr("href") for raw in select(self._tree(), selector))
        # On real pages half of the links differ from others in the fragment only.
        hrefs = dict.fromkeys(href.partition("#")[0] for href in found if href is not None)
        urls = join_all(self.base, islice(hrefs, MAX_LINKS))
        if len(hrefs) > MAX_LINKS:
            self.dropped[TOO_MANY] += len(hrefs) - MAX_LINKS
        self._links.update(urls)
        return list(urls)

    @overload
    def urljoin(self, url: str) -> str: ...
    @overload
    def urljoin(self, url: None) -> None: ...
    def urljoin(self, url: str | None) -> str | None:
        """Return a link of this page as an absolute URL; what is no web address is returned as it is."""
        try:
            return url if url is None else join(self.base, url)
        except InvalidUrl:
            return url

    def json(self) -> Any:
        """Return the page's JSON as Python values; raises ParseFailed."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return self._parse_lenient_json()
        except RecursionError as error:
            raise ParseFailed(f"{shorten(self.url)} holds JSON that is nested too deeply") from error

    def jsonld(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the page's JSON-LD objects, of one type if given; scripts that are no JSON are skipped."""
        return read_jsonld(self._tree(), kind)

    def microdata(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the page's microdata items, of one type if given; the value of a property is a list."""
        return read_microdata(self._tree(), self.base, kind)

    def opengraph(self) -> dict[str, str]:
        """Return the page's Open Graph properties without `og:`, such as "title" and "image"."""
        return read_opengraph(self._tree(), self.base)

    def metadata(self) -> dict[str, str]:
        """Return title, description, canonical URL, language and similar, as far as the page has them."""
        return read_metadata(self._tree(), self.base)

    def table(self, selector: str = "table") -> list[dict[str, str]]:
        """Return the rows of the first table that matches, by the names of its columns."""
        raw = select_first(self._tree(), selector)
        return [] if raw is None else read_table(raw)

    def feed(self) -> dict[str, Any]:
        """Return the RSS, Atom or JSON feed that the page is: its title and entries; raises ParseFailed."""
        return read_feed(self.html, self.url, self._tree)

    def article(self) -> dict[str, Any]:
        """Return the title, author, date, language and main text of the page, without navigation."""
        return read_article(self._tree())

    def markdown(self, selector: str | None = None) -> str:
        """Return the first match as Markdown with absolute links; the main content of the page by default."""
        return read_markdown(self._tree(), self.base, selector)

    def follow(
        self,
        url: str | Node | None,
        step: Named | str | None = None,
        priority: int | None = None,
        *,
        key: str | None = None,
        partition: str | None = None,
        ttl: timedelta | str | None = None,
        delay: timedelta | str | None = None,
        method: str | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
        cookies: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        form: Mapping[str, Any] | None = None,
        json: Any = None,
        body: bytes | None = None,
        payload: Mapping[str, Any] = NOTHING,
        **more: Any,
    ) -> Task | None:
        """Return a task for a link of this page, for the same step unless you name another.

        `key` to `delay` are those of the task. Other keyword arguments become payload. Params are added to
        the URL. A form, JSON or bytes make the request a POST; cookies are sent like header fields, with this
        request only. Returns None for None and for anything that is not a web address; a step may yield None.
        """
        href = url.attr("href") if isinstance(url, Node) else url
        if params is not None and href is not None:
            href = add_params(self.urljoin(href), params)
        if not (method or headers or cookies or payload or more) and form is json is body is None:
            task = self._task(href, step, priority, NOTHING, None)
        else:
            options = RequestOptions.read(
                method=method, headers=headers, cookies=cookies, form=form, json=json, body=body
            )
            task = self._task(href, step, priority, merge_payload(payload, more), options)
        if task is None or key is partition is ttl is delay is None:
            return task
        return replace(
            task,
            key=key,
            partition=task.partition if partition is None else partition,
            ttl=None if ttl is None else read_positive_duration("ttl", ttl),
            delay=ZERO if delay is None else read_duration("delay", delay),
        )

    def post(self, url: str | Node | None, **options: Any) -> Task | None:
        """Return a task that sends a form, JSON or bytes; the options are those of `follow`.

        For a form of the page, pass its element: the URL is its action. The body is part of the task's
        identity, so the same URL may be sent any number of different bodies.
        """
        if sum(options.get(name) is not None for name in ("form", "json", "body")) != 1:
            raise InvalidInput("A POST sends a form, JSON or bytes: page.post(url, form={'q': …})")
        # A form without an action is sent to the page that contains it.
        href = (url.attr("action") or self.url) if isinstance(url, Node) else url
        return self.follow(href, **options)

    request = send_request

    def form(self, selector: str = "form") -> dict[str, Any]:
        """Return the fields of the first form that matches, as a browser would submit it unchanged.

        A name with several values gets a list.
        """
        raw = select_first(self._tree(), selector)
        if raw is None:
            return {}
        if raw.tag != "form":
            raise InvalidInput(f"page.form needs a form, and {shorten(selector)} selects <{raw.tag}>")
        fields: dict[str, list[str]] = {}
        for name, value in raw.form_data():
            fields.setdefault(name, []).append(value)
        return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}

    def download(
        self,
        url: str | Node | None,
        step: Named | str | None = None,
        *,
        path: str = DEFAULT_PATH,
        types: str | Sequence[str] = (),
        max_bytes: int | str = MAX_BYTES,
        headers: Mapping[str, str] = NO_HEADERS,
        payload: Mapping[str, Any] = NOTHING,
        **more: Any,
    ) -> Download | None:
        """Return the download of a file: yield it, or put it into an item, which then waits for its files.

        In an item it becomes the record of the file: url, path, sha256, size, type and status. A step gets it
        as `page.file`; other keyword arguments are its payload. Returns None for None and for anything that
        is not a web address.
        """
        href = (url.attr("src") or url.attr("href")) if isinstance(url, Node) else url
        target = self._find_target(href)
        if target is None:
            return None
        if given := TASK_OPTIONS & more.keys():
            raise InvalidInput(f"page.download has no option {min(given)!r}, which page.follow has")
        request = FileRequest(
            url=target,
            path=check_template(path),
            types=read_types(types),
            max_bytes=read_size("max_bytes", max_bytes),
            headers=dict(headers),
        )
        return Download(self.task, request, None if step is None else step_name(step), {**payload, **more})

    def _find_target(self, href: str | None) -> str | None:
        """Return the URL of a link; None for None, and for what is no web address, which is counted."""
        if href is None or href in self._links:
            return href
        try:
            return join(self.base, href)
        except InvalidUrl:
            self.dropped[NOT_A_LINK] += 1
            return None

    def _task(
        self,
        href: str | None,
        step: Named | str | None,
        priority: int | None,
        payload: Mapping[str, Any],
        options: RequestOptions | None,
    ) -> Task | None:
        target = self._find_target(href)
        if target is None:
            return None
        parent = self.task
        name = parent.step if step is None else step_name(step)
        rank = parent.priority if priority is None else priority
        return Task(
            url=target,
            step=name,
            payload=payload,
            partition=parent.partition,
            priority=rank,
            depth=parent.depth + 1,
            request=options,
        )

    @property
    def is_long(self) -> bool:
        """Whether parsing the page would block an event loop for too long; see `prepare`."""
        return len(self.body) > LONG and not self._is_json

    def prepare(self) -> None:
        """Parse the page now, in the calling thread; a failure is raised on first access instead."""
        with suppress(ParseFailed):
            self._tree()

    def __repr__(self) -> str:
        return f"<Page {self.status} {self.url}>"

    def __getattr__(self, name: str) -> Any:
        raise missing_attribute("Page", name)

    @property
    def _is_json(self) -> bool:
        return "json" in self.headers.get("content-type", "").lower()

    def _read(self) -> str:
        kind = self.headers.type
        if kind and not names_text(kind) and is_binary(self.body):
            raise ParseFailed(
                f"{shorten(self.url)} is {shorten(kind)}: it has bytes, and no text or elements. "
                "Use page.body, or store it: yield page.download(url)"
            )
        self._html, self._encoding = read_text(self.body, self.headers.get("content-type", ""))
        return self._html

    def _tree(self) -> "Document":
        if self._document is None:
            self._document = self._parse()
        return self._document

    def _parse(self) -> "Document":
        if self._failure is not None:
            raise ParseFailed(self._failure)
        try:
            return parse_html(self.html)
        except ParseFailed as failure:
            # Stored, so that the next access does not take as long again. Not the error itself: its traceback
            # refers to frames that refer to this page, and a page in a reference cycle stays in memory.
            self._failure = str(failure)
            raise

    def _find_base(self) -> str:
        if self._is_json:
            return self.url
        try:
            raw = self._tree().select_one("base[href]")
            return self.url if raw is None else join(self.url, raw.attr("href") or "")
        except (InvalidUrl, ParseFailed):
            return self.url

    def _parse_lenient_json(self) -> Any:
        # Another encoding, a byte order mark, NaN, half an emoji: all occur, and none is valid JSON.
        try:
            return json.loads(self.html)
        except (ValueError, RecursionError) as error:
            raise ParseFailed(f"{shorten(self.url)} is not JSON: {error}") from error


def make_page(
    content: str | bytes,
    task: Task,
    status: int,
    headers: Mapping[str, str],
    args: Any = None,
    resources: Any = None,
) -> Page:
    """Return a page that was never fetched; text is HTML in UTF-8 unless the headers say otherwise."""
    body = content.encode(errors="replace") if isinstance(content, str) else content
    fields = {"content-type": "text/html; charset=utf-8"} if isinstance(content, str) else {}
    fields |= headers
    response = Response(url=task.url or "", status=status, headers=Headers(fields.items()), body=body)
    return Page(response, task, args, resources)


def merge_payload(payload: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of a task from a mapping and keyword arguments; raises InvalidInput."""
    if more:
        refuse_options(more)
    if not isinstance(payload, Mapping):
        raise InvalidInput(f"payload must be names and values, got {shorten(repr(payload))}")
    return {**payload, **more}


def step_name(step: Named | str) -> str:
    """Return the name of a step that is given as a step or by name; raises InvalidInput."""
    name = step if isinstance(step, str) else getattr(step, "name", None)
    if isinstance(name, str):
        return name
    raise InvalidInput(f"step must be a step of the scraper or its name, got {shorten(repr(step))}")


ENOUGH_TEXT = 200  # characters; a page with as many has content
TOO_LITTLE_TEXT = 40  # characters; a page with fewer has none
ROOTS = "#root, #app, #__next, #__nuxt, #___gatsby, #svelte, #main-app, app-root, [data-reactroot], [ng-app]"
_JAVASCRIPT = re.compile(r"java\s?script", re.IGNORECASE)


def needs_javascript(page: Page, selector: str | None = None) -> bool:
    """Tell whether a page shows its content only after its scripts have run.

    With a CSS selector, the page needs JavaScript if nothing matches it; nothing else is checked.
    """
    if page.headers.type not in ("text/html", "application/xhtml+xml", ""):
        return False
    try:
        if selector:
            return page.css_first(selector) is None
        return _looks_empty(page)
    except ParseFailed:
        return False


def _looks_empty(page: Page) -> bool:
    if page.css_first("script") is None:
        return False
    text = _visible_text(page)
    if len(text) < TOO_LITTLE_TEXT:
        return True
    if len(text) >= ENOUGH_TEXT:
        return False
    mentions_js = any(_JAVASCRIPT.search(node.text()) for node in page.css("noscript"))
    roots = page.css(ROOTS)
    return mentions_js or (bool(roots) and not any(node.text().strip() for node in roots))


def _visible_text(page: Page) -> str:
    """Return the text of the body without hidden elements."""
    hidden = "ancestor-or-self::*[self::script or self::style or self::noscript or self::template]"
    found = page.xpath(f"//body//text()[not({hidden})]")
    return " ".join(" ".join(str(part) for part in found[:ENOUGH_TEXT]).split())
