"""Processes that start together: each prepares, and none begins before all are ready."""

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
MAX_RESULT = 256 << 20  # bytes of a line
COMMAND = [sys.executable, "-W", "ignore", "-m", "tools.bench.child"]


class ChildFailed(Exception):
    """A process of the benchmark ended without a result."""

    def __init__(self, call: str, said: str) -> None:
        self.call = call
        super().__init__(f"{call} ended without a result: {said}".rstrip())


async def run_processes(count: int, call: str, /, **facts: Any) -> list[dict[str, Any]]:
    """Run `module:function` in so many processes at once and return their results.

    Each is told its `number`; raises ChildFailed as soon as one of them fails.
    """
    async with AsyncExitStack() as stack:
        children = [
            await stack.enter_async_context(_child(call, {**facts, "number": number}))
            for number in range(count)
        ]
        await asyncio.gather(*(child.hear("ready") for child in children))
        for child in children:
            child.say("go")
        return list(await asyncio.gather(*(child.hear("result") for child in children)))


class Child:
    """One process, its pipe, and what it printed."""

    def __init__(self, call: str, process: asyncio.subprocess.Process, log: IO[bytes]) -> None:
        self._call = call
        self._process = process
        self._log = log

    def say(self, line: str) -> None:
        """Send the child a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    async def hear(self, kind: str) -> Any:
        """Wait for a message of this kind; raises ChildFailed when the child ends before."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        message = json.loads(line) if line else {}
        if kind not in message:
            raise ChildFailed(self._call, message.get("error") or self._said())
        return message[kind]

    async def end(self) -> None:
        """Kill the process if it still runs, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def _said(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2_000:]


@asynccontextmanager
async def _child(call: str, facts: dict[str, Any]) -> AsyncIterator[Child]:
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            limit=MAX_RESULT,
            # Ctrl-C in the terminal is for the parent, which then ends its children itself.
            start_new_session=True,
        )
        child = Child(call, process, log)
        try:
            child.say(json.dumps({"call": call, "facts": facts}))
            yield child
        finally:
            await child.end()
