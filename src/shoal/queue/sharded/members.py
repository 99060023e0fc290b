"""The servers of a queue, and which of them owns a host."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueUnavailable
from shoal.core.model import RunSettings, Task
from shoal.queue.contract import Queue
from shoal.queue.intake import Intake, QueuedTask

# How long a call waits for the other servers once one has replied. Those that have not are left out of calls
# that can do without them.
STALL_TIMEOUT_SECONDS = 2.0
AWAY_TIMEOUT_SECONDS = 0.1  # for a server that did not reply before either
TRANSIENT = (QueueUnavailable, QueueFull, QueueReadOnly)  # the other servers can still be used
MAX_OWNERS = 100_000  # hosts whose owner is remembered
_INTAKE = Intake("", RunSettings())

Result = TypeVar("Result")
Call = Callable[[Queue], Coroutine[Any, Any, Result]]


class Member:
    """One server; it is opened at the first call, and again after it could not be reached."""

    def __init__(self, name: str, open_queue: Callable[[], Awaitable[Queue]]) -> None:
        self.name = name
        self.number = 0
        self._open, self._queue = open_queue, None
        self._opening = asyncio.Lock()
        self.is_away = False
        self.returns = 0  # how often it was back after it had been away
        # Calls that nobody waits for any more. They retry by themselves, and show when the server is back.
        self.stalled: set[asyncio.Task[Any]] = set()

    _queue: Queue | None

    async def call(self, verb: Call[Result]) -> Result:
        """Call a verb of this server's queue, and note whether it replied."""
        try:
            result = await verb(await self._opened())
        except QueueUnavailable:
            self.is_away = True
            raise
        self.returns += self.is_away
        self.is_away = False
        return result

    async def stream_from(self) -> Queue:
        """Return the open queue, for verbs that return a stream."""
        return await self.call(_itself)

    async def _opened(self) -> Queue:
        async with self._opening:
            if self._queue is None:
                self._queue = await self._open()
        return self._queue

    async def close(self) -> None:
        """Close the queue, and end the calls that nobody waits for."""
        await cancel(set(self.stalled))
        if self._queue is not None:
            await self._queue.close()
            self._queue = None


async def _itself(queue: Queue) -> Queue:
    return queue


class Replies(NamedTuple, Generic[Result]):
    """What servers replied; those in `missing` did not, for the reason in `error`."""

    given: Mapping[Member, Result]
    missing: Sequence[Member]
    error: QueueError | None


class Members:
    """All servers of a queue in their stored order; the first of them is the home of shared state."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = list(members)
        self._owners: dict[str, Member] = {}
        for number, member in enumerate(self._members):
            member.number = number

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    @property
    def home(self) -> Member:
        """The server of notes, and of the state of runs."""
        return self._members[0]

    @property
    def others(self) -> Sequence[Member]:
        """All servers but the home."""
        return self._members[1:]

    @property
    def names(self) -> list[str]:
        """The names of the servers, the home's first."""
        return [member.name for member in self._members]

    def numbered(self, number: int) -> Member:
        """Return the server with this number; raises IndexError."""
        return self._members[number]

    def owner(self, host: str) -> Member:
        """Return the server of a host (rendezvous hashing)."""
        found = self._owners.get(host)
        if found is None:
            if len(self._owners) >= MAX_OWNERS:
                self._owners.clear()
            found = self._owners[host] = self._choose(host)
        return found

    def owner_of(self, entry: QueuedTask) -> Member:
        """Return the server of a task; one without a URL is at the same server in every run of a scraper."""
        return self.owner(entry.host) if entry.host else self._choose(entry.key or entry.payload)

    def owner_of_task(self, task: Task) -> Member:
        """Return the server of a task that was stored before."""
        if task.url is not None:
            return self.owner(task.url.split("/", 3)[2])
        return self.owner_of(_INTAKE.entry(task))

    def _choose(self, place: str) -> Member:
        return max(self._members, key=lambda member: _weight(member.name, place))

    async def call_all(self, verb: Call[Result]) -> list[Result]:
        """Call a verb on all servers at once; raises QueueUnavailable if one cannot be reached."""
        return await gather(member.call(verb) for member in self._members)

    async def call_reachable(
        self, calls: Mapping[Member, Call[Result]], *, optional: bool = False
    ) -> Replies[Result]:
        """Make a call on each of some servers at once, and do without those that do not reply.

        Raises QueueUnavailable if none replies, unless the calls are `optional`; and any other error.
        """
        ready = {member: verb for member, verb in calls.items() if not member.stalled}
        if not ready and not optional:
            # All stall: whichever replies first, the caller is the first to know.
            stalled = [task for member in calls for task in member.stalled]
            await asyncio.wait(stalled, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)  # for the callback that notes it
            ready = {member: verb for member, verb in calls.items() if not member.stalled} or dict(calls)
        tasks = {asyncio.create_task(member.call(verb)): member for member, verb in ready.items()}
        try:
            await wait_for_most(tasks, optional=optional)
        except BaseException:
            await cancel(tasks)
            raise
        replies = _replies(tasks, [member for member in calls if member not in ready])
        if replies.error and not replies.given and not optional:
            raise replies.error
        return replies


