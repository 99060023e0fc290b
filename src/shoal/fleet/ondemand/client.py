"""The listening workers: finds them, watches their health, and sends them calls."""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND
from shoal.core.tasks import repeat
from shoal.core.values import hint
from shoal.queue.contract import SharedNotes
from shoal.worker.ipc.calls import (
    NONCE,
    SIGNATURE,
    BadSignature,
    CallRequest,
    CallResult,
    ListenerHealth,
    ListenerRecord,
    Signer,
    encode,
    read_health,
    read_listener,
    read_result,
    topic_of,
)

CLIENT_ERRORS: tuple[type[Exception], ...] = ()  # none without wreq
with suppress(ImportError):
    # Where wreq cannot be installed, aiohttp must still work: only calls need it.
    import wreq
    from wreq import exceptions as wreq_errors

    CLIENT_ERRORS = tuple(getattr(wreq_errors, name) for name in wreq_errors.__all__)

T = TypeVar("T")
MAX_BYTES = 64 * 1024 * 1024  # of a response
CONNECT_TIMEOUT = 2 * SECOND
IDLE_TIMEOUT = 30 * SECOND


class CallNotAccepted(Exception):
    """The worker did not accept the task: it may be sent to another worker unchanged."""


class CallLost(Exception):
    """It is unknown what the worker did with the task."""


class CallClient:
    """Sends signed requests to workers."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        if not CLIENT_ERRORS:
            raise InvalidSetting("ondemand", "needs wreq, which is not installed. Run: pip install wreq")
        self._client = wreq.Client(
            runtime=wreq.Runtime(workers=1),
            redirect=wreq.redirect.Policy.none(),
            connect_timeout=CONNECT_TIMEOUT,
            pool_idle_timeout=IDLE_TIMEOUT,
            no_proxy=True,
            http1_only=True,
        )

    async def health(self, worker: ListenerRecord) -> ListenerHealth:
        """Return a worker's health; raises CallNotAccepted or CallLost if it does not respond."""
        status, body = await self._send("GET", worker, "health", b"")
        if status != 200:
            raise CallNotAccepted(f"it responded with status {status}")
        return _read(read_health, body)

    async def call(self, worker: ListenerRecord, call: CallRequest) -> CallResult:
        """Have a worker process a task, and return the result."""
        status, body = await self._send("POST", worker, "call", encode(call))
        if status != 200:
            raise CallNotAccepted(f"it responded with status {status}")
        return _read(read_result, body)

    async def _send(self, method: str, worker: ListenerRecord, verb: str, body: bytes) -> tuple[int, bytes]:
        path = f"/{worker.worker_id}/{verb}"
        fields = self._signer.sign_request(method, path, body, time.time())
        url = worker.address.rstrip("/") + path
        try:
            if method == "GET":
                response = await self._client.get(url, headers=fields)
            else:
                response = await self._client.post(url, headers=fields, body=body)
            return await self._read_response(response, fields[NONCE])
        except (
            wreq_errors.ConnectionError,
            wreq_errors.ProxyConnectionError,
            wreq_errors.BuilderError,
        ) as error:
            raise CallNotAccepted("it could not be connected") from error
        except CLIENT_ERRORS as error:
            raise CallLost("the connection broke") from error

    async def _read_response(self, response: "wreq.Response", nonce: str) -> tuple[int, bytes]:
        status = response.status.as_int()
        if response.content_length is None or response.content_length > MAX_BYTES:
            raise CallLost("its response is too large")
        body = bytes(await response.bytes())
        signature = response.headers.get(SIGNATURE)
        try:
            self._signer.verify_response(nonce, status, body, str(signature or b"", "latin-1"))
        except BadSignature as error:
            if status == 401:
                raise CallNotAccepted(
                    f"it refused the call: {body[:200].decode(errors='replace')}"
                ) from error
            raise CallLost(str(error)) from error
        return status, body


def _read(read: Callable[[bytes], T], body: bytes) -> T:
    try:
        return read(body)
    except msgspec.DecodeError as error:
        raise CallLost("its response cannot be read") from error


HEALTH_INTERVAL = 2 * SECOND
HEALTH_TIMEOUT = timedelta(seconds=1)
MAX_FAILURES = 3  # failed health checks in a row; then the worker's tasks go to others


