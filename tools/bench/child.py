"""One process of several: it prepares, says that it is ready, works when it is told to, and reports.

The order comes as a line of JSON on stdin, the answers go as lines of JSON to what stdout was; whatever
else is printed goes to stderr.
"""

import asyncio
import json
import os
import sys
import threading
import time
from importlib import import_module
from typing import Any, TextIO

import uvloop


class Gate:
    """Where a child waits until every other one is ready too."""

    def __init__(self, answers: TextIO) -> None:
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._opened = asyncio.Event()
        self._cpu = 0.0
        threading.Thread(target=self._listen, daemon=True).start()

    async def __call__(self) -> None:
        """Say that all is prepared, and wait for the start."""
        tell(self._answers, {"ready": True})
        await self._opened.wait()
        self._cpu = time.process_time()

    def cpu(self) -> float:
        """Return the processor seconds that this process has used since the start."""
        return time.process_time() - self._cpu

    def _listen(self) -> None:
        for _ in sys.stdin:
            self._loop.call_soon_threadsafe(self._opened.set)
        # The parent is gone, however it went: nobody waits for the result.
        os._exit(1)


def tell(answers: TextIO, message: dict[str, Any]) -> None:
    """Send one message to the parent."""
    answers.write(json.dumps(message) + "\n")
    answers.flush()


async def work(order: dict[str, Any], answers: TextIO) -> None:
    """Carry out the order and report its result."""
    module, _, name = order["call"].partition(":")
    function = getattr(import_module(module), name)
    gate = Gate(answers)
    answer: dict[str, Any]
    try:
        result = await function(gate, **order["facts"])
        answer = {"result": {**result, "cpu": gate.cpu()}}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    tell(answers, answer)


def main() -> None:
    """Take one order from the parent."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    uvloop.run(work(json.loads(sys.stdin.readline()), answers))


if __name__ == "__main__":
    main()
