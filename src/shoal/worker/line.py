"""What a worker and its keeper tell each other, as lines of JSON over a socket."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.events import Event, Level
from shoal.core.model import Lease
from shoal.worker.calls import Listening
from shoal.worker.share import Sharing
from shoal.worker.tally import Tally

LONGEST_LINE = 64 * 1024 * 1024
STOP = b"."  # what a keeper says to stop its worker; unlike two signals, two of them never become one


class Order(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker is to do: the first thing its keeper tells it."""

    queue: str
    run_id: str
    worker_id: str
    scraper: str  # as `load_scraper` takes it
    overrides: dict[str, Any] = {}
    lease: timedelta
    at_most_once: bool = False  # some of its tasks: what it held when it dies is not handed out again
    at_once: int = 64  # requests in flight, and steps that run
    slow_requests: int = 0  # beyond them, that wait for slow hosts
    batch: int = 50
    memory: int  # bytes of pages that it may hold at once
    steps: list[str] | None = None
    partitions: list[str] | None = None
    sharing: Sharing | None = None  # by whose plan partitions are claimed, instead of those above
    listening: Listening | None = None  # then it claims nothing, and handles what callers bring
    log_level: int = Level.OFF  # events from this level on are told
    measure: bool = False
    trace: bool = False


class Took(msgspec.Struct, tag="took", frozen=True):
    """The worker claimed these leases; they are numbered on from `first`."""

    first: int
    leases: list[Lease]


class Gone(msgspec.Struct, tag="gone", frozen=True):
    """The worker settled the leases of these numbers, `done` of them as completed."""

    numbers: list[int]
    done: int = 0


class Progress(msgspec.Struct, tag="progress", frozen=True):
    """What the worker has done so far."""

    tally: Tally
    in_hand: int


class Told(msgspec.Struct, tag="told", frozen=True):
    """Something happened that is worth a line in the worker's log."""

    event: Event


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """The worker has ended by itself, and why."""

    reason: str  # "drained", "stopped", "budget"


class Failed(msgspec.Struct, tag="failed", frozen=True):
    """The worker cannot work, and a new one could not either."""

    message: str


News = Took | Gone | Progress | Told | Ended | Failed
_news = msgspec.json.Decoder(News)
_order = msgspec.json.Decoder(Order)
_encoder = msgspec.json.Encoder(enc_hook=dict)  # for payloads, which are read-only views of a dict


class Line:
    """The worker's end of the line; without a socket, as in tests, it says nothing."""

    def __init__(self, sock: socket.socket | None) -> None:
        self._socket = sock
        self._next = 1
        self.on_took: Callable[[range, Sequence[Lease]], None] | None = None

    def took(self, leases: Sequence[Lease]) -> range:
        """Tell that leases were claimed, before anything is done with them; return their numbers."""
        numbers = range(self._next, self._next + len(leases))
        self._next = numbers.stop
        self.tell(Took(numbers.start, list(leases)))
        if self.on_took:
            self.on_took(numbers, leases)
        return numbers

    def tell(self, news: News) -> None:
        """Send news. The keeper reads at once, so that this waits only while it is held up."""
        if self._socket is None:
            return
        try:
            self._socket.sendall(_encoder.encode(news) + b"\n")
        except OSError:
            # The keeper is gone: what is in hand is finished, and nobody needs the news.
            self._socket = None


def read_order(sock: socket.socket) -> Order:
    """Read the first line of the keeper, and leave what follows it."""
    data = bytearray()
    while not data.endswith(b"\n"):
        waiting = sock.recv(65536, socket.MSG_PEEK)
        if not waiting:
            raise EOFError("the keeper hung up before it gave an order")
        end = waiting.find(b"\n") + 1
        data += sock.recv(end or len(waiting))
    return _order.decode(bytes(data))


def write_order(order: Order) -> bytes:
    """Return an order as a line."""
    return _encoder.encode(order) + b"\n"


async def read_news(reader: asyncio.StreamReader) -> News | None:
    """Read the next news of a worker; None when it hung up, or died in the middle of a line."""
    line = await reader.readline()
    return _news.decode(line) if line.endswith(b"\n") else None
