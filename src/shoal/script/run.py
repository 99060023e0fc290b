"""Runs a scraper in the program that defines it: `run`, `run_sync` and `stream`."""

import asyncio
import signal
import sys
import threading
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, Self

import uvloop

from shoal.core.errors import InvalidInput
from shoal.core.text import printable
from shoal.core.values import counted
from shoal.export.follow import is_among
from shoal.fleet.run.inline_pool import InlinePool
from shoal.fleet.run.launch import Summary
from shoal.fleet.sources.seeds import Stream
from shoal.fleet.standard_streams import open_standard_streams
from shoal.scrape.load import is_loading
from shoal.scrape.scraper import Scraper
from shoal.script.options import RunOptions, named_as_keywords
from shoal.script.progress import ScriptProgress
from shoal.script.result import ItemDecoder, RunResult, read_result
from shoal.script.session import ScriptRun, open_script_run

MAX_AHEAD = 1_000  # items that are stored and that the program has not taken yet
READ_INTERVAL = timedelta(seconds=0.05)

OnOpen = Callable[[ScriptRun], object]


async def run(
    scraper: Scraper, urls: Stream | None, given: Mapping[str, Any], on_open: OnOpen | None = None
) -> RunResult:
    """Run a scraper, and return its items and everything that became of its pages."""
    check_not_loading()
    options = RunOptions.read(urls, given)
    progress = ScriptProgress(scraper.name, options.progress)
    closing = ""
    try:
        with named_as_keywords():
            async with open_script_run(scraper, options, progress) as opened:
                if on_open:
                    on_open(opened)
                summary = await opened.work()
                decode = ItemDecoder(opened.job.scraper).decode
                items = [decode(stored) async for stored in opened.queue.items(opened.run.id)]
                result = await _result(opened, summary, options, items)
        closing = str(result)
        return result
    finally:
        progress.close(closing)


def run_sync(scraper: Scraper, urls: Stream | None, given: Mapping[str, Any]) -> RunResult:
    """Run a scraper without an event loop of the caller's.

    The first Ctrl-C finishes the tasks in progress and returns what there is; the second hands them back and
    raises KeyboardInterrupt.
    """
    check_not_loading()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise InvalidInput(
            "run_sync starts an event loop, and one is running here already, as in a notebook. "
            f"Write: result = await {_variable(scraper)}.run(…)"
        )

    open_standard_streams()  # uvloop aborts the program if a socket gets one of their numbers
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        interrupts = Interrupts()

        async def work() -> RunResult:
            interrupts.begin()
            return await run(scraper, urls, given, interrupts.on_open)

        with interrupts.handled():
            try:
                return runner.run(work())
            except asyncio.CancelledError:
                if interrupts.count:
                    raise KeyboardInterrupt from None
                raise


class Interrupts:
    """Handles Ctrl-C while `run_sync` works."""

    def __init__(self) -> None:
        self.count = 0
        self._opened: ScriptRun | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def begin(self) -> None:
        """Remember the task to cancel, which is the running one."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()

    def on_open(self, opened: ScriptRun) -> None:
        """Remember the run to finish."""
        self._opened = opened

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle Ctrl-C inside the block, unless the program has a handler of its own."""
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, *_: object) -> None:
        self.count += 1
        if self._loop is None or self._task is None:
            raise KeyboardInterrupt
        if self.count == 1:
            self._loop.call_soon_threadsafe(self._finish)
        elif self._is_blocked or self.count > 2:
            _interrupt()
        else:
            self._loop.call_soon_threadsafe(self._task.cancel)

    @property
    def _is_blocked(self) -> bool:
        """Whether a step blocks the event loop, so that nothing else can be done about it."""
        pool = self._opened.pool if self._opened else None
        return isinstance(pool, InlinePool) and pool.is_in_step

    def _finish(self) -> None:
        assert self._task is not None
        in_hand = self._opened.finish() if self._opened else -1
        if in_hand < 0:
            self._task.cancel()  # nothing has been fetched yet
        else:
            tasks = counted(in_hand, "task")
            sys.stderr.write(f"\nFinishing {tasks}; press Ctrl-C again to stop at once.\n")


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


@dataclass(slots=True)
class StreamOutcome:
    """The result of a stream, once it has ended."""

    result: RunResult | None = None


