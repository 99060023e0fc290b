"""The keeper of one worker: another process, which keeps its leases alive and hands them back if it dies.

A step may block its process for an hour, crash it, or take all its memory. So the heartbeats come from here,
and here the task which did it is charged an attempt, while all others go back as if never claimed.
"""

import asyncio
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from shoal.core.errors import QueueError
from shoal.core.events import Event
from shoal.core.model import Bury, Fate, Lease, Outcome, Release, Retry
from shoal.queue.contract import Queue
from shoal.worker.condition import Condition
from shoal.worker.line import (
    LONGEST_LINE,
    STOP,
    Ended,
    Failed,
    Gone,
    News,
    Order,
    Progress,
    Told,
    Took,
    read_news,
    write_order,
)
from shoal.worker.marks import Marks, make_file
from shoal.worker.nursery import Nursery, WorkerProcess, read_pipe
from shoal.worker.tally import Tally

BEAT_EVERY = 5.0
LOOK_EVERY = 0.5  # how often a step's time is looked at
MOST_LOST_THREADS = 8


@dataclass(slots=True)
class Ending:
    """How a worker ended."""

    reason: str  # "drained", "stopped", "budget", "failed", "died"
    message: str = ""
    blamed: int = 0  # tasks that were charged with its death
    settled: int = 0  # tasks that it came to an end with
    tally: Tally = field(default_factory=Tally)
    last_lines: list[str] = field(default_factory=list)  # of what it wrote


class StepLimit(NamedTuple):
    """How long a step may take, and how often it is tried."""

    time: timedelta
    attempts: int


