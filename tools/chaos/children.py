"""Processes of the campaign's own that answer lines on stdin, and the families of launchers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Servant:
    """A module of this package in a process of its own, which has printed its port."""

    def __init__(self, module: str, *words: object) -> None:
        command = [sys.executable, "-m", f"tools.chaos.{module}", *map(str, words)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            # Ctrl-C in the terminal is for the campaign, which then ends it.
            start_new_session=True,
        )
        self.port = int(self._line())

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, word: str) -> Any:
        """Say a word, and return what it answers."""
        self.say(word)
        return json.loads(self._line())

    def say(self, word: str) -> None:
        """Say a word, and do not wait for the answer."""
        assert self._process.stdin
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def hear(self) -> str:
        """Return what it says next."""
        return self._line().strip()

    def close(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} has ended with {self._process.wait()}")
        return line


def send(what: signal.Signals, pids: Iterable[int]) -> None:
    """Send a signal to all that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    with suppress(OSError):
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def session(leader: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError):
            # The name, in parentheses, may hold anything; behind it come state, parent, group and session.
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
            if int(number) == leader and state not in "ZX":
                found.append(int(stat.parent.name))
    return found
