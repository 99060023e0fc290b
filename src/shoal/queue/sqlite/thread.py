"""A thread that owns one SQLite connection: the event loop sends calls to it and gets results back."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from shoal.core.errors import QueueError
from shoal.queue.sqlite.store import Store

P = ParamSpec("P")
T = TypeVar("T")

MAX_BATCH = 100  # calls served together


@dataclass(slots=True, eq=False)
class ThreadCall:
    """A function to run in the thread, and the future for its result."""

    function: Callable[[Store], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None

    def deliver(self) -> None:
        """Set the result of the future, if the caller still waits."""
        if self.future.done():
            return
        if self.error:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class CallHandler(Protocol):
    """The work of a connection thread: open a store, serve calls with it, close it."""

    def open(self) -> Store:
        """Open the store that the thread uses."""

    def serve(self, store: Store, calls: Sequence[ThreadCall]) -> None:
        """Run the calls, and store a result or an error in each."""

    def close(self, store: Store) -> None:
        """Close the store's connection."""


class ConnectionThread:
    """One thread that serves calls; those that arrive meanwhile are served as one batch."""

    def __init__(self, handler: CallHandler) -> None:
        self._handler = handler
        self._inbox: SimpleQueue[ThreadCall | None] = SimpleQueue()
        self._opened: Future[None] = Future()
        self._stopped: Future[None] = Future()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=type(handler).__name__, daemon=True)

    async def open(self) -> None:
        """Start the thread; raises the exception of the handler's `open`."""
        self._thread.start()
        await _wait_for(self._opened)

    async def call(
        self, function: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function in the thread and return its result."""
        return await self.post(function, *args, **kwargs)

    def post(
        self, function: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Run a function in the thread; the future gets its result."""
        if self._closed:
            raise QueueError("The queue is closed. Open it again to continue.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._inbox.put(ThreadCall(lambda store: function(store, *args, **kwargs), future))
        return future

    async def close(self) -> None:
        """Finish the pending calls and stop the thread."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
        if self._thread.ident is not None:
            await _wait_for(self._stopped)
            self._thread.join()

    # In the thread

    def _run(self) -> None:
        try:
            store = self._handler.open()
        except Exception as error:
            self._closed = True
            self._opened.set_exception(error)
            self._stopped.set_result(None)
            return
        self._opened.set_result(None)
        try:
            while self._serve(store):
                pass
        finally:
            self._handler.close(store)
            self._stopped.set_result(None)

    def _serve(self, store: Store) -> bool:
        """Wait for calls and serve them; False when the thread should stop."""
        received = self._receive()
        calls = [call for call in received if call is not None and not call.future.cancelled()]
        try:
            self._handler.serve(store, calls)
        except Exception as error:
            for call in calls:
                call.error = error
        _send_results(calls)
        return None not in received

    def _receive(self) -> list[ThreadCall | None]:
        received = [self._inbox.get()]
        while len(received) < MAX_BATCH and not self._inbox.empty():
            received.append(self._inbox.get())
        return received


def _send_results(calls: Sequence[ThreadCall]) -> None:
    """Send the results to their event loops, one callback for each loop."""
    loops: dict[asyncio.AbstractEventLoop, list[ThreadCall]] = {}
    for call in calls:
        loops.setdefault(call.future.get_loop(), []).append(call)
    for loop, finished in loops.items():
        with suppress(RuntimeError):  # the loop is closed, so no caller waits
            loop.call_soon_threadsafe(_deliver, finished)


def _deliver(calls: Sequence[ThreadCall]) -> None:
    for call in calls:
        call.deliver()


async def _wait_for(future: Future[None]) -> None:
    # Shielded: a caller that is cancelled must not cancel the future that the thread will set.
    await asyncio.shield(asyncio.wrap_future(future))
