"""Programs that run at the same time, each in a process of its own.

A program writes lines of JSON; it says `"ready"` when its queue is open, and begins when it reads a line.
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

Orders = Mapping[str, Any]


class Member:
    """One process of a crew."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> Any:
        """Return the next thing that it says."""
        line = await self._process.stdout.readline()
        if not line:
            raise AssertionError((await self._process.stderr.read()).decode())
        return json.loads(line)

    def go(self) -> None:
        self._process.stdin.write(b"go\n")

    async def report(self) -> Any:
        """Wait for its end, and return the last thing that it said."""
        said, complaint = await self._process.communicate()
        assert self._process.returncode == 0, complaint.decode()
        return json.loads(said.splitlines()[-1])

    async def kill(self) -> None:
        """End it without a warning."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def crew(program: str, orders: Sequence[Orders], *, within: float = 30) -> AsyncIterator[list[Member]]:
    """Start a program once for each order, and let all begin at once; none outlives the block."""
    members = [Member(process) for process in await asyncio.gather(*(_spawn(program, one) for one in orders))]
    try:
        async with asyncio.timeout(within):
            assert [await member.says() for member in members] == ["ready"] * len(members)
            for member in members:
                member.go()
            yield members
    finally:
        for member in members:
            await member.kill()


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


def say(something: Any) -> None:
    """In a program: tell the test."""
    print(json.dumps(something), flush=True)


async def ready() -> None:
    """In a program: wait for the others."""
    say("ready")
    await asyncio.to_thread(sys.stdin.readline)


def main(program: Callable[[Orders], Awaitable[Any]]) -> None:
    """Run a program as a member of a crew, and say what it returned."""
    say(asyncio.run(program(json.loads(sys.argv[1]))))
