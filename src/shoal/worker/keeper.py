"""The keeper of one worker: another process, which keeps its leases alive and hands them back if it dies.

A step may block its process for an hour, crash it, or take all its memory. So the heartbeats come from here,
and here the task which did it is charged an attempt, while all others go back as if never claimed.
"""

import asyncio
import os
import random
import signal
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from shoal.core.errors import DutyFailed, QueueError
from shoal.core.events import Event
from shoal.core.model import SECOND, Bury, Fate, Lease, Outcome, Release, Retry
from shoal.core.verdict import RetryPolicy
from shoal.queue.contract import Queue
from shoal.worker.condition import Condition
from shoal.worker.duties import failure_of
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
from shoal.worker.liveness import LOOK_EVERY, Liveness, Look, Trouble
from shoal.worker.marks import Marks, make_file
from shoal.worker.nursery import Nursery, WorkerProcess, read_pipe
from shoal.worker.procfs import STOPPED, pid_scope, state_of_process
from shoal.worker.release import ONCE, release_leases
from shoal.worker.tally import Tally

RUNNING, FROZEN = "running", "frozen"  # what heartbeats say
BEAT_EVERY = 5.0
EXTEND_AGAIN, LONGEST_EXTEND_WAIT = 0.2, 2.0  # seconds after an extension that failed, at first and at most
CLOSE_TIMEOUT = 10.0  # seconds that a worker has to close what it used, once all its leases are settled
KILL_TIMEOUT = 5.0  # seconds; a process may be unkillable while its disk does not respond

AFTER_DEATH = RetryPolicy(base=2 * SECOND)


@dataclass(slots=True)
class Ending:
    """How a worker ended."""

    reason: str  # "drained", "stopped", "budget", "failed", "died"
    message: str = ""
    blamed: frozenset[str] = frozenset()  # tasks that were charged with its death
    killers: frozenset[str] = frozenset()  # those among them whose step was running
    settled: int = 0  # tasks that it came to an end with
    tally: Tally = field(default_factory=Tally)
    last_lines: list[str] = field(default_factory=list)  # of what it wrote


class StepLimit(NamedTuple):
    """How long a step and its whole task may take, how often it is tried, and whether once at most."""

    time: timedelta
    attempts: int
    whole: timedelta | None = None  # fetching and pausing included; None for as long as it takes
    at_most_once: bool = False


