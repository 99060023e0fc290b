"""The protocol between a worker and its supervisor: lines of JSON over a socket."""

import asyncio
import select
import socket
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from threading import Lock
from typing import Any

import msgspec

from shoal.core.events import Event, Level
from shoal.core.model import ZERO, Lease, Task
from shoal.worker.counters import WorkerCounters
from shoal.worker.ipc.calls import Listening
from shoal.worker.partitions import PartitionRole

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
STOP = b"."  # the supervisor's request to stop; unlike two signals, two of them never merge into one
WAKE = b"!"  # its advice to look for work now
SETTINGS_CHANGED = b"s"  # the settings of the run are not what they were


class ExitReason(StrEnum):
    """Why a worker ended."""

    DRAINED = "drained"  # the run has no tasks left
    STOPPED = "stopped"
    BUDGET = "budget"  # the run has used its max_pages
    FAILED = "failed"  # it cannot work, and a new worker could not either
    DIED = "died"


class WorkerConfig(msgspec.Struct, kw_only=True, frozen=True):
    """The configuration of a worker: the first message of its supervisor."""

    queue: str
    run_id: str
    worker_id: str
    scraper: str  # as for `load_scraper`
    overrides: dict[str, Any] = {}
    lease: timedelta
    at_most_once: bool = False  # some of its tasks: if it dies, those that it held are not retried
    concurrency: int | None = None  # requests in flight, and running steps; None: the default
    batch: int = 50
    memory: int  # maximum bytes of pages held at once
    steps: list[str] | None = None
    partitions: list[str] | None = None
    sharing: PartitionRole | None = None  # if set, a plan assigns partitions, instead of the list above
    may_rest: bool = False  # another worker of its pool looks for the same tasks
    suspects: dict[str, int] = {}  # tasks that may have ended a worker, and how many may be in progress then
    listening: Listening | None = None  # if set, it claims nothing and handles calls
    log_level: int = Level.OFF  # the lowest level that is reported
    measure: bool = False
    trace: bool = False
    queue_option: str = ""  # in the commands that messages show


class LeasesClaimed(msgspec.Struct, tag="claimed", frozen=True):
    """The worker claimed these leases; their numbers start at `first`."""

    first: int
    leases: list[Lease]
    is_full: bool = False  # as many as it asked for: there may be more


class LeasesSettled(msgspec.Struct, tag="settled", frozen=True):
    """The worker settled the leases with these numbers, `done` of them as completed."""

    numbers: list[int]
    done: int = 0


class WorkerProgress(msgspec.Struct, tag="progress", frozen=True):
    """The worker's counters so far."""

    tally: WorkerCounters


class LoggedEvent(msgspec.Struct, tag="event", frozen=True):
    """An event for the worker's log."""

    event: Event


class WorkerEnded(msgspec.Struct, tag="ended", frozen=True):
    """The worker ends regularly."""

    reason: ExitReason
    finish_timeout: timedelta = ZERO  # of its `on_finish` hooks, which are called now


class WorkerFailed(msgspec.Struct, tag="failed", frozen=True):
    """The worker cannot work, and a new worker could not either."""

    message: str


Message = LeasesClaimed | LeasesSettled | WorkerProgress | LoggedEvent | WorkerEnded | WorkerFailed
_message_decoder = msgspec.json.Decoder(Message)
_config_decoder = msgspec.json.Decoder(WorkerConfig)
_encoder = msgspec.json.Encoder(enc_hook=dict)  # for the payload of a task without one: a read-only view


class SupervisorChannel:
    """The worker's end of the channel to its supervisor; without a socket, as in tests, it sends nothing."""

    def __init__(self, sock: socket.socket | None) -> None:
        self._socket = sock
        self._next = 1
        self._lock = Lock()  # the watch of the event loop sends from another thread

    def report_claimed(self, leases: Sequence[Lease], *, is_full: bool = False) -> range:
        """Report claimed leases, before anything is done with them; return their numbers."""
        numbers = range(self._next, self._next + len(leases))
        self._next = numbers.stop
        self.send(LeasesClaimed(numbers.start, [_without_content(lease) for lease in leases], is_full))
        return numbers

    def report_full(self) -> None:
        """Report that there may be more to claim than this worker takes, so that another one is woken."""
        self.send(LeasesClaimed(self._next, [], is_full=True))

    def send(self, message: Message) -> None:
        """Send a message. The supervisor reads at once, so this blocks only while it is stalled."""
        if self._socket is None:
            return
        try:
            with self._lock:
                _send_all(self._socket, _encoder.encode(message) + b"\n")
        except OSError:
            # The supervisor is gone: the worker finishes its tasks, and nothing reads the messages.
            self._socket = None


def _without_content(lease: Lease) -> Lease:
    """Return a lease without the payload and request of its task: only the worker needs their megabytes."""
    task = Task(url=lease.task.url, step=lease.task.step)
    return msgspec.structs.replace(lease, task=task)


def _send_all(sock: socket.socket, data: bytes) -> None:
    """Send everything, however long the supervisor is stalled."""
    left = memoryview(data)
    while left:
        try:
            left = left[sock.send(left) :]
        except BlockingIOError:
            # An event loop that reads from a socket makes it non-blocking, and `sendall` would give up here.
            writable = select.poll()
            writable.register(sock, select.POLLOUT)
            writable.poll()


def read_config(sock: socket.socket) -> WorkerConfig:
    """Read the supervisor's first line, and leave the rest in the socket."""
    data = bytearray()
    while not data.endswith(b"\n"):
        waiting = sock.recv(65536, socket.MSG_PEEK)
        if not waiting:
            raise EOFError("the supervisor closed the channel before it sent a configuration")
        end = waiting.find(b"\n") + 1
        data += sock.recv(end or len(waiting))
    return _config_decoder.decode(bytes(data))


def write_config(config: WorkerConfig) -> bytes:
    """Return a configuration as a line."""
    return _encoder.encode(config) + b"\n"


async def read_message(reader: asyncio.StreamReader) -> Message | None:
    """Read a worker's next message; None if it closed the channel, or died in the middle of a line."""
    line = await reader.readline()
    return _message_decoder.decode(line) if line.endswith(b"\n") else None
