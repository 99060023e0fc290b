"""Marks in shared memory: which lease's step is running now, and since when.

A step can end its process or block it for good. The marks outlive that, so that the keeper, which is another
process, charges the task that did it and no other.
"""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from types import coroutine
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

CELLS = 32  # one for the event loop, the others for steps in threads
LOOP_CELL = 0
_CELL = struct.Struct("=Qd")
SIZE = CELLS * _CELL.size


class Mark(NamedTuple):
    """A step that runs now: the number of its lease, and its beginning by the machine's monotonic clock."""

    number: int
    since: float


def make_file() -> int:
    """Return the descriptor of a nameless file that holds the marks of one worker."""
    with tempfile.TemporaryFile() as file:
        file.truncate(SIZE)
        return os.dup(file.fileno())


class Marks:
    """The marks in a file that two processes share."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)
        self._free = list(range(CELLS - 1, LOOP_CELL, -1))

    def close(self) -> None:
        self._memory.close()

    def running(self) -> list[Mark]:
        """Return the steps that are marked as running."""
        found = (_CELL.unpack_from(self._memory, cell * _CELL.size) for cell in range(CELLS))
        return [Mark(number, since) for number, since in found if number]

    @contextmanager
    def in_thread(self, number: int) -> Iterator[None]:
        """Mark a step that runs in a thread of its own."""
        cell = self._free.pop() if self._free else None
        if cell is None:
            yield
            return
        self._set(cell, number)
        try:
            yield
        finally:
            self._set(cell, 0)
            self._free.append(cell)

    @coroutine
    def in_loop(self, number: int, step: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Drive a step, marked whenever its own code runs and not while it waits."""
        send, value = step.send, None
        while True:
            self._set(LOOP_CELL, number)
            try:
                awaited = send(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self._set(LOOP_CELL, 0)
            try:
                send, value = step.send, (yield awaited)
            except BaseException as error:
                send, value = step.throw, error

    def _set(self, cell: int, number: int) -> None:
        _CELL.pack_into(self._memory, cell * _CELL.size, number, time.monotonic() if number else 0.0)