class Keeper:
    """Starts one worker process and looks after it until it has ended."""

    def __init__(
        self,
        queue: Queue,
        order: Order,
        nursery: Nursery,
        *,
        limits: Mapping[str, StepLimit],
        on_output: Callable[[str], None] = lambda line: None,
        on_told: Callable[[Event], None] = lambda event: None,
    ) -> None:
        self.order, self.tally = order, Tally()
        self.in_hand: dict[int, Lease] = {}
        self._settled = 0
        self._queue, self._nursery, self._on_output = queue, nursery, on_output
        self._on_told, self._condition = on_told, Condition(order)
        self._last_lines: deque[str] = deque(maxlen=20)
        self._limits = limits
        self._longest = max(limit.time for limit in limits.values())
        self._ending: Ending | None = None
        self._process: WorkerProcess | None = None
        self._hung = False
        self._writer: asyncio.StreamWriter | None = None
        self._stops = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return self._process.pid if self._process else None

    @property
    def is_manned(self) -> bool:
        """Whether the worker's process is there; when it has ended, its leases are still to be settled."""
        return self._process is not None and not self._process.has_ended

    def stop(self) -> None:
        """Ask the worker to stop; the second time it hands back everything at once."""
        self._stops += 1
        if self._writer:
            self._writer.write(STOP)

    def kill(self) -> None:
        """End the worker now; its leases are handed back from here."""
        if self._process:
            self._process.kill()

    async def run(self) -> Ending:
        """Start the worker and return how it ended, its leases settled or handed back."""
        file = make_file()
        marks = Marks(file)
        try:
            code = await self._attend(file, marks)
            return await self._close(code, marks)
        finally:
            self.kill()
            marks.close()
            os.close(file)

    async def _attend(self, file: int, marks: Marks) -> int | None:
        """Let a worker be born, listen to it until it has ended, and return its exit code."""
        ours, theirs = socket.socketpair()
        output, says = os.pipe()
        reading = asyncio.create_task(self._read_output(output))
        try:
            self._process = await self._nursery.bear(theirs.fileno(), file, says)
        finally:
            theirs.close()
            os.close(says)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        self._writer.write(write_order(self.order) + STOP * self._stops)
        duties = [self._extend(), self._beat(), self._watch(marks)]
        tasks = [reading, *map(asyncio.create_task, duties)]
        try:
            await self._listen(reader)
            code = await self._process.wait()
            # A process that the worker left behind may hold its output open.
            await asyncio.wait([reading], timeout=1.0)
            return code
        finally:
            for task in tasks:
                task.cancel()
            self._writer.close()

    async def _read_output(self, output: int) -> None:
        reader, pipe = await read_pipe(output)
        try:
            while piece := await _line_of(reader):
                line = piece.decode(errors="replace").rstrip()
                self._last_lines.append(line)
                self._on_output(line)
        finally:
            pipe.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while (news := await read_news(reader)) is not None:
                self._hear(news)

    def _hear(self, news: News) -> None:
        match news:
            case Took(first=first, leases=leases):
                self.in_hand.update(enumerate(leases, first))
            case Gone(numbers=numbers):
                self._settled += len(numbers)
                for number in numbers:
                    self.in_hand.pop(number, None)
            case Progress(tally=tally):
                self.tally = tally
            case Told(event=event):
                self._on_told(event)
            case Ended(reason=reason):
                self._ending = Ending(reason)
            case Failed(message=message):
                self._ending = Ending("failed", message)

    async def _extend(self) -> None:
        while True:
            await asyncio.sleep(self.order.lease.total_seconds() / 3)
            leases = list(self.in_hand.values())
            with suppress(QueueError):
                await self._queue.extend(leases, lease=self.order.lease)

    async def _beat(self) -> None:
        while True:
            await self._beat_once("running")
            await asyncio.sleep(BEAT_EVERY)

    async def _beat_once(self, state: str) -> None:
        info = self._condition.info(self.pid, self.tally, time.monotonic())
        if self.order.sharing:
            info["sharing"] = self.order.sharing.mode
        with suppress(QueueError):
            await self._queue.beat(self.order.worker_id, run_id=self.order.run_id, state=state, info=info)

    async def _watch(self, marks: Marks) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            late = time.monotonic() - 2 * LOOK_EVERY
            hung = [mark for mark in marks.running() if mark.since + self._seconds(mark.number) < late]
            # A step in a thread was given up by the worker itself; its thread is lost, and some may be.
            blocking = [mark for mark in hung if mark.number in self.in_hand]
            if blocking or len(hung) > MOST_LOST_THREADS:
                self._hung = True
                self.kill()

    def _seconds(self, number: int) -> float:
        """Return how long the step of a lease may take; the longest, where the lease is no longer in hand."""
        lease = self.in_hand.get(number)
        limit = self._limits.get(lease.task.step) if lease else None
        return (limit.time if limit else self._longest).total_seconds()

    async def _close(self, code: int | None, marks: Marks) -> Ending:
        ending = self._ending or Ending("died", _how(code))
        outcomes = self._handed_back(ending.message, marks)
        if outcomes:
            with suppress(QueueError):
                fates = await self._queue.settle(outcomes)
                ending.blamed = sum(
                    isinstance(outcome, Retry | Bury) and fate is Fate.ACCEPTED
                    for outcome, fate in zip(outcomes, fates, strict=True)
                )
        if not self.order.at_most_once:
            with suppress(QueueError):
                # What it claimed and could not tell any more.
                await self._queue.abandon(self.order.worker_id)
        ending.tally, ending.settled = self.tally, self._settled
        ending.last_lines = list(self._last_lines)
        await self._beat_once("ended" if self._ending else "died")
        return ending

    def _handed_back(self, how: str, marks: Marks) -> list[Outcome]:
        guilty = {mark.number for mark in marks.running()}
        if self.order.at_most_once:
            # Nobody can tell which pages were asked for.
            error = f"WorkerDied: the worker {how}, and this task is tried once at most"
            return [Bury(lease, error) for lease in self.in_hand.values()]
        return [
            self._charged(number, lease, how) if number in guilty else Release(lease)
            for number, lease in self.in_hand.items()
        ]

    def _charged(self, number: int, lease: Lease, how: str) -> Outcome:
        limit = self._limits.get(lease.task.step)
        error = self._charge(number, lease, how)
        # The queue knows the most that any step is tried, not what this one is.
        return Bury(lease, error) if limit and lease.attempt >= limit.attempts else Retry(lease, error)

    def _charge(self, number: int, lease: Lease, how: str) -> str:
        if self._hung:
            seconds = self._seconds(number)
            return f"StepHung: step {lease.task.step!r} did not come to an end in {seconds:g} s"
        return f"WorkerDied: step {lease.task.step!r} was running when its worker {how}"


async def _line_of(reader: asyncio.StreamReader) -> bytes:
    """Return the next line; of one that is too long to hold only that it came. Empty at the end."""
    try:
        return await reader.readline()
    except ValueError:
        return b"(a line that is too long to show)\n"


def _how(code: int | None) -> str:
    if code is None:
        return "vanished"
    if code >= 0:
        return f"left with exit code {code}"
    return f"was ended by {signal.Signals(-code).name}"
