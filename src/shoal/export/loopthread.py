"""A loop in a thread of its own, for writers that are called without one and whose driver needs one."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class LoopThread:
    """Runs coroutines for callers that wait; the thread starts with the first of them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run to the end, and return what came of it."""
        return asyncio.run_coroutine_threadsafe(work, self._started()).result()

    def close(self) -> None:
        """End the thread."""
        if self._loop and self._thread:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()
        self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=self._name, daemon=True)
            self._thread.start()
        return self._loop
