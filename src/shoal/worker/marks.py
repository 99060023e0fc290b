"""Marks in shared memory: which lease's step is running now, since when, and whether the event loop turns.

A step can end its process or block it for good. The marks outlive that, so that the keeper, which is another
process, charges the task that did it and no other.

Python offers no memory barrier between processes, so a reader may see the words of a mark in any order, old
beside new. Each mark therefore carries a checksum over its own words, and the reader believes no other.
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
_CELL = struct.Struct("=QQq")  # the lease's number, its beginning in nanoseconds, the checksum of both
_PULSE_AT = CELLS * _CELL.size
_PULSE = struct.Struct("=QQ")  # a counter, and the counter again with every bit inverted
_ALL_BITS = 2**64 - 1
SIZE = _PULSE_AT + _PULSE.size
MOST_READS = 100  # of one mark; a writer takes less than a microsecond


class Mark(NamedTuple):
    """A step that runs now: the number of its lease, and its beginning by the machine's monotonic clock."""

    number: int
    since: float
    cell: int = LOOP_CELL

    @property
    def blocks_loop(self) -> bool:
        """Whether the step runs on the event loop, which cannot turn meanwhile."""
        return self.cell == LOOP_CELL


def make_file() -> int:
    """Return the descriptor of a nameless file that holds the marks of one worker."""
    with tempfile.TemporaryFile() as file:
        file.write(NO_STEP * CELLS + _pulse(0))
        file.flush()
        return os.dup(file.fileno())


def encode(number: int, since: int) -> bytes:
    """Return the words of a mark as they lie in memory; the number 0 stands for no step."""
    return _CELL.pack(number, since, _checksum(number, since))


def decode(words: bytes) -> tuple[int, int] | None:
    """Return the number and the beginning of a mark; None where old and new words are mixed."""
    number, since, check = _CELL.unpack(words)
    return (number, since) if check == _checksum(number, since) else None


def _checksum(number: int, since: int) -> int:
    # Unlike that of text, the hash of integers is the same in every process.
    return hash((number, since))


def _pulse(count: int) -> bytes:
    return _PULSE.pack(count, count ^ _ALL_BITS)


NO_STEP = encode(0, 0)


class Marks:
    """The marks in a file that two processes share."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)
        self._free = list(range(CELLS - 1, LOOP_CELL, -1))
        self._beats = 0

    def close(self) -> None:
        self._memory.close()

    def running(self) -> list[Mark]:
        """Return the steps that are marked as running.

        A mark that is never read whole is being written all the time, so its step is no hung one; or its
        process died while it wrote, so no step was running.
        """
        found = ((cell, self._read(cell)) for cell in range(CELLS))
        return [Mark(words[0], words[1] / 1e9, cell) for cell, words in found if words and words[0]]

    def beat(self) -> None:
        """Say that the event loop turns."""
        self._beats += 1
        self._memory[_PULSE_AT:SIZE] = _pulse(self._beats)

    def beats(self) -> int | None:
        """Return how often the event loop has said that it turns; None where that is being written."""
        count, inverted = _PULSE.unpack_from(self._memory, _PULSE_AT)
        return count if count == inverted ^ _ALL_BITS else None

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

    @contextmanager
    def on_loop(self, number: int) -> Iterator[None]:
        """Mark code of a task that blocks the event loop and is no step, such as a search in its page."""
        self._set(LOOP_CELL, number)
        try:
            yield
        finally:
            self._set(LOOP_CELL, 0)

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
        # Not by `pack_into`, which first makes zeros of what it is about to write.
        start = cell * _CELL.size
        words = encode(number, time.monotonic_ns()) if number else NO_STEP
        self._memory[start : start + _CELL.size] = words

    def _read(self, cell: int) -> tuple[int, int] | None:
        start = cell * _CELL.size
        for _ in range(MOST_READS):
            if (found := decode(self._memory[start : start + _CELL.size])) is not None:
                return found
        return None
