"""Requests that a step sends itself."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from msgspec.structs import replace

from shoal.core.errors import InvalidInput, InvalidUrl
from shoal.core.http import Response
from shoal.core.model import Task
from shoal.core.request_options import RequestOptions, encode_fields
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

# Waits for the turn that a task without a page has at the host of its URL, and tells whether its step may
# send a request in it.
TakeTurn = Callable[[], Awaitable[bool]]


async def no_turn() -> bool:
    """Take the turn of a task that has none."""
    return False


class OwnStep(NamedTuple):
    """How a step with `fetch=None` that sends requests by other means keeps to the rules of its worker.

    It awaits `take_turn` for the first request to the host of its task; if that returns false, as it does
    from the second call on, the request has to wait for another turn: `HostTurns`.
    """

    take_turn: TakeTurn = no_turn
    suspend: Callable[[], AbstractContextManager[None]] = nullcontext  # what takes no time of the step
    count_bytes: Callable[[int], None] = lambda size: None  # of a response


NO_WORKER = OwnStep()


class _StepWithoutPage(NamedTuple):
    task: Task
    send: SendForPage
    own: OwnStep


_current: ContextVar[_StepWithoutPage | None] = ContextVar("the step without a page", default=None)


@contextmanager
def sending_without_page(task: Task, send: SendForPage, own: OwnStep = NO_WORKER) -> Iterator[None]:
    """Let the step of a task without a page send requests, while the context is open."""
    token = _current.set(_StepWithoutPage(task, send, own))
    try:
        yield
    finally:
        _current.reset(token)


def own_step() -> OwnStep:
    """Return what the step with `fetch=None` that runs now needs to send requests by other means."""
    step = _current.get()
    if step is None:
        raise InvalidInput("Only a step with fetch=None has a turn of its own, while it runs")
    return step.own


class RequestKeywords(TypedDict, total=False):
    """What a request of a step may have besides its URL."""

    method: str | None
    headers: Mapping[str, str]
    cookies: Mapping[str, str] | None
    params: Mapping[str, Any] | None
    form: Mapping[str, Any] | None
    json: Any
    body: bytes | None
    timeout: Any


def send_request(page: "Page", url: "str | Node", **given: Unpack[RequestKeywords]) -> "Awaitable[Page]":
    """Send a request from a step, and return its response as a page, whatever its status.

    It obeys the rate of its host, robots.txt, the proxies, sessions and limits of the run, and goes through
    its hooks. A task may be attempted twice, and then the request is sent twice.
    """
    _check_async("page.request")
    href = url if isinstance(url, str) else url.attr("href")
    return _send(page, *_read_request("page.request", page.task, page.base, href, given))


def send_without_page(url: str, **given: Unpack[RequestKeywords]) -> "Awaitable[Page]":
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
    task, send = step.task, step.send
    return send(*_read_request("scraper.request", task, None, url, given))


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


def _read_request(
    call: str, task: Task, base: str | None, href: str | None, given: RequestKeywords
) -> tuple[Task, timedelta | None]:
    """Return the task of a request, and its timeout; without a base the URL must be absolute."""
    fields: dict[str, Any] = {**given}
    params, timeout = fields.pop("params", None), fields.pop("timeout", None)
    options = RequestOptions.read(**fields)
    try:
        target = canonical(href or "") if base is None else join(base, href or "")
        if params is not None:
            target = canonical(add_params(target, params))
    except InvalidUrl as error:
        raise InvalidInput(f"{call} cannot send a request to {shorten(repr(href))}: {error}") from error
    limit = None if timeout is None else read_positive_duration("timeout", timeout)
    return replace(task, url=target, request=options), limit


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
