"""A thread with a connection of its own: calls come in from the event loop, answers go back."""

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

MOST_AT_ONCE = 100


@dataclass(slots=True, eq=False)
class Call:
    """Something to be done in the thread, and where to send the answer."""

    act: Callable[[Store], Any]
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None

    def deliver(self) -> None:
        """Hand the answer to the caller, if it still waits."""
        if self.future.done():
            return
        if self.error:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class Clerk(Protocol):
    """What a desk's thread does: open a store, serve calls with it, close it."""

    def open(self) -> Store:
        """Return the store that this thread will use."""

    def serve(self, store: Store, calls: Sequence[Call]) -> None:
        """Do what the calls ask, and leave a result or an error in each."""

    def close(self, store: Store) -> None:
        """Give the store's connection back."""


class Desk:
    """One thread that serves calls, as many at once as have come in."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk
        self._inbox: SimpleQueue[Call | None] = SimpleQueue()
        self._opened: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._closed = False
        self._thread = threading.Thread(target=self._live, name=type(clerk).__name__, daemon=True)

    async def open(self) -> None:
        """Start the thread; raises what its opening raised."""
        self._thread.start()
        await _until(self._opened)

    async def call(self, act: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Have something done in the thread, and return its answer."""
        return await self.post(act, *args, **kwargs)

    def post(
        self, act: Callable[Concatenate[Store, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> asyncio.Future[T]:
        """Have something done in the thread; the answer will be in the future."""
        if self._closed:
            raise QueueError("The queue is closed. Open it again to go on.")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._inbox.put(Call(lambda store: act(store, *args, **kwargs), future))
        return future

    async def close(self) -> None:
        """Finish what has been asked, and end the thread."""
        if not self._closed:
            self._closed = True
            self._inbox.put(None)
        if self._thread.ident is not None:
            await _until(self._ended)
            self._thread.join()

    # In the thread

    def _live(self) -> None:
        try:
            store = self._clerk.open()
        except Exception as error:
            self._closed = True
            self._opened.set_exception(error)
            self._ended.set_result(None)
            return
        self._opened.set_result(None)
        try:
            while self._serve(store):
                pass
        finally:
            self._clerk.close(store)
            self._ended.set_result(None)

    def _serve(self, store: Store) -> bool:
        """Wait for calls and serve them; False when it is time to end."""
        taken = self._take()
        calls = [call for call in taken if call is not None and not call.future.cancelled()]
        try:
            self._clerk.serve(store, calls)
        except Exception as error:
            for call in calls:
                call.error = error
        _answer(calls)
        return None not in taken

    def _take(self) -> list[Call | None]:
        taken = [self._inbox.get()]
        while len(taken) < MOST_AT_ONCE and not self._inbox.empty():
            taken.append(self._inbox.get())
        return taken


def _answer(calls: Sequence[Call]) -> None:
    """Send the answers to their event loops, one message to each."""
    loops: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        loops.setdefault(call.future.get_loop(), []).append(call)
    for loop, answered in loops.items():
        with suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(_deliver, answered)


def _deliver(calls: Sequence[Call]) -> None:
    for call in calls:
        call.deliver()


async def _until(future: Future[None]) -> None:
    # Shielded: a caller that gives up must not cancel what the thread is about to set.
    await asyncio.shield(asyncio.wrap_future(future))
