"""Runs a scraper in the program that defines it: `run`, `run_sync` and `stream`."""

import asyncio
import signal
import sys
import threading
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Self

import msgspec
import uvloop

from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.core.model import Run, RunState
from shoal.core.text import printable
from shoal.core.values import counted
from shoal.export.follow import is_among
from shoal.fleet.command_hints import messages_on
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.run.feed import InvalidSeeds
from shoal.fleet.run.host import MakePool
from shoal.fleet.run.inline_pool import InlinePool, temporary_queue
from shoal.fleet.run.launch import Summary, launch
from shoal.fleet.run.open_run import OpenedRun, StartOptions, find_existing, lock_of, open_run
from shoal.fleet.run.pool import WorkerPool
from shoal.fleet.sources.seeds import Stream
from shoal.fleet.standard_streams import open_standard_streams
from shoal.fleet.status.find import NEWEST
from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from shoal.scrape.load import is_loading
from shoal.scrape.scraper import Scraper
from shoal.script.options import RunOptions, named_as_keywords
from shoal.script.progress import ScriptProgress
from shoal.script.result import ItemDecoder, RunResult, read_result

MAX_AHEAD = 1_000  # items that are stored and that the program has not taken yet
READ_INTERVAL = timedelta(seconds=0.05)
KILL_TIMEOUT = timedelta(seconds=5)  # for a cancelled run to hand back its tasks; then its workers are killed


class ScriptRun:
    """A run that is open; `work` carries it out."""

    def __init__(self, opened: OpenedRun, progress: ScriptProgress, make_pool: MakePool) -> None:
        self._opened, self._progress, self._make_pool = opened, progress, make_pool
        self.queue, self.job, self.run = opened.queue, opened.job, opened.run
        self.pool: WorkerPool | None = None

    async def work(self) -> Summary:
        """Enqueue and work until the run is drained or stopped; raises the error of workers that cannot work.

        If this is cancelled, the tasks in progress are handed back before it returns.
        """
        working = asyncio.create_task(self._launch())
        try:
            summary = await asyncio.shield(working)
        except asyncio.CancelledError:
            await self._abandon(working)
            raise
        if summary.ending.failed:
            raise ShoalError(f"The workers of run {self.run.id} have stopped: {summary.ending.failures[0]}")
        return summary

    def finish(self) -> int:
        """Finish the tasks in progress and stop; returns how many they are, or -1 if nothing has started."""
        if self.pool is None:
            return -1
        in_hand = self.pool.in_hand
        self.pool.stop()
        return in_hand

    async def _launch(self) -> Summary:
        def begin(pool: WorkerPool) -> None:
            self.pool = pool

        return await launch(self._opened, self._progress, on_pool=begin, make_pool=self._make_pool)

    async def _abandon(self, working: "asyncio.Task[Summary]") -> None:
        """Release what is leased and wait for the end, however often this is cancelled meanwhile."""
        if self.pool is None:
            working.cancel()
        while self.pool and self.pool.stops < 2 and not working.done():
            self.pool.stop()
        timer = asyncio.get_running_loop().call_later(KILL_TIMEOUT.total_seconds(), self._kill)
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError:
                self._kill()
        timer.cancel()
        if not working.cancelled():
            working.exception()  # the cancellation is what is raised

    def _kill(self) -> None:
        if self.pool:
            self.pool.stop()


@asynccontextmanager
async def open_script_run(
    scraper: Scraper,
    options: RunOptions,
    progress: ScriptProgress,
    *,
    is_held: Callable[[], bool] | None = None,
) -> AsyncIterator[ScriptRun]:
    """Create the run of a scraper, or find the one to resume; what it opens is closed at the end."""
    project = Project.find(Path.cwd())
    async with AsyncExitStack() as stack:
        url = options.queue or stack.enter_context(temporary_queue())
        if options.queue:
            stack.enter_context(messages_on(url))
        job = options.job(scraper, project, url)
        seeds = options.seeds(project, job)
        queue = await stack.enter_async_context(open_queue(url))
        existing = await _find_resumed(queue, job, options)
        if not seeds and not existing:
            partial_run = await _describe_partial(queue, job, options)
            raise InvalidInput(
                f"No URLs to start with. Write: {scraper.name}.run(['https://…']), "
                f"or Scraper({scraper.name!r}, start=['https://…']){partial_run}"
            )
        wanted = existing.id if existing else options.resumed_id
        start = StartOptions(
            run_id=wanted,
            resume=existing is not None,
            # The queue of this run alone needs no lock.
            lock=lock_of(queue, job, wanted) if options.queue else None,
            routes=project.routes,
            invalid=InvalidSeeds(options.on_invalid, on_source=progress.watch),
        )
        opened = await stack.enter_async_context(open_run(queue, job, seeds, start))
        if existing:
            left = (await queue.stats(opened.run.id)).remaining
            notice = " ".join([f"Resuming run {opened.run.id} with {left:,} tasks left.", *opened.notices])
            progress.on_message(notice)
        if scraper.login_function:
            scraper.args = opened.job.scraper.args  # the login function may read them there
        make_pool = partial(InlinePool, is_held=is_held) if options.workers is None else WorkerPool
        yield ScriptRun(opened, progress, make_pool)


async def _describe_partial(queue: Queue, job: Job, options: RunOptions) -> str:
    """Return how to go on with the newest run if it ended at a limit; empty if there is none."""
    runs = await queue.runs() if options.queue and options.resume is not False else []
    newest = next((run for run in runs if run.scraper == job.scraper.name), None)
    if newest is None or newest.state is not RunState.PARTIAL:
        return ""
    left = counted((await queue.stats(newest.id)).remaining, "task")
    again = f"resume={newest.id!r} and a larger limit"
    return f". Run {newest.id} ended, {newest.reason}, with {left} left. To go on with it: {again}"


async def _find_resumed(queue: Queue, job: Job, options: RunOptions) -> Run | None:
    """Return the run to go on with.

    In a queue that is kept, that is the scraper's newest unfinished one, unless `resume` says otherwise.
    Where others may work on it at the same time, it is resumed only if that was asked for.
    """
    if options.queue is None or options.resume is False:
        return None
    if options.resumed_id:
        return await find_existing(queue, job, options.resumed_id, resume=bool(options.resume))
    if options.resume == NEWEST:  # there must be one
        return await find_existing(queue, job, None, resume=True)
    if options.resume is None and job.scraper.settings.mode == "distributed":
        return None
    with suppress(InvalidSetting):
        return await find_existing(queue, job, None, resume=True)
    return None


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


class StreamOutcome(msgspec.Struct):
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
