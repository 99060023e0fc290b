"""A worker on call: makes itself known in the queue, and handles the tasks that callers bring."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

import msgspec

from shoal.core.errors import QueueError
from shoal.core.model import SECOND, Bury, Done, Fate, Outcome, Release, Retry, Run, error_text
from shoal.queue.contract import Queue
from shoal.worker.calls import Answer, Health, Link, Listed, Listening, Seal, encode, read_call, topic_of
from shoal.worker.door import Door, Reply
from shoal.worker.secret import shared_secret
from shoal.worker.worker import Worker

KNOWN_FOR = 15 * SECOND  # without a word
SAY_EVERY = 5.0
LOOKS_AT_CLOCK = 3


class OnCall:
    """Keeps a worker's door open, and its note fresh."""

    def __init__(
        self, queue: Queue, run: Run, worker: Worker, *, worker_id: str, listening: Listening
    ) -> None:
        self._queue, self._run, self._worker = queue, run, worker
        self._me, self._listening = worker_id, listening
        self._door: Door | None = None
        self._saying: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        seal = Seal(await shared_secret(self._queue))
        # What a caller brings is late by an unknown while: it must not be the first word about the time.
        for _ in range(LOOKS_AT_CLOCK):
            await self._worker.set_clock()
        self._door = await Door(self._listening, seal, self._attend).__aenter__()
        await self._say()
        self._saying = self._worker.start(self._say_on(), "announcing")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._door and self._saying
        self._saying.cancel()
        with suppress(QueueError):
            await self._queue.write_notes(topic_of(self._run.scraper), {self._me: None})
        await self._door.__aexit__(kind, error, trace)

    async def _say_on(self) -> None:
        while not self._worker.is_stopping:
            await asyncio.sleep(SAY_EVERY)
            with suppress(QueueError):
                await self._worker.set_clock()
                await self._say()

    async def _say(self) -> None:
        assert self._door
        listed = Listed(
            worker_id=self._me,
            address=self._door.address,
            run_id=self._run.id,
            in_hand=self._worker.in_hand,
        )
        await self._queue.write_notes(topic_of(self._run.scraper), {self._me: encode(listed)}, ttl=KNOWN_FOR)

    async def _attend(self, method: str, path: str, body: bytes) -> Reply:
        # A question for another worker is no question: it may have been overheard and sent on.
        match method, path:
            case "GET", _ if path == f"/{self._me}/health":
                health = Health(in_hand=self._worker.in_hand, stopping=self._worker.is_stopping)
                return Reply(200, encode(health))
            case "POST", _ if path == f"/{self._me}/call":
                return await self._called(body)
            case _:
                return Reply(404)

    async def _called(self, body: bytes) -> Reply:
        try:
            call = read_call(body)
        except msgspec.DecodeError:
            return Reply(400)
        if call.lease.run_id != self._run.id:
            return Reply(400)
        taken = self._worker.take(call.lease, call.claimed_at)
        if taken is None:
            return Reply(503)
        return Reply(200, encode(answer_to(*await taken)))


def answer_to(outcome: Outcome, fate: Fate) -> Answer:
    """Return what a caller is told of an outcome, once the queue has obeyed or refused it."""
    if fate is Fate.STALE:
        return Answer(fate="stale")
    match outcome:
        case Done(items=items, follow=follow, rejects=rejects):
            links = [Link(url=task.url, step=task.step) for task in follow]
            return Answer(fate="done", items=list(items), follow=links, rejected=len(rejects))
        case Retry(error=error):
            return Answer(fate="retry", error=error_text(error))
        case Bury(error=error):
            return Answer(fate="dead", error=error_text(error))
        case Release():
            return Answer(fate="released")
