"""Log lines on stdout or stderr, as expected of containers."""

import os
import select
import sys
import time
from collections import deque
from enum import StrEnum
from typing import TextIO

MAX_BUFFERED = 8 << 20  # bytes that wait for a slow reader
CLOSE_TIMEOUT_SECONDS = 5.0  # for the reader to take the last lines
PIECE = select.PIPE_BUF  # a writable pipe takes this much without blocking


class Stream(StrEnum):
    """A stream of this process that receives log lines, instead of a folder."""

    STDOUT = "stdout"
    STDERR = "stderr"


class LogStream:
    """Writes lines to a stream. A slow or closed reader loses lines, but never stops the run.

    The process that writes also extends leases, so it must not block on a full pipe: what the stream does not
    take now is buffered and written with the next line.
    """

    def __init__(self, stream: Stream) -> None:
        file = sys.stdout if stream is Stream.STDOUT else sys.stderr
        self._descriptor = _descriptor(file)
        self._file = file if self._descriptor is None else None
        self._poll = select.poll()
        if self._descriptor is not None:
            self._poll.register(self._descriptor, select.POLLOUT)
        self._buffer: deque[bytes] = deque()
        self._size = 0
        self._lost = 0

    def write(self, line: str) -> None:
        """Write a line as soon as the stream takes it."""
        if self._file:
            self._file.write(f"{line}\n")
            self._file.flush()
            return
        data = line.encode(errors="replace") + b"\n"
        if self._size + len(data) > MAX_BUFFERED:
            self._lost += 1
            self._flush(0.0)
            return
        self._put(data)
        self._flush(0.0)

    def close(self) -> None:
        """Write the buffered lines, if the reader takes them in time; the stream stays open."""
        ends = time.monotonic() + CLOSE_TIMEOUT_SECONDS
        while self._buffer and (left := ends - time.monotonic()) > 0 and self._flush(left):
            pass

    def _put(self, data: bytes) -> None:
        self._buffer.append(data)
        self._size += len(data)

    def _flush(self, timeout: float) -> bool:
        """Write as much as the stream takes; return whether it took anything."""
        took = False
        assert self._descriptor is not None
        try:
            while self._buffer and self._poll.poll(0 if took else timeout * 1000):
                data = self._buffer.popleft()
                written = os.write(self._descriptor, data[:PIECE])
                self._size -= written
                if written < len(data):
                    self._buffer.appendleft(data[written:])
                took = True
                self._report_lost()
        except OSError:
            # The reader is gone, or the disk behind it is full.
            self._buffer.clear()
            self._size = 0
        return took

    def _report_lost(self) -> None:
        if self._lost and not self._buffer:
            lost, self._lost = self._lost, 0
            self._put(f"({lost} log lines are missing here: their reader was too slow)\n".encode())


def _descriptor(file: TextIO) -> int | None:
    try:
        file.flush()
        return file.fileno()
    except (OSError, ValueError):  # replaced by an object without a file descriptor, as in tests
        return None
