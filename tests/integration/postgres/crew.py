"""Programs that run at the same time, each in a process of its own, and what they report.

A program says `ready` when it is connected, begins when it is told to `go`, may be told to `finish`, and ends
with its report as a line of JSON.
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

ROOT = Path(__file__).parents[3]
READY, GO, FINISH = b"ready\n", b"go\n", b"finish\n"

Orders = Mapping[str, Any]
Program = Callable[[Orders, "Stage"], Awaitable[Any]]


class Crew:
    """Processes that have begun together."""

    def __init__(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        self._processes = processes

    async def reports(self) -> list[Any]:
        """Tell all to finish, and return what they report."""
        answers = await asyncio.gather(*(process.communicate(FINISH) for process in self._processes))
        for process, (_, complaint) in zip(self._processes, answers, strict=True):
            assert process.returncode == 0, complaint.decode()
        return [json.loads(answer) for answer, _ in answers]


@asynccontextmanager
async def crew(program: str, orders: Sequence[Orders], *, within: float = 60) -> AsyncIterator[Crew]:
    """Start a program once for each order, and let all begin at once; none outlives the block."""
    processes = await asyncio.gather(*(_spawn(program, order) for order in orders))
    try:
        async with asyncio.timeout(within):
            await asyncio.gather(*(_is_ready(process) for process in processes))
            for process in processes:
                process.stdin.write(GO)
            yield Crew(processes)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _spawn(program: str, orders: Orders) -> asyncio.subprocess.Process:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"{__package__}.{program}", json.dumps(orders)),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )


async def _is_ready(process: asyncio.subprocess.Process) -> None:
    line = await process.stdout.readline()
    assert line == READY, (await process.stderr.read()).decode()


class Stage:
    """What a member of a crew says to the test and hears from it."""

    def __init__(self) -> None:
        self._begun, self._finish = asyncio.Event(), asyncio.Event()

    @property
    def finishing(self) -> bool:
        """Whether nothing new will come."""
        return self._finish.is_set()

    async def ready(self) -> None:
        """Wait for the others."""
        print("ready", flush=True)
        await self._begun.wait()

    async def listen(self) -> None:
        """Hear what the test says, for ever."""
        lines = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(lines)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        async for line in lines:
            {GO: self._begun, FINISH: self._finish}[line].set()


def main(program: Program) -> None:
    """Run a program as a member of a crew."""
    report = asyncio.run(_attend(program, json.loads(sys.argv[1])))
    print(json.dumps(report), flush=True)


async def _attend(program: Program, orders: Orders) -> Any:
    stage = Stage()
    listening = asyncio.create_task(stage.listen())
    try:
        return await program(orders, stage)
    finally:
        listening.cancel()
