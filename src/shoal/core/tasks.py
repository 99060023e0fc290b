"""Background asyncio tasks that nothing awaits: their errors are reported. Some only repeat an exchange."""

import asyncio
import inspect
import random
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

from shoal.core.errors import DutyFailed, QueueError

T = TypeVar("T")

WATCHED = "shoal_watched"  # key in the context of a reported error
JITTER = 0.2  # of an interval: workers that were started together must not act all at once
TIMER_ERROR = 0.0005  # seconds: uvloop rounds its timers to milliseconds
MIN_WAIT, MAX_WAIT = 1.0, 30.0  # seconds before a failed background task is restarted


def watched(task: asyncio.Task[T]) -> asyncio.Task[T]:
    """Report the error of a task to the loop's exception handler as soon as it fails; return the task.

    Without a custom handler, the loop logs it. A worker ends with it, and so does a command, by `supervise`.
    """
    task.add_done_callback(_report)
    return task


def exact_time() -> float:
    """Return the monotonic time in seconds; uvloop's own is cut to whole milliseconds."""
    return time.monotonic()


def call_at(moment: float, callback: Callable[[], object]) -> asyncio.TimerHandle:
    """Call back at a moment of `exact_time`, give or take `TIMER_ERROR`."""
    return asyncio.get_running_loop().call_later(max(0.0, moment - exact_time()), callback)


async def in_daemon_thread(name: str, function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns that may hang: its thread delays neither a cancellation nor the exit."""
    result = Future[T]()
    result.set_running_or_notify_cancel()  # so that the thread may set its result, awaited or not

    def work() -> None:
        try:
            result.set_result(function(*arguments))
        except StopIteration as ended:  # which a future of asyncio cannot hold
            result.set_exception(RuntimeError(f"it raised {ended!r}"))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await asyncio.wrap_future(result)


async def call_function(function: Callable[[], Any]) -> Any:
    """Return what a function of the user's returns, in a thread unless it is an `async def`."""
    if inspect.iscoroutinefunction(function):
        return await function()
    found = await asyncio.to_thread(function)
    return await found if inspect.isawaitable(found) else found


@contextmanager
def call_if_slow(seconds: float, callback: Callable[[], object]) -> Iterator[None]:
    """Call back if the block takes longer; from a thread, since it may block the event loop."""
    timer = threading.Timer(seconds, callback)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, for at most this long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def iterate(stream: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    """Yield from an iterable of either kind."""
    if isinstance(stream, AsyncIterable):
        async for one in stream:
            yield one
    else:
        for one in stream:
            yield one


def start_in(tasks: set[asyncio.Task[T]], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start a task that `tasks` holds until it ends: the event loop alone would not keep it alive."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


def is_in_loop() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def forget_cancellation() -> None:
    """Forget that this task was cancelled, whether it has noticed it or not."""
    task = asyncio.current_task()
    if task and task.cancelling():
        while task.uncancel():
            pass
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)  # where one that is still pending is raised


async def supervise(work: Awaitable[T]) -> T:
    """Return the result of `work`; if a watched task fails meanwhile, cancel it and raise DutyFailed."""
    loop, owner = asyncio.get_running_loop(), asyncio.current_task()
    before, failed = loop.get_exception_handler(), list[dict[str, Any]]()
    assert owner is not None

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if WATCHED not in context:
            (before or type(loop).default_exception_handler)(loop, context)
        elif not failed:
            failed.append(context)
            owner.cancel()

    loop.set_exception_handler(handle)
    try:
        result = await work
    except asyncio.CancelledError:
        if not failed or owner.uncancel() > 0:
            raise
    finally:
        loop.set_exception_handler(before)
    for context in failed:
        error = context["exception"]
        raise DutyFailed(name_of(context["task"]), error) from error
    return result


async def restarted(name: str, duty: Callable[[], Awaitable[object]], say: Callable[[str], object]) -> None:
    """Run a background task to its end; when it fails, report it by name and restart it after a delay."""
    wait = MIN_WAIT
    while True:
        try:
            await duty()
            return
        except Exception as error:
            say(f"{DutyFailed(name, error)}. Trying again in {wait:g} s.")
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_WAIT)


async def repeat(
    exchange: Callable[[], Awaitable[object]],
    interval: timedelta,
    *,
    jitter: float = JITTER,
    at_once: bool = False,
) -> None:
    """Call `exchange` periodically until cancelled; what a queue error prevents is left to the next time.

    Any other error is raised: start it as a background task that is supervised. With `at_once`, the first
    call does not wait for the interval.
    """
    seconds = interval.total_seconds()
    is_due = at_once
    while True:
        if is_due:
            with suppress(QueueError):
                await exchange()
        await asyncio.sleep(seconds * random.uniform(1 - jitter, 1 + jitter))
        is_due = True


async def exchange_last(exchange: Callable[[], Awaitable[object]], timeout: timedelta) -> None:
    """Call `exchange` once more at the end, unless the queue is away or does not reply in time."""
    with suppress(QueueError, TimeoutError):
        async with asyncio.timeout(timeout.total_seconds()):
            await exchange()


def name_of(task: asyncio.Task[Any]) -> str:
    """Return the name of a task, by default that of its coroutine."""
    name = task.get_name()
    return name if not name.startswith("Task-") else getattr(task.get_coro(), "__qualname__", name)


def _report(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if error:
        message = f"Background task failed: {name_of(task)}"
        context = {"message": message, "exception": error, "task": task, WATCHED: True}
        task.get_loop().call_exception_handler(context)


async def first(source: AsyncIterator[T], limit: int) -> AsyncIterator[T]:
    """Yield the first `limit` entries and stop reading there."""
    count = 0
    async for entry in source:
        yield entry
        count += 1
        if count >= limit:
            return
