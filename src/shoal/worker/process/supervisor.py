"""The supervisor of one worker, in another process: it renews its leases, and releases them if it dies.

It does not restart a dead worker: the pool (`fleet/run/pool.py`) replaces it.

Renewing is `extend` in the queue's contract. A step may block its process for an hour, crash it, or take all
its memory. So the heartbeats come from here, and here the task that caused a death is charged an attempt,
while all others go back as if never claimed.
"""

import asyncio
import os
import socket
import time
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Self

import msgspec

from shoal.core.errors import DutyFailed, QueueError
from shoal.core.events import Event
from shoal.core.model import SECOND, Bury, Fate, Lease, Retry, WorkerState
from shoal.core.procfs import STOPPED, state_of_process
from shoal.core.tasks import wait_for_event
from shoal.queue.contract import Queue, WorkerBeat
from shoal.worker.background import failure_of
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.protocol import (
    MAX_MESSAGE_BYTES,
    SETTINGS_CHANGED,
    STOP,
    WAKE,
    ExitReason,
    LeasesClaimed,
    LeasesSettled,
    LoggedEvent,
    Message,
    WorkerConfig,
    WorkerEnded,
    WorkerFailed,
    WorkerProgress,
    read_message,
    write_config,
)
from shoal.worker.ipc.step_markers import StepMarkers, make_file
from shoal.worker.process.dead_worker import (
    DeadWorkerJudge,
    StepLimit,
    describe_death,
    is_proven,
    max_memory,
    once_steps,
    release_leases,
)
from shoal.worker.process.forkserver import ForkServer, ForkServerDied, WorkerProcess, read_pipe
from shoal.worker.process.heartbeat import (
    HEARTBEAT_INTERVAL,
    IDLE_HEARTBEAT_INTERVAL,
    Heartbeat,
    HeartbeatSender,
    memory_of,
)
from shoal.worker.process.liveness import SAMPLE_INTERVAL_SECONDS, Liveness, LivenessProblem, LivenessSample


class WorkerLink:
    """A worker's process with its configuration sent, and the descriptors that its supervisor shares."""

    def __init__(self, on_output: Callable[[str], None]) -> None:
        self._on_output = on_output
        self._file = make_file()
        self.markers = StepMarkers(self._file)
        self.process: WorkerProcess | None = None
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None
        self.reading: asyncio.Task[None] | None = None  # of its output

    @classmethod
    async def open(
        cls, fork_server: ForkServer, config: WorkerConfig, on_output: Callable[[str], None]
    ) -> Self:
        """Start a worker with this configuration."""
        link = cls(on_output)
        try:
            await link._start(fork_server, config)
        except BaseException:
            link.close()
            raise
        return link

    async def _start(self, fork_server: ForkServer, config: WorkerConfig) -> None:
        ours = await self._fork(fork_server)
        self.reader, self.writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_MESSAGE_BYTES)
        self.writer.write(write_config(config))

    async def _fork(self, fork_server: ForkServer) -> socket.socket:
        """Fork the process, and return our end of its channel."""
        ours, theirs = socket.socketpair()
        output, output_writer = os.pipe()
        self.reading = asyncio.create_task(self._read_output(output), name="reading its output")
        try:
            self.process = await fork_server.spawn(theirs.fileno(), self._file, output_writer)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
            os.close(output_writer)
        return ours

    def close(self) -> None:
        """Kill the process, and close everything."""
        if self.process:
            self.process.close()
        if self.reading:
            self.reading.cancel()
        if self.writer:
            self.writer.close()
        self.markers.close()
        os.close(self._file)

    async def _read_output(self, output: int) -> None:
        reader, pipe = await read_pipe(output)
        try:
            while piece := await _read_line(reader):
                self._on_output(piece.decode(errors="replace").rstrip())
        finally:
            pipe.close()


