"""What to do with a file of lines whose last line was torn by a crash."""

import os
import stat

import msgspec

_LONGEST = 64 << 20  # bytes of one line
_STEP = 1 << 16


def mend(file: int) -> None:
    """Make an open file end with a whole line: a torn one is cut off, a whole one gets its end."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return
    size = os.fstat(file).st_size
    last = _last_line(file, size)
    if not last:
        return
    if _is_json(last):
        os.write(file, b"\n")
    elif len(last) < _LONGEST:
        os.ftruncate(file, size - len(last))


def _last_line(file: int, size: int) -> bytes:
    """Return what follows the last end of a line."""
    tail = b""
    while len(tail) < min(size, _LONGEST) and b"\n" not in tail:
        start = max(0, size - len(tail) - _STEP)
        tail = os.pread(file, size - len(tail) - start, start) + tail
    return tail.rpartition(b"\n")[2]


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return True
