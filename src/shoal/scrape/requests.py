"""Requests that a step sends itself, and the fields of forms."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from shoal.core.errors import InvalidInput, InvalidUrl
from shoal.core.http import Response
from shoal.core.model import Task
from shoal.core.request_options import NO_HEADERS, RequestOptions, encode_fields
from shoal.core.tasks import is_in_loop
from shoal.core.text import shorten
from shoal.core.urls import canonical, join
from shoal.core.values import read_positive_duration
from shoal.scrape.node import Node

if TYPE_CHECKING:
    from shoal.scrape.page import Page

# Sends the request of a task, within a time if one is given, and returns the response whatever its status.
Send = Callable[[Task, timedelta | None], Awaitable[Response]]
# The same for a step without a page; it returns the response as a page.
SendForPage = Callable[[Task, timedelta | None], "Awaitable[Page]"]

_current: ContextVar[tuple[Task, SendForPage] | None] = ContextVar("the step without a page", default=None)


@contextmanager
def sending_without_page(task: Task, send: SendForPage) -> Iterator[None]:
    """Let the step of a task without a page send requests, while the context is open."""
    token = _current.set((task, send))
    try:
        yield
    finally:
        _current.reset(token)


def send_request(
    page: "Page",
    url: "str | Node",
    *,
    method: str | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    cookies: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    form: Mapping[str, Any] | None = None,
    json: Any = None,
    body: bytes | None = None,
    timeout: Any = None,
) -> "Awaitable[Page]":
    """Send a request from a step, and return its response as a page, whatever its status.

    It obeys the rate of its host, robots.txt, the proxies, sessions and limits of the run, and goes through
    its hooks. A task may be attempted twice, and then the request is sent twice.
    """
    _check_async("page.request")
    href = url if isinstance(url, str) else url.attr("href")
    options = RequestOptions.read(
        method=method, headers=headers, cookies=cookies, form=form, json=json, body=body
    )
    target = _find_target("page.request", lambda: join(page.base, href or ""), href, params)
    return _send(page, replace(page.task, url=target, request=options), _read_timeout(timeout))


def send_without_page(
    url: str,
    *,
    method: str | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
    cookies: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    form: Mapping[str, Any] | None = None,
    json: Any = None,
    body: bytes | None = None,
    timeout: Any = None,
) -> "Awaitable[Page]":
    """Send a request from a step with `fetch=None`, and return its response as a page, whatever its status.

    As `page.request`, with an absolute URL.
    """
    _check_async("scraper.request")
    step = _current.get()
    if step is None:
        raise InvalidInput(
            "scraper.request sends requests in a step with fetch=None, while it runs. In a step with a page: "
            "page.request. In a test: run_step(step, task, send=a function that returns a page)"
        )
    task, send = step
    options = RequestOptions.read(
        method=method, headers=headers, cookies=cookies, form=form, json=json, body=body
    )
    target = _find_target("scraper.request", lambda: canonical(url), url, params)
    return send(replace(task, url=target, request=options), _read_timeout(timeout))


def add_params(url: str, params: Mapping[str, Any]) -> str:
    """Return a URL with parameters; a list gives one for each entry, and None is left out."""
    if not isinstance(params, Mapping):
        raise InvalidInput("params must be names and values, such as params={'page': 2}")
    query = encode_fields("params", {name: value for name, value in params.items() if value is not None})
    if not query:
        return url
    bare, _, _ = url.partition("#")
    return f"{bare}{'&' if '?' in bare else '?'}{query}"


def _check_async(call: str) -> None:
    if not is_in_loop():
        raise InvalidInput(f"{call} needs a step that is defined with 'async def'. Write: await {call}(…)")


def _find_target(
    call: str, resolve: Callable[[], str], href: str | None, params: Mapping[str, Any] | None
) -> str:
    try:
        target = resolve()
        return canonical(add_params(target, params)) if params is not None else target
    except InvalidUrl as error:
        raise InvalidInput(f"{call} cannot send a request to {shorten(repr(href))}: {error}") from error


def _read_timeout(value: Any) -> timedelta | None:
    return None if value is None else read_positive_duration("timeout", value)


async def _send(page: "Page", task: Task, timeout: timedelta | None) -> "Page":
    response = await (page.send or _refuse)(task, timeout)
    sent = type(page)(response, task, page.args, page.resources)
    sent.send = page.send
    return sent


async def _refuse(task: Task, timeout: timedelta | None) -> Response:
    raise InvalidInput(
        "page.request sends requests in a run only. In a test: run_step(step, page, send=a function that "
        "returns a page)"
    )


CONTROLS = "input[name], select[name], textarea[name]"
NOT_SENT = frozenset({"button", "file", "image", "reset", "submit"})
IF_CHECKED = frozenset({"checkbox", "radio"})


def fields_of(form: Node) -> dict[str, Any]:
    """Return the names and values of a form; a name with several values gets a list."""
    fields: dict[str, list[str]] = {}
    for control in form.css(CONTROLS):
        name = control.attr("name")
        if name and control.attr("disabled") is None and (values := list(_values(control))):
            fields.setdefault(name, []).extend(values)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


def _values(control: Node) -> Iterator[str]:
    match control.tag:
        case "select":
            yield from _selected_values(control)
        case "textarea":
            yield str(control.xpath("string()")[0])
        case _:
            kind = (control.attr("type") or "text").lower()
            if kind in IF_CHECKED and control.attr("checked") is not None:
                yield _value(control, "on")
            elif kind not in IF_CHECKED | NOT_SENT:
                yield _value(control, "")


def _selected_values(select: Node) -> list[str]:
    options = [one for one in select.css("option") if one.attr("disabled") is None]
    chosen = [one for one in options if one.attr("selected") is not None]
    if select.attr("multiple") is None:
        # The last selected option counts; without any, the first option.
        chosen = chosen[-1:] or options[:1]
    return [_value(one, one.text()) for one in chosen]


def _value(node: Node, default: str) -> str:
    value = node.attr("value")
    return default if value is None else value
