"""Calls the hooks of a scraper for the tasks of a worker, within the time limit of a step."""

import asyncio
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import FrozenInstanceError, replace
from datetime import timedelta
from typing import Any

from shoal.core.errors import HookFailed, InvalidInput, StepEnded, StepTimeout
from shoal.core.failures import error_text, message_of
from shoal.core.http import Headers, Request, Response
from shoal.core.model import Bury, Outcome, Release, Retry, Run, Task
from shoal.core.request_options import RequestOptions
from shoal.core.tasks import call_if_slow, forget_cancellation
from shoal.core.urls import canonical, host_of
from shoal.fetch.deadlines import Deadlines
from shoal.queue.contract import Queue
from shoal.scrape.hooks import ErrorAction, ErrorDecision, FailedTask, Hook, OutgoingRequest, ScraperHooks
from shoal.scrape.scraper import Scraper
from shoal.worker.ipc.step_markers import StepMarkers

START_TIMEOUT = timedelta(minutes=4)  # of all `on_start` hooks
SLOW_START = timedelta(seconds=5)  # then the `on_start` hook that is running is named

log = logging.getLogger(__name__)


class HookCalls:
    """Calls the hooks of one scraper; a hook that hangs or ends the program costs its own task only."""

    def __init__(
        self,
        hooks: ScraperHooks,
        markers: StepMarkers,
        deadlines: Deadlines,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Call hooks; `is_stopping` says whether the worker itself cancels tasks at this moment."""
        self._hooks, self._markers, self._deadlines = hooks, markers, deadlines
        self._is_stopping = is_stopping

    @property
    def changes_requests(self) -> bool:
        """Whether a request or its response depends on hooks: then no page is looked up before its turn."""
        return bool(self._hooks.request or self._hooks.response)

    async def change_request(
        self, request: Request, task: Task, number: int, limit: timedelta
    ) -> Request | Response:
        """Return the request as the hooks change it, or the response that one of them gives instead."""
        method = "GET" if request.post is None else request.method
        draft = OutgoingRequest(request.url, dict(request.headers), request.post, task, method)
        is_changed = False
        for hook in self._hooks.request:
            result = await self._call(hook, draft, task, number, limit)
            if isinstance(result, Response):
                return _check_response(hook, result)
            if result is not None and result is not draft:
                _refuse(hook, result, "nothing, or request.answer(…) to answer without a request")
            if is_changed := not _is_same(draft, request, method):
                _check(hook, draft, request.url)
        if not is_changed:
            return request
        sent = _read_options(draft)
        return replace(
            request, url=canonical(draft.url), headers=draft.headers, post=sent.post, method=sent.method
        )

    async def change_response(
        self, response: Response, task: Task, number: int, limit: timedelta
    ) -> Response:
        """Return the response, or what a hook returns in its place."""
        for hook in self._hooks.response:
            try:
                result = await self._call(hook, response, task, number, limit)
            except FrozenInstanceError as error:
                advice = "A response is not changed in place: return dataclasses.replace(response, body=…)"
                raise InvalidInput(f"{hook}: {error}. {advice}") from error
            if isinstance(result, Response):
                response = _check_response(hook, result)
            elif result is not None:
                _refuse(hook, result, "nothing, or a response: dataclasses.replace(response, body=…)")
        return response

    async def decide(self, failed: FailedTask, number: int, limit: timedelta) -> ErrorDecision | None:
        """Return what the first hook that decides says about a failed task."""
        for hook in self._hooks.error:
            result = await self._call(hook, failed, failed.task, number, limit)
            if isinstance(result, ErrorDecision):
                return result
            if result is not None:
                _refuse(hook, result, "nothing, failed.retry(), failed.bury() or failed.release(after)")
        return None

    async def _call(self, hook: Hook, first: Any, task: Task, number: int, limit: timedelta) -> Any:
        markers = self._markers
        try:
            markers.set_loop(number)
            try:
                result = hook.call(first, task)
            finally:
                markers.set_loop(0)
            if result is not None and hasattr(result, "__await__"):
                result = await self._wait_for(hook, result, number, limit)
        except (Exception, KeyboardInterrupt):
            raise
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                if self._is_stopping():
                    raise
                await forget_cancellation()
            raise StepEnded(str(hook), error, is_hook=True) from error
        if is_cancelled() and not self._is_stopping():  # by the hook, which then went on
            await forget_cancellation()
            raise StepEnded(str(hook), asyncio.CancelledError(), is_hook=True)
        return result

    async def _wait_for(self, hook: Hook, result: Any, number: int, limit: timedelta) -> Any:
        deadline = self._deadlines.within(limit)
        try:
            with deadline:
                return await self._markers.run_marked(number, await_result(result))
        except TimeoutError as error:
            if not deadline.has_expired:
                raise
            raise StepTimeout(str(hook), limit.total_seconds(), is_hook=True) from error


async def await_result(result: Any) -> Any:
    """Return what a hook's awaitable gives: it need not be a coroutine."""
    return await result


def is_cancelled() -> bool:
    """Return whether this task was cancelled, rather than the user's code raising CancelledError itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def apply_decision(decision: ErrorDecision | None, usual: Retry | Bury, *, may_retry: bool) -> Outcome:
    """Return the outcome of a failed task: the usual one, or what a hook has decided."""
    match decision:
        case ErrorDecision(action=ErrorAction.BURY):
            return Bury(usual.lease, usual.error, **_what_follows(usual))
        case ErrorDecision(action=ErrorAction.RETRY, after=after) if may_retry:
            usual_delay = usual.after if isinstance(usual, Retry) else timedelta(0)
            delay = usual_delay if after is None else after
            return Retry(usual.lease, usual.error, after=delay, **_what_follows(usual))
        case ErrorDecision(action=ErrorAction.RELEASE, after=timedelta() as after):
            why = f"on_error released it after {error_text(usual.error)}"
            return Release(usual.lease, after=after, reason=why)
        case _:
            return usual


def _what_follows(usual: Retry | Bury) -> dict[str, Any]:
    """Return what an error means for its host and is kept of it, whatever becomes of its task."""
    return {"pause_host": usual.pause_host, "slow_host": usual.slow_host, "traceback": usual.traceback}


@asynccontextmanager
async def open_resources(
    scraper: Scraper,
    queue: Queue,
    run: Run,
    report: Callable[[str], None] = log.warning,
) -> AsyncIterator[None]:
    """Call the `on_start` hooks, and the `on_finish` hooks at the end; raises HookFailed.

    Resources have the worker's queue and run from the beginning.
    `report` is called in another thread with the name of a hook that takes long to start.
    """
    hooks = scraper.hooks
    scraper.resources.queue, scraper.resources.run = queue, run
    await call_all(hooks.start, START_TIMEOUT, report, scraper.resources)
    try:
        yield
    finally:
        try:
            await call_all(hooks.finish, hooks.finish_timeout, report, scraper.resources)
        except HookFailed as error:
            log.warning("%s", error)


async def call_all(
    hooks: Sequence[Hook], limit: timedelta, report: Callable[[str], None], *arguments: Any
) -> None:
    """Call hooks that belong to no task, one after the other, within a time; raises HookFailed."""
    at = asyncio.get_running_loop().time() + limit.total_seconds()
    for hook in hooks:
        try:
            with _named_if_slow(hook, limit, report):
                async with asyncio.timeout_at(at):
                    error = await _call_in_own_task(hook, *arguments)
        except TimeoutError as late:
            raise HookFailed(str(hook), f"it took longer than {limit.total_seconds():g} s") from late
        if error:
            reason = f"{type(error).__name__}: {message_of(error)}".removesuffix(": ")
            raise HookFailed(str(hook), reason) from error


async def _call_in_own_task(hook: Hook, *arguments: Any) -> BaseException | None:
    """Call a hook and return its error; if it cancels its task, this one goes on."""

    async def call() -> BaseException | None:
        try:
            await hook.call_async(*arguments)
        except BaseException as error:
            return error  # raised in a task, SystemExit would end the event loop
        return None

    context = contextvars.copy_context()
    task = asyncio.create_task(call(), context=context)
    try:
        await asyncio.wait([task])
    finally:
        if not task.done():  # this one is cancelled
            task.cancel()
            await asyncio.wait([task])
    for variable, value in context.items():  # what the hook has set is seen by the steps
        variable.set(value)
    return asyncio.CancelledError() if task.cancelled() else task.result()


@contextmanager
def _named_if_slow(hook: Hook, limit: timedelta, report: Callable[[str], None]) -> Iterator[None]:
    """Report a hook that takes long; from a thread, since it may block the event loop."""
    if limit <= SLOW_START:
        yield
        return
    text = (
        f"The hook {hook} has been running for {SLOW_START.total_seconds():g} s; nothing is scraped until it "
        f"returns. It fails after {limit.total_seconds():g} s, unless it blocks the event loop."
    )
    with call_if_slow(SLOW_START.total_seconds(), lambda: report(text)):
        yield


def _is_same(draft: OutgoingRequest, request: Request, method: str) -> bool:
    """Tell whether hooks have left a request as it was."""
    return (
        draft.url == request.url
        and draft.body is request.post
        and draft.method == method
        and draft.headers == request.headers
    )


def _check(hook: Hook, draft: OutgoingRequest, url: str) -> None:
    """Raise InvalidInput for a request that cannot be sent, or that belongs to another host's turn."""
    if draft.body is not None and not isinstance(draft.body, bytes):
        raise InvalidInput(f"{hook} set the body to a {type(draft.body).__name__}; it must be bytes or None")
    try:
        host = host_of(draft.url)
        _read_options(draft)
    except InvalidInput as error:
        raise InvalidInput(f"{hook} made a request that cannot be sent. {error}") from error
    if host != host_of(url):
        raise InvalidInput(
            f"{hook} changed the host of a request. A host has its own rate: yield page.follow(url) instead"
        )
    fields: dict[Any, Any] = dict(draft.headers)
    for name, value in fields.items():
        if not isinstance(name, str) or not isinstance(value, str) or not (name + value).isprintable():
            raise InvalidInput(f"{hook} set a header that cannot be sent: {name!r}; give it printable text")


def _check_response(hook: Hook, response: Response) -> Response:
    """Return the response of a hook; raises InvalidInput if a part of it has the wrong type."""
    parts: dict[str, tuple[Any, type]] = {
        "body": (response.body, bytes),
        "status": (response.status, int),
        "url": (response.url, str),
        "headers": (response.headers, Headers),
    }
    for name, (value, kind) in parts.items():
        if not isinstance(value, kind):
            raise InvalidInput(
                f"{hook} returned a response whose {name} is of type {type(value).__name__}; "
                f"it must be {kind.__name__}"
            )
    return response


def _read_options(draft: OutgoingRequest) -> RequestOptions:
    method = None if draft.method == "GET" else draft.method
    options = RequestOptions.read(method=method, headers=draft.headers, body=draft.body)
    return options or RequestOptions()


def _refuse(hook: Hook, result: Any, expected: str) -> None:
    raise InvalidInput(f"{hook} returned a value of type {type(result).__name__}; return {expected}")
