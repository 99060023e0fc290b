"""Calls on demand, in the worker: it listens, checks who calls, handles the task, and replies."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from shoal.core.errors import InvalidSetting, QueueError
from shoal.core.failures import error_text
from shoal.core.model import SECOND, Bury, Done, Fate, Outcome, Release, Retry, Run
from shoal.core.tasks import repeat
from shoal.fetch.shared_state import secret_of
from shoal.queue.contract import Queue
from shoal.worker.ipc.calls import (
    NONCE,
    SIGNATURE,
    BadSignature,
    CallFate,
    CallResult,
    FollowedLink,
    ListenerHealth,
    ListenerRecord,
    Listening,
    Signer,
    encode,
    read_call,
    topic_of,
)
from shoal.worker.ipc.http_server import BadRequest, HttpReply, HttpRequest, SmallHttpServer
from shoal.worker.worker import Worker

VARIABLE = "SHOAL_SECRET"
MIN_LENGTH = 16  # characters
KEY = "calls"


async def shared_secret(queue: Queue) -> bytes:
    """Return the secret in the environment, or the queue's own, which is created at the first call."""
    given = os.environ.get(VARIABLE, "")
    if given and len(given) < MIN_LENGTH:
        raise InvalidSetting(
            VARIABLE, f"must have at least {MIN_LENGTH} characters. Create one: openssl rand -hex 32"
        )
    if given:
        return given.encode()
    return await secret_of(queue, KEY)


MAX_CONNECTIONS = 512
JSON = {"content-type": "application/json"}

Handler = Callable[[str, str, bytes], Awaitable[HttpReply]]


class CallServer:
    """Accepts signed requests while it is open, and signs the responses."""

    def __init__(self, listening: Listening, signer: Signer, handler: Handler) -> None:
        self._listening, self._signer, self._handler = listening, signer, handler
        first = listening.port
        ports = range(first, first + max(1, listening.ports if first else 1))
        self._server = SmallHttpServer(listening.host, ports, self._respond, max_connections=MAX_CONNECTIONS)

    @property
    def address(self) -> str:
        """The address for callers."""
        host, _, port = self._server.address.rpartition(":")
        return self._listening.announce.format(host=host, port=port)

    async def __aenter__(self) -> Self:
        await self._server.open("--at")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.close()

    async def _respond(self, request: HttpRequest) -> HttpReply:
        """Return the response; the client may send another request only if this one is signed."""
        method, path, fields, read_body = request
        if method not in ("GET", "POST"):
            raise BadRequest("Use GET or POST.")
        try:
            # Before the body: a caller without the secret must not make the worker read megabytes.
            self._signer.verify_request(method, path, fields, time.time())
            body = await read_body()
            self._signer.verify_body(fields, body)
        except BadSignature as error:
            return HttpReply(401, str(error).encode())
        reply = await self._handler(method, path, body)
        signature = self._signer.sign_response(fields[NONCE], reply.status, reply.body)
        return HttpReply(reply.status, reply.body, JSON | {SIGNATURE: signature}, keep_alive=True)


RECORD_TTL = 15 * SECOND
ANNOUNCE_INTERVAL = 5 * SECOND
CLOCK_SAMPLES = 3


class CallListener:
    """Runs the HTTP server of a worker, and keeps its record in the queue fresh."""

    def __init__(
        self,
        queue: Queue,
        run: Run,
        worker: Worker,
        *,
        worker_id: str,
        listening: Listening,
        seed_step: str,
        once: Collection[str] = (),
    ) -> None:
        self._queue, self._run, self._worker = queue, run, worker
        self._worker_id, self._listening, self._seed_step = worker_id, listening, seed_step
        self._once = tuple(once)
        self._server: CallServer | None = None
        self._announcing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        signer = Signer(await shared_secret(self._queue))
        # A call arrives with an unknown delay: it must not be the first sample of the store's clock.
        for _ in range(CLOCK_SAMPLES):
            await self._worker.set_clock()
        self._server = await CallServer(self._listening, signer, self._handle).__aenter__()
        await self._announce()
        announcing = repeat(self._announce_again, ANNOUNCE_INTERVAL, jitter=0)
        self._announcing = self._worker.start(announcing, "announcing")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server and self._announcing
        self._announcing.cancel()
        with suppress(QueueError):
            await self._queue.write_notes(topic_of(self._run.scraper), {self._worker_id: None})
        await self._server.__aexit__(kind, error, trace)

    async def _announce_again(self) -> None:
        if not self._worker.is_stopping:
            await self._worker.set_clock()
            await self._announce()

    async def _announce(self) -> None:
        assert self._server
        record = ListenerRecord(
            worker_id=self._worker_id,
            address=self._server.address,
            run_id=self._run.id,
            in_hand=self._worker.in_hand,
            seed_step=self._seed_step,
            once=self._once,
        )
        topic = topic_of(self._run.scraper)
        await self._queue.write_notes(topic, {self._worker_id: encode(record)}, ttl=RECORD_TTL)

    async def _handle(self, method: str, path: str, body: bytes) -> HttpReply:
        # A request to another worker is refused: it may have been intercepted and forwarded.
        match method, path:
            case "GET", _ if path == f"/{self._worker_id}/health":
                health = ListenerHealth(in_hand=self._worker.in_hand, stopping=self._worker.is_stopping)
                return HttpReply(200, encode(health))
            case "POST", _ if path == f"/{self._worker_id}/call":
                return await self._handle_call(body)
            case _:
                return HttpReply(404)

    async def _handle_call(self, body: bytes) -> HttpReply:
        try:
            call = read_call(body)
        except msgspec.DecodeError:
            return HttpReply(400)
        if call.lease.run_id != self._run.id:
            return HttpReply(400)
        verdict = self._worker.accept(call.lease, call.claimed_at)
        if verdict is None:
            return HttpReply(503)
        return HttpReply(200, encode(result_of(*await verdict)))


def result_of(outcome: Outcome, fate: Fate) -> CallResult:
    """Return the result of a call, once the queue has accepted or rejected its outcome."""
    if fate is Fate.STALE:
        return CallResult(fate=CallFate.STALE)
    match outcome:
        case Done(items=items, follow=follow, rejects=rejects):
            links = [FollowedLink(url=task.url, step=task.step) for task in follow]
            return CallResult(fate=CallFate.DONE, items=list(items), follow=links, rejected=len(rejects))
        case Retry(error=error, traceback=traceback):
            return CallResult(fate=CallFate.RETRY, error=error_text(error), traceback=traceback)
        case Bury(error=error, traceback=traceback):
            return CallResult(fate=CallFate.DEAD, error=error_text(error), traceback=traceback)
        case Release():
            return CallResult(fate=CallFate.RELEASED)