async def wait_for_most(
    tasks: Mapping["asyncio.Task[Any]", Member],
    *,
    optional: bool = False,
    may_fail: bool = False,
    stall: float | None = None,
) -> None:
    """Wait for all, or until one has replied and the others have not for a while.

    With `optional`, the wait ends after that while also if none replies; with `may_fail`, only if all are
    known to be away.
    """
    stall = STALL_TIMEOUT_SECONDS if stall is None else stall
    loop, pending, until = asyncio.get_running_loop(), set(tasks), None
    if optional:
        until = loop.time() + stall
    elif may_fail and all(member.is_away for member in tasks.values()):
        until = loop.time() + AWAY_TIMEOUT_SECONDS
    while pending:
        timeout = stall if until is None else max(0.0, until - loop.time())
        done, pending = await asyncio.wait(pending, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        are_away = all(tasks[task].is_away for task in pending)
        if not done and (until is not None or (may_fail and are_away)):
            break
        if until is None and any(_succeeded(task) for task in done):
            until = loop.time() + stall
            if are_away:  # they were before this call
                break


def _replies(tasks: Mapping["asyncio.Task[Result]", Member], skipped: Iterable[Member]) -> Replies[Result]:
    given: dict[Member, Result] = {}
    missing = list(skipped)
    error: QueueError | None = None
    failure: BaseException | None = None
    for task, member in tasks.items():
        if not task.done():
            _leave(member, task)
            missing.append(member)
        elif _succeeded(task):
            given[member] = task.result()
        elif isinstance(failed := task.exception(), TRANSIENT):
            error = error or failed
            missing.append(member)
        else:
            failure = failure or failed
    if failure is not None:
        raise failure
    return Replies(given, missing, error)


def _leave(member: Member, task: "asyncio.Task[Any]") -> None:
    """Let a call go on without a caller."""
    member.is_away = True
    member.stalled.add(task)

    def forget(ended: "asyncio.Task[Any]") -> None:
        member.stalled.discard(ended)
        if not ended.cancelled():
            ended.exception()  # its queue has logged the outage

    task.add_done_callback(forget)


def _succeeded(task: "asyncio.Future[Any]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


async def cancel(tasks: Iterable["asyncio.Future[Any]"]) -> None:
    """Cancel calls, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def gather(calls: Iterable[Awaitable[Result]]) -> list[Result]:
    """Await all at once, to the end of each; then raise the first error."""
    replies = await asyncio.gather(*calls, return_exceptions=True)
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
    return [reply for reply in replies if not isinstance(reply, BaseException)]


def _weight(name: str, place: str) -> bytes:
    return blake2b(f"{name}\0{place}".encode(), digest_size=8).digest()