def once_steps(limits: Mapping[str, StepLimit]) -> list[str]:
    """Return the steps whose tasks are tried once at most."""
    return sorted(name for name, limit in limits.items() if limit.at_most_once)


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
        self._settled, self._done = 0, 0
        self._queue, self._nursery, self._on_output = queue, nursery, on_output
        self._on_told, self._condition = on_told, Condition(order)
        self._last_lines: deque[str] = deque(maxlen=20)
        self._limits, self._once = limits, once_steps(limits)
        self._longest = max(limit.time for limit in limits.values())
        self._liveness = Liveness.within(order.lease, self._seconds)
        self._taken: dict[int, float] = {}  # when each lease came, by the time that the keeper was awake
        self._moved = 0.0  # when one was settled last
        self._can_extend = True
        self._trouble: Trouble | None = None
        self._changed_state = asyncio.Event()
        self._is_ending, self._is_killed = asyncio.Event(), asyncio.Event()
        self._ending: Ending | None = None
        self._failure: DutyFailed | None = None
        self._process: WorkerProcess | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._stops = 0

    @property
    def pid(self) -> int | None:
        """The worker's process id."""
        return self._process.pid if self._process else None

    @property
    def completed(self) -> int:
        """How many tasks the worker has completed."""
        return self._done

    @property
    def is_manned(self) -> bool:
        """Whether the worker's process is there; when it has ended, its leases are still to be settled."""
        return self._process is not None and not self._process.has_ended

    def stop(self) -> None:
        """Ask the worker to stop; the second time it hands back everything at once."""
        self._stops += 1
        if self._writer and not self._writer.is_closing():
            self._writer.write(STOP)

    def kill(self) -> None:
        """End the worker now; its leases are handed back from here."""
        self._is_ending.set()
        self._is_killed.set()
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
        """Start a worker, look after it until it has ended, and return its exit code."""
        ours, theirs = socket.socketpair()
        output, says = os.pipe()
        reading = asyncio.create_task(self._read_output(output), name="reading its output")
        try:
            self._process = await self._nursery.bear(theirs.fileno(), file, says)
        except BaseException:
            reading.cancel()
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(says)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=LONGEST_LINE)
        self._writer.write(write_order(self.order) + STOP * self._stops)
        listening = _duty("listening to it", self._listen(reader))
        duties = [
            listening,
            reading,
            _duty("extending its leases", self._extend()),
            _duty("sending its heartbeats", self._beat()),
            _duty("watching its steps", self._watch(marks)),
            _duty("ending it", self._bound_its_end()),
        ]
        try:
            await self._supervise(listening, duties)
            code = await self._exit_code()
            # A process that the worker left behind may hold its output open.
            await asyncio.wait([reading], timeout=1.0)
            return code
        finally:
            for task in duties:
                task.cancel()
            self._writer.close()

    async def _supervise(self, listening: asyncio.Task[None], duties: list[asyncio.Task[None]]) -> None:
        """Wait for the worker's end. A duty that fails ends the worker, for it would lack it from then on."""
        pending = set(duties)
        while listening in pending:
            patience = KILL_TIMEOUT if self._is_killed.is_set() else None
            ended, pending = await asyncio.wait(
                pending, timeout=patience, return_when=asyncio.FIRST_COMPLETED
            )
            if not ended:
                return  # what cannot be killed cannot settle anything either
            for task in ended:
                if error := failure_of(task):
                    self._duty_failed(task.get_name(), error)

    async def _bound_its_end(self) -> None:
        """Kill a worker that has said its last word and does not end; return when it was killed."""
        await self._is_ending.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._is_killed.wait()
        self.kill()

    def _duty_failed(self, name: str, error: BaseException) -> None:
        self._failure = self._failure or DutyFailed(name, error)
        self._last_lines.extend("".join(traceback.format_exception(error)).splitlines()[-10:])
        self.kill()

    async def _exit_code(self) -> int | None:
        assert self._process
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_TIMEOUT):
                return await self._process.wait()
        return None

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
                self._taken.update((first + place, self._liveness.awake) for place in range(len(leases)))
            case Gone(numbers=numbers, done=done):
                self._settled, self._done = self._settled + len(numbers), self._done + done
                self._moved = self._liveness.awake
                for number in numbers:
                    self.in_hand.pop(number, None)
                    self._taken.pop(number, None)
            case Progress(tally=tally):
                self.tally = tally
            case Told(event=event):
                self._on_told(event)
            case Ended(reason=reason):
                self._ending = Ending(reason)
                self._is_ending.set()
            case Failed(message=message):
                self._ending = Ending("failed", message)
                self._is_ending.set()

    async def _extend(self) -> None:
        wait, again = self.order.lease.total_seconds() / 3, EXTEND_AGAIN
        while self._trouble is None:
            await asyncio.sleep(wait if self._can_extend else again)
            try:
                await self._queue.extend(list(self.in_hand.values()), lease=self.order.lease)
            except QueueError:
                # The leases run out meanwhile: there is no time for another third of them.
                again = min(2 * again, LONGEST_EXTEND_WAIT) if not self._can_extend else EXTEND_AGAIN
                self._can_extend = False
            else:
                self._can_extend = True

    async def _beat(self) -> None:
        while True:
            self._changed_state.clear()
            await self._beat_once(FROZEN if self._liveness.is_silent else RUNNING)
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_EVERY):
                    await self._changed_state.wait()

    async def _beat_once(self, state: str) -> None:
        info = self._condition.info(self.pid, self.tally, time.monotonic(), len(self.in_hand))
        info["pid_scope"] = pid_scope()
        if self.order.sharing:
            info["sharing"] = self.order.sharing.mode
        if self._once:
            info["at_most_once"] = self._once
        with suppress(QueueError):
            await self._queue.beat(self.order.worker_id, run_id=self.order.run_id, state=state, info=info)

    async def _watch(self, marks: Marks) -> None:
        while True:
            was_silent = self._liveness.is_silent
            is_stopped = self.pid is not None and state_of_process(self.pid) in STOPPED
            look = Look(time.monotonic(), marks.beats(), marks.running(), is_stopped)
            self._trouble = self._liveness.judge(look) or (Trouble.STUCK if self._stuck() else None)
            if self._trouble:
                self.kill()
                return
            if self._liveness.is_silent != was_silent:
                self._changed_state.set()
            await asyncio.sleep(LOOK_EVERY)

    def _stuck(self) -> list[int]:
        """Return the leases that are over their time, if none was settled for as long."""
        # While the queue is away nothing can be settled.
        if not self._can_extend:
            return []
        return [number for number, lease in self.in_hand.items() if self._is_stuck(number, lease)]

    def _is_stuck(self, number: int, lease: Lease) -> bool:
        limit = self._limits.get(lease.task.step)
        if limit is None or limit.whole is None:
            return False
        allowed = limit.whole + self.order.lease
        began = self._taken.get(number, self._liveness.awake) + lease.start_in.total_seconds()
        return self._liveness.awake - max(began, self._moved) > allowed.total_seconds()

    def _seconds(self, number: int) -> float:
        """Return how long the step of a lease may take; the longest, where the lease is no longer in hand."""
        lease = self.in_hand.get(number)
        limit = self._limits.get(lease.task.step) if lease else None
        return (limit.time if limit else self._longest).total_seconds()

    async def _close(self, code: int | None, marks: Marks) -> Ending:
        ending = self._ending or Ending("died", self._how(code))
        guilty = self._guilty(marks)
        ending.killers = frozenset(self.in_hand[number].task_id for number in guilty)
        outcomes = self._handed_back(ending.message, guilty)
        if outcomes:
            with suppress(QueueError):
                fates = await self._queue.settle(outcomes)
                ending.blamed = frozenset(
                    outcome.lease.task_id
                    for outcome, fate in zip(outcomes, fates, strict=True)
                    if isinstance(outcome, Retry | Bury) and fate is Fate.ACCEPTED
                )
        with suppress(QueueError):
            # What it claimed and could not tell any more.
            how = ending.message or "ended"
            await release_leases(self._queue, self.order.worker_id, once=self._once, how=how)
        ending.tally, ending.settled = self.tally, self._settled
        ending.last_lines = list(self._last_lines)
        await self._beat_once("ended" if self._ending else "died")
        return ending

    def _how(self, code: int | None) -> str:
        """Return how the worker died, as the rest of a sentence that begins with it."""
        if self._failure:
            return f"was killed, because {self._failure}"
        match self._trouble:
            case Trouble.FROZEN:
                return f"was killed, because it was frozen for {self._liveness.silence:.0f} s"
            case Trouble.HUNG:
                return "was killed, because a step did not come to an end in its time"
            case Trouble.STUCK:
                return "was killed, because a task did not come to an end in its time"
            case None:
                return _how(code)

    def _guilty(self, marks: Marks) -> set[int]:
        """Return the leases in hand whose step was running, or that did not come to an end."""
        running = {mark.number for mark in marks.running()}
        stuck = self._stuck() if self._trouble is Trouble.STUCK else []
        return running.union(stuck) & self.in_hand.keys()

    def _handed_back(self, how: str, guilty: Collection[int]) -> list[Outcome]:
        return [self._outcome(number, lease, how, guilty) for number, lease in self.in_hand.items()]

    def _outcome(self, number: int, lease: Lease, how: str, guilty: Collection[int]) -> Outcome:
        limit = self._limits.get(lease.task.step)
        if limit and limit.at_most_once:
            # Nobody can tell which pages were asked for.
            return Bury(lease, f"WorkerDied: the worker {how}, and {ONCE}")
        return self._charged(number, lease, how) if number in guilty else Release(lease)

    def _charged(self, number: int, lease: Lease, how: str) -> Outcome:
        limit = self._limits.get(lease.task.step)
        error = self._charge(number, lease, how)
        # The queue knows the most that any step is tried, not what this one is.
        if limit and lease.attempt >= limit.attempts:
            return Bury(lease, error)
        # The next worker is to begin with another task, and to learn whether that kills it as well.
        return Retry(lease, error, after=AFTER_DEATH.backoff(lease.attempt, random.uniform(0.5, 1.0)))

    def _charge(self, number: int, lease: Lease, how: str) -> str:
        step = lease.task.step
        match self._trouble:
            case Trouble.HUNG:
                return f"StepHung: step {step!r} did not come to an end in {self._seconds(number):g} s"
            case Trouble.STUCK:
                return f"TaskStuck: a task of step {step!r} did not come to an end, its fetch included"
            case _:
                return f"WorkerDied: step {step!r} was running when its worker {how}"


def _duty(name: str, duty: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(duty, name=name)


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
