"""Typing commands as a person would."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass

from tests.integration.engine.fork import run_forked
from tests.integration.processes import start_process

TIMEOUT = 90.0
# What an interpreter reads when it starts, by the beginning of its name.
INTERPRETER = {"PYTHONPATH", "PYTHONIOENCODING", "PYTHONUTF8", "LANG", "LC"}


@dataclass(frozen=True)
class Typed:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self):
        (row,) = self.rows
        return row


async def start(*words, folder, within=(), **environment):
    """Start a command, in a group of its own, so that it can be killed with all it started.

    `within` is what another command needs in front of it to run it somewhere else.
    """
    return await start_process(
        *within,
        sys.executable,
        "-m",
        "shoal",
        *map(str, words),
        cwd=folder,
        env=_whole(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def typed(*words, folder, **environment):
    """Type a command and wait for it to end."""
    if INTERPRETER & {name.partition("_")[0] for name in environment}:
        process = await start(*words, folder=folder, **environment)
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
        return Typed(process.returncode, out.decode(), err.decode())
    running = run_forked([*map(str, words)], folder, _whole(environment))
    code, out, err = await asyncio.wait_for(running, TIMEOUT)
    return Typed(code, out.decode(), err.decode())


def _whole(environment):
    return os.environ | {"NO_COLOR": "1", "COLUMNS": "200"} | environment
