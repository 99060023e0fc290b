"""Step markers in shared memory: which lease's step is running, since when, and whether the event loop runs.

A step can crash its process or block it for good. The markers outlive that, so that the supervisor, which is
another process, charges the task that did it and no other. Tasks in progress are marked too, until they are
settled: if no step was running, one of them may have done it, or left something that did.

Python offers no memory barrier between processes, so a reader may see the words of a marker in any order, old
next to new. Each marker therefore carries a checksum of its words, and the reader trusts no other.
"""

import mmap
import os
import struct
import tempfile
import time
from collections.abc import Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager
from types import coroutine
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

CELLS = 32  # one for the event loop, the others for steps in threads
LOOP_CELL = 0
_CELL = struct.Struct("=QQq")  # the lease's number, the start in nanoseconds, the checksum of both
_PULSE_AT = CELLS * _CELL.size
_PULSE = struct.Struct("=QQ")  # a counter, and the counter again with every bit inverted
_ALL_BITS = 2**64 - 1
_PROGRESS_AT = _PULSE_AT + _PULSE.size
# A byte for each lease, by its number: workers hold fewer, and two that share one are only both suspected.
PROGRESS_CELLS = 16_384
SIZE = _PROGRESS_AT + PROGRESS_CELLS
MAX_READS = 100  # of one marker; a write takes less than a microsecond


class StepMarker(NamedTuple):
    """A running step: the number of its lease, and its start by the machine's monotonic clock."""

    number: int
    since: float
    cell: int = LOOP_CELL

    @property
    def blocks_loop(self) -> bool:
        """Whether the step runs on the event loop, which is blocked meanwhile."""
        return self.cell == LOOP_CELL


def make_file() -> int:
    """Return the descriptor of an unnamed file that holds the markers of one worker."""
    with tempfile.TemporaryFile() as file:
        file.write(NO_STEP * CELLS + _pulse(0) + bytes(PROGRESS_CELLS))
        file.flush()
        return os.dup(file.fileno())


def encode(number: int, since: int) -> bytes:
    """Return a marker as it is stored in memory; the number 0 means no step."""
    return _CELL.pack(number, since, _checksum(number, since))


def decode(words: bytes) -> tuple[int, int] | None:
    """Return the number and the start of a marker; None if old and new words are mixed."""
    number, since, check = _CELL.unpack(words)
    return (number, since) if check == _checksum(number, since) else None


def _checksum(number: int, since: int) -> int:
    # Unlike the hash of a string, that of integers is the same in every process.
    return hash((number, since))


def _pulse(count: int) -> bytes:
    return _PULSE.pack(count, count ^ _ALL_BITS)


NO_STEP = encode(0, 0)
_LOOP = slice(LOOP_CELL * _CELL.size, (LOOP_CELL + 1) * _CELL.size)
_pack, _now = _CELL.pack, time.monotonic_ns


class StepMarkers:
    """The markers in a file that two processes share."""

    def __init__(self, descriptor: int) -> None:
        self._memory = mmap.mmap(descriptor, SIZE)
        self._free = list(range(CELLS - 1, LOOP_CELL, -1))
        self._beats = 0

    def close(self) -> None:
        self._memory.close()

    def running_steps(self) -> list[StepMarker]:
        """Return the steps that are marked as running.

        A marker that can never be read whole is rewritten all the time, so its step does not hang; or its
        process died during the write, so no step was running.
        """
        found = ((cell, self._read(cell)) for cell in range(CELLS))
        return [StepMarker(words[0], words[1] / 1e9, cell) for cell, words in found if words and words[0]]

    def loop_step(self) -> StepMarker | None:
        """Return the step that is running on the event loop, if one is."""
        words = self._read(LOOP_CELL)
        return StepMarker(words[0], words[1] / 1e9) if words and words[0] else None

    def beat(self) -> None:
        """Record that the event loop runs."""
        self._beats += 1
        self._memory[_PULSE_AT:_PROGRESS_AT] = _pulse(self._beats)

    def beats(self) -> int | None:
        """Return the number of beats of the event loop; None while it is being written."""
        count, inverted = _PULSE.unpack_from(self._memory, _PULSE_AT)
        return count if count == inverted ^ _ALL_BITS else None

    def mark_progress(self, number: int, is_in_progress: int) -> None:
        """Mark a task as in progress, from its start until it is settled, or no longer so."""
        self._memory[_PROGRESS_AT + number % PROGRESS_CELLS] = is_in_progress

    def in_progress(self, numbers: Iterable[int]) -> set[int]:
        """Return those of these leases whose tasks are in progress."""
        return {number for number in numbers if self._memory[_PROGRESS_AT + number % PROGRESS_CELLS]}

    @contextmanager
    def mark_thread(self, number: int) -> Iterator[None]:
        """Mark a step that runs in its own thread."""
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
    def mark_loop(self, number: int) -> Iterator[None]:
        """Mark code of a task that blocks the event loop and is not a step, such as a search in its page."""
        self.set_loop(number)
        try:
            yield
        finally:
            self.set_loop(0)

    def set_loop(self, number: int) -> None:
        """Mark the task whose code runs on the event loop from here on; 0 if none does."""
        # Written out, and not by `_set`: it is called several times for each page.
        if number:
            now = _now()
            self._memory[_LOOP] = _pack(number, now, hash((number, now)))
        else:
            self._memory[_LOOP] = NO_STEP

    @coroutine
    def run_marked(self, number: int, step: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Run a step, marked whenever its own code runs and not while it waits."""
        send, value = step.send, None
        while True:
            self.set_loop(number)
            try:
                awaited = send(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.set_loop(0)
            try:
                send, value = step.send, (yield awaited)
            except BaseException as error:
                send, value = step.throw, error

    def _set(self, cell: int, number: int) -> None:
        # Not with `pack_into`, which first writes zeros.
        start = cell * _CELL.size
        words = encode(number, time.monotonic_ns()) if number else NO_STEP
        self._memory[start : start + _CELL.size] = words

    def _read(self, cell: int) -> tuple[int, int] | None:
        start = cell * _CELL.size
        for _ in range(MAX_READS):
            if (found := decode(self._memory[start : start + _CELL.size])) is not None:
                return found
        return None