class ListeningWorker(msgspec.Struct, eq=False):
    """A listening worker as a balancer sees it."""

    listed: ListenerRecord
    lost: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    is_up: bool = False
    mine: int = 0  # calls of this balancer in progress
    others: int = 0  # calls of other balancers at the last health check
    failures: int = 0  # failed health checks in a row
    # Sequence number of its last choice; before that at random, as a program may make one call only.
    chosen: float = msgspec.field(default_factory=random.random)
    problem: str = ""  # why it is not up

    @property
    def load(self) -> int:
        """Number of tasks in progress, as far as is known."""
        return self.mine + self.others

    def mark_healthy(self, health: ListenerHealth) -> None:
        """Record a passed health check."""
        self.is_up, self.failures = not health.stopping, 0
        self.others = max(0, health.in_hand - self.mine)
        if self.lost.is_set():
            self.lost = asyncio.Event()  # new calls are not lost with the earlier ones

    def mark_down(self, problem: str) -> None:
        """Do not choose it until a health check passes."""
        self.is_up, self.problem = False, problem

    def mark_failed(self, problem: str) -> None:
        """Record a failed health check; after several in a row its tasks count as lost."""
        self.mark_down(problem)
        self.failures += 1
        if self.failures >= MAX_FAILURES:
            self.lost.set()


Strategy = Callable[[Sequence[ListeningWorker]], ListeningWorker]


def least_loaded(members: Sequence[ListeningWorker]) -> ListeningWorker:
    """Return the worker with the fewest tasks; of equals the one chosen longest ago."""
    return min(members, key=lambda member: (member.load, member.chosen))


def round_robin(members: Sequence[ListeningWorker]) -> ListeningWorker:
    """Return the worker chosen longest ago."""
    return min(members, key=lambda member: member.chosen)


STRATEGIES: dict[str, Strategy] = {
    "least_loaded": least_loaded,
    "round_robin": round_robin,
    "random": random.choice,
}


def read_strategy(name: str) -> Strategy:
    """Return a strategy by its name; raises InvalidSetting."""
    if name not in STRATEGIES:
        raise InvalidSetting("--strategy", f"{name!r} is not known. {hint(name, STRATEGIES)}")
    return STRATEGIES[name]


class WorkerDirectory:
    """Tracks the workers that listen for a scraper, and checks their health."""

    def __init__(
        self, queue: SharedNotes, scraper: str, client: CallClient, *, strategy: str, interval: timedelta
    ) -> None:
        self._queue, self._topic, self._client = queue, topic_of(scraper), client
        self._choose, self._interval = read_strategy(strategy), interval
        self._members: dict[str, ListeningWorker] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_ready(self) -> bool:
        """Whether any worker can be chosen."""
        return any(member.is_up for member in self._members.values())

    @property
    def seed_step(self) -> str:
        """The step of a call that names none, as the workers have it."""
        return next(iter(self._members.values())).listed.seed_step

    @property
    def problems(self) -> str:
        """Why no worker can be chosen."""
        problems = {member.problem or "it is stopping" for member in self._members.values()}
        return "; ".join(sorted(problems)) or "all have stopped"

    def pick(self, but: Collection[ListeningWorker] = ()) -> ListeningWorker | None:
        """Return the worker for the next call, or None if no other is healthy."""
        members = [member for member in self._members.values() if member.is_up and member not in but]
        if not members:
            return None
        member = self._choose(members)
        self._turn += 1
        member.chosen = self._turn
        return member

    async def run(self) -> None:
        """Refresh periodically, forever."""
        await repeat(self.refresh, self._interval, jitter=0)

    async def refresh(self) -> None:
        """Read which workers listen, and check their health."""
        notes = await self._queue.notes(self._topic)
        for gone in self._members.keys() - notes.keys():
            self._members.pop(gone).lost.set()
        for name in notes.keys() - self._members.keys():
            with suppress(msgspec.DecodeError):
                self._members[name] = ListeningWorker(read_listener(notes[name].value))
        await asyncio.gather(*map(self._check, self._members.values()))

    async def _check(self, member: ListeningWorker) -> None:
        try:
            async with asyncio.timeout(HEALTH_TIMEOUT.total_seconds()):
                member.mark_healthy(await self._client.health(member.listed))
        except (CallNotAccepted, CallLost) as error:
            member.mark_failed(str(error))
        except TimeoutError:
            member.mark_failed("it does not respond")
