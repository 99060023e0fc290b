"""Repairs a JSON lines file whose last line was cut off by a crash."""

import os
import stat

import msgspec

_MAX_LINE = 64 << 20  # bytes of one line
_CHUNK = 1 << 16


def repair_last_line(file: int) -> None:
    """Make an open file end with a complete line: drop a partial line, add a missing newline."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return
    size = os.fstat(file).st_size
    last = _last_line(file, size)
    if not last:
        return
    if _is_json(last):
        os.write(file, b"\n")
    elif len(last) < _MAX_LINE:
        os.ftruncate(file, size - len(last))


def _last_line(file: int, size: int) -> bytes:
    """Return what follows the last newline."""
    tail = b""
    while len(tail) < min(size, _MAX_LINE) and b"\n" not in tail:
        start = max(0, size - len(tail) - _CHUNK)
        tail = os.pread(file, size - len(tail) - start, start) + tail
    return tail.rpartition(b"\n")[2]


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True
