"""Log lines on stdout or stderr, as containers are expected to write them."""

import os
import select
import sys
import time
from collections import deque
from enum import StrEnum
from typing import TextIO

MOST_WAITING = 8 << 20  # bytes of lines that the reader of the stream is late with
CLOSE_TIMEOUT = 5.0  # seconds in which the last lines must be taken
PIECE = select.PIPE_BUF  # a pipe that is ready takes this much without blocking


class Stream(StrEnum):
    """A stream of this process that log lines are written to, in place of a folder."""

    STDOUT = "stdout"
    STDERR = "stderr"


class LogStream:
    """Writes lines to a stream. A reader that is late or gone costs lines, never the run.

    The process that writes also extends leases, so it must not block on a full pipe: what the stream does not
    take now is kept, and written with the next line.
    """

    def __init__(self, stream: Stream) -> None:
        file = sys.stdout if stream is Stream.STDOUT else sys.stderr
        self._descriptor = _descriptor(file)
        self._file = file if self._descriptor is None else None
        self._poll = select.poll()
        if self._descriptor is not None:
            self._poll.register(self._descriptor, select.POLLOUT)
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._lost = 0

    def write(self, line: str) -> None:
        """Write a line, as soon as the stream takes it."""
        if self._file:
            self._file.write(f"{line}\n")
            self._file.flush()
            return
        data = line.encode(errors="replace") + b"\n"
        if self._size + len(data) > MOST_WAITING:
            self._lost += 1
            self._flush(0.0)
            return
        self._put(data)
        self._flush(0.0)

    def close(self) -> None:
        """Write what is left, if the reader takes it in time; the stream stays open."""
        ends = time.monotonic() + CLOSE_TIMEOUT
        while self._waiting and (left := ends - time.monotonic()) > 0 and self._flush(left):
            pass

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)

    def _flush(self, timeout: float) -> bool:
        """Write as much as the stream takes; return whether it took anything."""
        took = False
        assert self._descriptor is not None
        try:
            while self._waiting and self._poll.poll(0 if took else timeout * 1000):
                data = self._waiting.popleft()
                written = os.write(self._descriptor, data[:PIECE])
                self._size -= written
                if written < len(data):
                    self._waiting.appendleft(data[written:])
                took = True
                self._tell_lost()
        except OSError:
            # Nobody reads any more, or the disk behind it is full.
            self._waiting.clear()
            self._size = 0
        return took

    def _tell_lost(self) -> None:
        if self._lost and not self._waiting:
            lost, self._lost = self._lost, 0
            self._put(f"({lost} log lines are missing here: their reader was too slow)\n".encode())


def _descriptor(file: TextIO) -> int | None:
    try:
        file.flush()
        return file.fileno()
    except (OSError, ValueError):  # replaced by something that is no file, as in tests
        return None