async def _read_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, a placeholder for one that is too long to hold, or nothing at the end."""
    try:
        return await reader.readline()
    except ValueError:
        return b"(a line that is too long to show)\n"


RENEW_RETRY, MAX_RENEW_RETRY = 0.2, 2.0  # seconds after an extension that failed, at first and at most
CLOSE_TIMEOUT = 10 * SECOND  # for a worker to close its resources, once all its leases are settled
CLOSE_MARGIN = 2 * SECOND  # beyond the time of its `on_finish` hooks
KILL_TIMEOUT_SECONDS = 5.0  # a process may be unkillable while its disk does not respond


class WorkerExit(msgspec.Struct):
    """How a worker ended."""

    reason: ExitReason
    message: str = ""
    blamed: frozenset[str] = frozenset()  # tasks that were charged with its death
    killers: frozenset[str] = frozenset()  # those among them whose step was running, or that ran alone
    suspects: frozenset[str] = frozenset()  # tasks in progress, one of which may have caused its death
    settled: int = 0  # tasks that it settled
    tally: WorkerCounters = msgspec.field(default_factory=WorkerCounters)
    last_lines: list[str] = msgspec.field(default_factory=list)  # of its output


class WorkerSupervisor:
    """Starts one worker process and supervises it until it has ended."""

    def __init__(
        self,
        queue: Queue,
        config: WorkerConfig,
        fork_server: ForkServer,
        *,
        limits: Mapping[str, StepLimit],
        on_output: Callable[[str], None] = lambda line: None,
        on_event: Callable[[Event], None] = lambda event: None,
        on_claim: Callable[[bool], None] = lambda is_full: None,
        heartbeats: HeartbeatSender | None = None,
    ) -> None:
        """Supervisors of one launcher share `heartbeats`."""
        self._heartbeats = heartbeats or HeartbeatSender(queue, config.run_id)
        self._on_claim = on_claim
        self.config, self.tally = config, WorkerCounters()
        self.in_hand: dict[int, Lease] = {}
        self._settled, self._completed = 0, 0
        self._queue, self._fork_server, self._on_output = queue, fork_server, on_output
        self._on_event, self._heartbeat = on_event, Heartbeat(config)
        self._last_lines: deque[str] = deque(maxlen=20)
        self._limits, self._once = limits, once_steps(limits)
        self._max_step_time = max(limit.time for limit in limits.values())
        self._liveness = Liveness.within(config.lease, self._step_seconds)
        self._claimed_at: dict[int, float] = {}  # of each lease, in seconds that the supervisor was awake
        self._moved_at = 0.0  # when a lease was last settled or a response received, on the same clock
        self._can_renew = True
        self._problem: LivenessProblem | None = None
        self._state_changed = asyncio.Event()
        self._is_ending, self._is_killed = asyncio.Event(), asyncio.Event()
        self._close_timeout = CLOSE_TIMEOUT
        self._exit: WorkerExit | None = None
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
        """The number of tasks that the worker has completed."""
        return self._completed

    @property
    def is_frozen(self) -> bool:
        """Whether the worker does not respond, and has not for half the time after which it is killed."""
        return self._liveness.is_silent

    @property
    def is_running(self) -> bool:
        """Whether the worker's process exists; when it has ended, its leases are still to be settled."""
        return self._process is not None and not self._process.has_ended

    def stop(self) -> None:
        """Stop the worker; the second call makes it release everything at once."""
        self._stops += 1
        self._send(STOP)

    def wake_up(self) -> None:
        """Have the worker look for work now, if it holds none."""
        if not self.in_hand:
            self._send(WAKE)

    def announce_settings(self) -> None:
        """Have the worker read the settings of its run now."""
        self._send(SETTINGS_CHANGED)

    def _send(self, message: bytes) -> None:
        if self._writer and not self._writer.is_closing():
            self._writer.write(message)

    def kill(self) -> None:
        """Kill the worker now; the supervisor releases its leases."""
        self._is_ending.set()
        self._is_killed.set()
        if self._process:
            self._process.kill()

    async def run(self) -> WorkerExit:
        """Start the worker and return how it ended, with its leases settled or released."""
        try:
            link = await WorkerLink.open(self._fork_server, self.config, self._record_output)
        except ForkServerDied as error:
            # A worker that was forked nevertheless ends, because its channel is closed.
            return WorkerExit(ExitReason.DIED, f"could not be started, because {error}")
        try:
            code = await self._run_process(link)
            return await self._close(code, link.markers)
        finally:
            self.kill()
            link.close()

    async def _run_process(self, link: WorkerLink) -> int | None:
        """Supervise a worker until it has ended, and return its exit code."""
        assert link.process and link.reader and link.writer and link.reading
        self._process, self._writer = link.process, link.writer
        self._writer.write(STOP * self._stops)
        listening = _background("reading its messages", self._listen(link.reader))
        exiting = asyncio.create_task(link.process.wait(), name="waiting for its exit code")
        tasks: list[asyncio.Task[Any]] = [
            listening,
            exiting,
            link.reading,
            _background("renewing its leases", self._renew_leases()),
            _background("sending its heartbeats", self._beat()),
            _background("watching its steps", self._watch(link.markers)),
            _background("ending it", self._kill_if_it_does_not_end()),
        ]
        try:
            await self._wait_for_end(listening, exiting, tasks)
            await asyncio.wait([exiting], timeout=KILL_TIMEOUT_SECONDS)
            # A process that the worker left behind may hold its channel and output open.
            await asyncio.wait([listening, link.reading], timeout=1.0)
            return exiting.result() if exiting.done() else None
        finally:
            for task in tasks:
                task.cancel()
            self._writer.close()

    async def _wait_for_end(
        self, listening: asyncio.Task[None], exiting: asyncio.Task[int | None], tasks: list[asyncio.Task[Any]]
    ) -> None:
        """Wait for the worker's end; a background task that fails ends it, because it needs all of them."""
        pending = set(tasks)
        while {listening, exiting} <= pending:
            timeout = KILL_TIMEOUT_SECONDS if self._is_killed.is_set() else None
            ended, pending = await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not ended:
                return  # a process that cannot be killed cannot settle anything either
            for task in ended:
                if error := failure_of(task):
                    self._fail(task.get_name(), error)

    async def _kill_if_it_does_not_end(self) -> None:
        """Kill a worker that has reported its end and does not exit; return when it was killed."""
        await self._is_ending.wait()
        await wait_for_event(self._is_killed, self._close_timeout.total_seconds())
        self.kill()

    def _fail(self, name: str, error: BaseException) -> None:
        self._failure = self._failure or DutyFailed(name, error)
        self._last_lines.extend("".join(traceback.format_exception(error)).splitlines()[-10:])
        self.kill()

    def _record_output(self, line: str) -> None:
        self._last_lines.append(line)
        self._on_output(line)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while (message := await read_message(reader)) is not None:
                self._handle_message(message)

    def _handle_message(self, message: Message) -> None:
        match message:
            case LeasesClaimed(first=first, leases=leases, is_full=is_full):
                self.in_hand.update(enumerate(leases, first))
                self._claimed_at.update((first + index, self._liveness.awake) for index in range(len(leases)))
                self._on_claim(is_full)
            case LeasesSettled(numbers=numbers, done=done):
                self._settled, self._completed = self._settled + len(numbers), self._completed + done
                self._moved_at = self._liveness.awake
                for number in numbers:
                    self.in_hand.pop(number, None)
                    self._claimed_at.pop(number, None)
            case WorkerProgress(tally=tally):
                if tally.bytes > self.tally.bytes:  # steps may send many requests before the first ends
                    self._moved_at = self._liveness.awake
                self.tally = tally
            case LoggedEvent(event=event):
                self._on_event(event)
            case WorkerEnded(reason=reason, finish_timeout=timeout):
                self._exit = WorkerExit(reason)
                self._close_timeout = max(CLOSE_TIMEOUT, timeout + CLOSE_MARGIN)
                self._is_ending.set()
            case WorkerFailed(message=text):
                self._exit = WorkerExit(ExitReason.FAILED, text)
                self._is_ending.set()

    async def _renew_leases(self) -> None:
        """Renew the leases at every third of their duration."""
        wait, retry = self.config.lease.total_seconds() / 3, RENEW_RETRY
        while self._problem is None:
            await asyncio.sleep(wait if self._can_renew else retry)
            try:
                await self._renew_leases_once()
            except QueueError:
                # The leases expire meanwhile: there is no time for another third of them.
                retry = min(2 * retry, MAX_RENEW_RETRY) if not self._can_renew else RENEW_RETRY
                self._can_renew = False
            else:
                self._can_renew = True

    async def _renew_leases_once(self) -> None:
        lease = self.config.lease
        if self.in_hand:
            await self._queue.extend(list(self.in_hand.values()), lease=lease)
        if self._liveness.is_loop_silent:
            # Its last claim may have been answered, and it cannot report the leases.
            await self._queue.extend_worker(self.config.worker_id, lease=lease)

    async def _beat(self) -> None:
        while True:
            self._state_changed.clear()
            await self._beat_once(WorkerState.FROZEN if self.is_frozen else WorkerState.RUNNING)
            with suppress(TimeoutError):
                interval = HEARTBEAT_INTERVAL if self.in_hand else IDLE_HEARTBEAT_INTERVAL
                async with asyncio.timeout(self._heartbeats.until_next(interval)):
                    await self._state_changed.wait()

    async def _beat_once(self, state: str) -> None:
        info = self._heartbeat.info(self.pid, self.tally, time.monotonic(), len(self.in_hand))
        if self.config.sharing:
            info["sharing"] = self.config.sharing.mode
        if self._once:
            info["at_most_once"] = self._once
        with suppress(QueueError):
            await self._heartbeats.send(WorkerBeat(self.config.worker_id, state, info))

    async def _watch(self, markers: StepMarkers) -> None:
        while True:
            was_silent = self._liveness.is_silent
            is_stopped = self.pid is not None and state_of_process(self.pid) in STOPPED
            sample = LivenessSample(time.monotonic(), markers.beats(), markers.running_steps(), is_stopped)
            stuck = LivenessProblem.STUCK if self._find_stuck() else None
            self._problem = self._liveness.judge(sample) or stuck or self._find_large()
            if self._problem:
                self.kill()
                return
            if self._liveness.is_silent != was_silent:
                self._state_changed.set()
            await asyncio.sleep(SAMPLE_INTERVAL_SECONDS)

    def _find_large(self) -> LivenessProblem | None:
        taken = memory_of(self.pid) if self.pid else None
        return LivenessProblem.LARGE if taken and taken > max_memory(self.config.memory) else None

    def _find_stuck(self) -> list[int]:
        """Return the leases that exceed their time, if nothing was settled or received for as long."""
        # While the queue is unreachable nothing can be settled.
        if not self._can_renew:
            return []
        return [number for number, lease in self.in_hand.items() if self._is_stuck(number, lease)]

    def _is_stuck(self, number: int, lease: Lease) -> bool:
        limit = self._limits.get(lease.task.step)
        if limit is None or limit.whole is None:
            return False
        allowed = limit.whole + self.config.lease
        began = self._claimed_at.get(number, self._liveness.awake) + lease.start_in.total_seconds()
        return self._liveness.awake - max(began, self._moved_at) > allowed.total_seconds()

    def _step_seconds(self, number: int) -> float:
        """Return the time limit of a lease's step; the longest of all if the lease is no longer held."""
        lease = self.in_hand.get(number)
        limit = self._limits.get(lease.task.step) if lease else None
        return (limit.time if limit else self._max_step_time).total_seconds()

    async def _close(self, code: int | None, markers: StepMarkers) -> WorkerExit:
        how = describe_death(
            code, self._problem, self._liveness.silence, self._failure, max_memory(self.config.memory)
        )
        ending = self._exit or WorkerExit(ExitReason.DIED, how)
        guilty = self._find_guilty(markers)
        suspects = set() if guilty or not self._is_unexplained else markers.in_progress(self.in_hand)
        is_alone = is_proven([self.in_hand[number].task_id for number in suspects], self.config.suspects)
        if is_alone:
            guilty = suspects
        else:
            ending.suspects = frozenset(self.in_hand[number].task_id for number in suspects)
        ending.killers = frozenset(self.in_hand[number].task_id for number in guilty)
        judge = DeadWorkerJudge(self._limits, self._problem, ending.message, guilty, is_alone).judge
        outcomes = [judge(number, lease) for number, lease in self.in_hand.items()]
        if outcomes:
            with suppress(QueueError):
                fates = await self._queue.settle(outcomes)
                ending.blamed = frozenset(
                    outcome.lease.task_id
                    for outcome, fate in zip(outcomes, fates, strict=True)
                    if isinstance(outcome, Retry | Bury) and fate is Fate.ACCEPTED
                )
        with suppress(QueueError):
            # Leases that it claimed and could not report any more.
            how = ending.message or WorkerState.ENDED
            await release_leases(self._queue, self.config.worker_id, once=self._once, how=how)
        ending.tally, ending.settled = self.tally, self._settled
        ending.last_lines = list(self._last_lines)
        await self._beat_once(WorkerState.ENDED if self._exit else WorkerState.DIED)
        return ending

    @property
    def _is_unexplained(self) -> bool:
        """Whether the worker died by itself, froze or grew: a task that was in progress may be the cause."""
        if self._exit or self._failure:
            return False
        if self._problem:
            return self._problem in (LivenessProblem.FROZEN, LivenessProblem.LARGE)
        return not self._is_killed.is_set()

    def _find_guilty(self, markers: StepMarkers) -> set[int]:
        """Return the held leases whose step ended the worker: it was running, or exceeded its time."""
        running = {marker.number for marker in markers.running_steps()}
        if self._problem is LivenessProblem.LARGE and len(running) > 1:
            return set()  # any of them may have taken the memory: they are suspects
        stuck = self._find_stuck() if self._problem is LivenessProblem.STUCK else []
        return running.union(stuck) & self.in_hand.keys()


def _background(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work, name=name)
