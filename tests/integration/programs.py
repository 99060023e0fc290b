"""Programs that run at the same time, each in a process of its own, and what they report.

A program says lines of JSON: `"ready"` when it is connected, whatever else a test wants to hear, and at its
end its report. It begins when it is told to `go`, and may be told to `finish`.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

from tests.integration.processes import start_process

ROOT = Path(__file__).parents[2]
READY, GO, FINISH = "ready", b"go\n", b"finish\n"

Orders = Mapping[str, Any]
Program = Callable[[Orders, "Stage"], Awaitable[Any]]


class Member:
    """One of the programs."""

    def __init__(self, process: Any) -> None:
        self._process = process

    async def says(self) -> Any:
        """Return the next thing that it says."""
        line = await self._process.stdout.readline()
        if not line:
            raise AssertionError((await self._process.stderr.read()).decode())
        return json.loads(line)

    def go(self) -> None:
        self._process.stdin.write(GO)

    async def report(self) -> Any:
        """Tell it to finish, wait for its end, and return the last thing that it said."""
        said, complaint = await self._process.communicate(FINISH)
        assert self._process.returncode == 0, complaint.decode()
        return json.loads(said.splitlines()[-1])

    async def kill(self) -> None:
        """End it without a warning."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


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
    members = Programs(map(Member, await asyncio.gather(*(_spawn(program, one) for one in orders))))
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


async def _spawn(program: str, orders: Orders) -> asyncio.subprocess.Process:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return await start_process(
        *(sys.executable, "-m", program, json.dumps(orders)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )


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
