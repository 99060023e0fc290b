"""Programs that run at the same time, each in a process of its own, and what they report.

A program says lines of JSON: `"ready"` when it is connected, whatever else a test wants to hear, and at its
end its report. It begins when it is told to `go`, and may be told to `finish`.

The processes are forked from one that has imported the program and the driver of its queue, which takes half
a second of processor time; it opens nothing, and has neither threads nor an event loop.
"""

import asyncio
import gc
import json
import os
import runpy
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.integration.processes import start_process

ROOT = Path(__file__).parents[2]
READY, GO, FINISH = "ready", b"go\n", b"finish\n"
QUEUES = {  # what opens the queue at an address, by the beginning of it
    "postgresql": "shoal.queue.postgres.queue",
    "redis": "shoal.queue.redis.queue",
    "amqp": "shoal.queue.rabbitmq.queue",
    "sqlite": "shoal.queue.sqlite.queue",
}

Orders = Mapping[str, Any]
Program = Callable[[Orders, "Stage"], Awaitable[Any]]
Descriptors = tuple[int, int, int, int]  # stdin, stdout, stderr, and the pipe for the pid and the exit code


class Member:
    """One of the programs."""

    def __init__(
        self, stdin: asyncio.WriteTransport, out: Any, err: Any, status: asyncio.StreamReader
    ) -> None:
        self._stdin, self._out, self._err, self._status = stdin, out, err, status
        self._pid = 0
        self._code: int | None = None

    async def begin(self) -> None:
        """Wait until it was forked."""
        self._pid = int(await self._status.readline())

    async def says(self) -> Any:
        """Return the next thing that it says."""
        line = await self._out.readline()
        if not line:
            raise AssertionError((await self._err.read()).decode())
        return json.loads(line)

    def go(self) -> None:
        self._stdin.write(GO)

    async def report(self) -> Any:
        """Tell it to finish, wait for its end, and return the last thing that it said."""
        self._stdin.write(FINISH)
        said, complaint = await asyncio.gather(self._out.read(), self._err.read())
        await self._end()
        assert self._code == 0, complaint.decode()
        return json.loads(said.splitlines()[-1])

    async def kill(self) -> None:
        """End it without a warning."""
        if self._code is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
        await self._end()

    async def _end(self) -> None:
        if self._code is None:
            self._code = int(await self._status.readline())


class Programs(list[Member]):
    """Processes that have begun together."""

    async def reports(self) -> list[Any]:
        """Tell all to finish, and return what they report."""
        return await asyncio.gather(*(member.report() for member in self))


@asynccontextmanager
async def run_programs(
    program: str, orders: Sequence[Orders], *, within: float = 60
) -> AsyncIterator[Programs]:
    """Start a module once for each order, and let all begin at once; none outlives the block."""
    async with AsyncExitStack() as stack:
        members = await _fork_members(program, orders, stack)
        try:
            async with asyncio.timeout(within):
                assert [await member.says() for member in members] == [READY] * len(members)
                for member in members:
                    member.go()
                yield members
        finally:
            for member in members:
                await member.kill()


async def reports_of(program: str, orders: Sequence[Orders], *, within: float = 90) -> list[Any]:
    """Run a program once for each order, all at the same time, and return what they report."""
    async with run_programs(program, orders, within=within) as members:
        return await members.reports()


async def _fork_members(program: str, orders: Sequence[Orders], stack: AsyncExitStack) -> Programs:
    """Start the process that forks the members; return those once each has its process."""
    ours, theirs = zip(*(_make_pipes() for _ in orders), strict=True)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    parent = await start_process(
        *(sys.executable, "-m", __name__, program, json.dumps(orders), json.dumps(theirs)),
        pass_fds=[descriptor for pipes in theirs for descriptor in pipes],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    stack.push_async_callback(parent.wait)
    for descriptor in (descriptor for pipes in theirs for descriptor in pipes):
        os.close(descriptor)
    members = Programs([await _open_member(pipes, stack) for pipes in ours])
    for member in members:
        await member.begin()
    return members


def _make_pipes() -> tuple[Descriptors, Descriptors]:
    """Return our ends of the pipes of a member, and its own."""
    (stdin, told), *rest = [os.pipe() for _ in range(4)]
    return (told, *(read for read, _ in rest)), (stdin, *(write for _, write in rest))


async def _open_member(pipes: Descriptors, stack: AsyncExitStack) -> Member:
    loop = asyncio.get_running_loop()
    stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(pipes[0], "wb", 0))
    stack.enter_context(closing(stdin))
    readers = []
    for pipe in pipes[1:]:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_read_pipe(lambda it=protocol: it, os.fdopen(pipe, "rb", 0))
        stack.enter_context(closing(transport))
        readers.append(reader)
    return Member(stdin, *readers)


def fork_members(program: str, orders: Sequence[Orders], pipes: Sequence[Descriptors]) -> Orders | None:
    """Fork a process for each order and report how each ends; return the order in such a process."""
    import_module(program)
    del sys.modules[program]  # each process runs it
    if name := QUEUES.get(orders[0].get("url", "").partition(":")[0]):
        import_module(name)
    gc.freeze()
    status_of: dict[int, int] = {}
    for order, own in zip(orders, pipes, strict=True):
        pid = os.fork()
        if not pid:
            for number, descriptor in enumerate(own[:3]):
                os.dup2(descriptor, number)
            for descriptor in (descriptor for each in pipes for descriptor in each):
                os.close(descriptor)
            return order
        os.write(own[3], f"{pid}\n".encode())
        status_of[pid] = own[3]
    for own in pipes:
        for descriptor in own[:3]:
            os.close(descriptor)
    while status_of:
        pid, status = os.waitpid(-1, 0)
        os.write(status_of[pid], f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(status_of.pop(pid))
    return None


class Stage:
    """What one of the programs says to the test and hears from it."""

    def __init__(self) -> None:
        self._begun, self._finish = asyncio.Event(), asyncio.Event()

    @property
    def finishing(self) -> bool:
        """Whether nothing new will come."""
        return self._finish.is_set()

    def say(self, something: Any) -> None:
        """Tell the test."""
        print(json.dumps(something), flush=True)

    async def ready(self) -> None:
        """Wait for the others."""
        self.say(READY)
        await self._begun.wait()

    async def listen(self) -> None:
        """Hear what the test says, for ever."""
        lines = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        async for line in lines:
            {GO: self._begun, FINISH: self._finish}[line].set()


def main(program: Program) -> None:
    """Run a program as one of several."""
    print(json.dumps(asyncio.run(_attend(program, json.loads(sys.argv[1])))), flush=True)


async def _attend(program: Program, orders: Orders) -> Any:
    stage = Stage()
    listening = asyncio.create_task(stage.listen())
    try:
        return await program(orders, stage)
    finally:
        listening.cancel()


if __name__ == "__main__":
    named, given, descriptors = sys.argv[1:]
    order = fork_members(named, json.loads(given), json.loads(descriptors))
    if order is not None:
        sys.argv = [named, json.dumps(order)]
        runpy.run_module(named, run_name="__main__", alter_sys=True)