class ItemStream:
    """The items of a run while it works: `async for item in quotes.stream([…])`.

    At most a thousand stored items wait for the program before its worker claims no more pages. Leaving the
    loop ends the run; inside `async with quotes.stream([…]) as items` it has ended when the block is left.
    """

    def __init__(self, scraper: Scraper, urls: Stream | None, given: Mapping[str, Any]) -> None:
        check_not_loading()
        self._scraper, self._options = scraper, RunOptions.read(urls, given)
        self._items: AsyncGenerator[Any, None] | None = None
        self._outcome = StreamOutcome()

    @property
    def result(self) -> RunResult | None:
        """The result, without the items; None before the last item."""
        return self._outcome.result

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._items is not None:
            raise InvalidInput("A stream can be read once. Call stream() again for another run")
        # It holds no reference to this stream, so a loop that is left closes it, not the next collection.
        self._items = _stream_items(self._scraper, self._options, self._outcome)
        return self._items

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._items is not None:
            await self._items.aclose()


stream = ItemStream


async def _stream_items(
    scraper: Scraper, options: RunOptions, outcome: StreamOutcome
) -> AsyncGenerator[Any, None]:
    progress = ScriptProgress(scraper.name, options.progress)
    cursor, closing = ItemCursor(), ""
    opened: ScriptRun | None = None

    def is_held() -> bool:
        return opened is not None and cursor.is_behind(opened)

    try:
        with named_as_keywords():
            async with open_script_run(scraper, options, progress, is_held=is_held) as opened:
                decode = ItemDecoder(opened.job.scraper).decode
                await cursor.begin(opened)
                working = asyncio.create_task(opened.work())
                try:
                    # Closed with this generator, so that no cursor of the queue outlives it.
                    async with aclosing(cursor.read(opened, working)) as stored:
                        async for one in stored:
                            yield decode(one)
                    summary = await working
                finally:
                    working.cancel()
                    await asyncio.wait([working])
                outcome.result = await _result(opened, summary, options, [])
                closing = str(outcome.result)
    finally:
        progress.close(closing)


class ItemCursor:
    """Reads the items of a run as they are stored, each once."""

    def __init__(self) -> None:
        self._seen = array("q")  # sorted ids, eight bytes per item
        self._before = 0  # items that the run had when the work began

    async def begin(self, opened: ScriptRun) -> None:
        """Count the items that a resumed run has already; call it before the work begins."""
        self._before = (await opened.queue.stats(opened.run.id)).items

    def is_behind(self, opened: ScriptRun) -> bool:
        """Return whether many items are stored that were not read yet."""
        stored = opened.pool.tally.items if opened.pool else 0
        return self._before + stored - len(self._seen) > MAX_AHEAD

    async def read(self, opened: ScriptRun, working: "asyncio.Task[Summary]") -> AsyncGenerator[Any, None]:
        """Yield the stored items until the work is done; those that a resumed run had before come first."""
        queue, run_id = opened.queue, opened.run.id
        while True:
            is_last = working.done()
            async for stored in queue.items(run_id, after=self._seen[-1] if self._seen else 0):
                self._seen.append(stored.id)
                yield stored
            if is_last:
                break
            await asyncio.wait([working], timeout=READ_INTERVAL.total_seconds())
        if working.cancelled() or working.exception():
            return
        if len(self._seen) < (await queue.stats(run_id)).items:
            # A Redis Cluster may add an item below a higher id.
            async for stored in queue.items(run_id):
                if not is_among(self._seen, stored.id):
                    yield stored


async def _result(opened: ScriptRun, summary: Summary, options: RunOptions, items: list[Any]) -> RunResult:
    notes, left = [], summary.snapshot.stats.remaining
    if left and options.queue is None:
        notes.append(
            "The queue was temporary, so what is left is lost. To be able to resume: queue='shoal.db'"
        )
    elif left:
        limit = opened.job.scraper.settings.max_pages
        more = f", resume={opened.run.id!r}, max_pages={2 * limit})" if limit else ")"
        notes.append(f"To go on: run(…, queue=…{more}; the run is {opened.run.id}.")
    return await read_result(opened.queue, summary, items=items, notes=notes)


def check_not_loading() -> None:
    """Raise InvalidInput in a file that is being imported, as by a worker: it would start a run again."""
    if is_loading():
        raise InvalidInput(
            "This file starts a run when it is imported, which workers do too. Put what starts it under: "
            'if __name__ == "__main__":'
        )


def _variable(scraper: Scraper) -> str:
    return printable(scraper.name) if scraper.name.isidentifier() else "scraper"
