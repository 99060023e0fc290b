"""Let the kernel limit how much memory one call into C code may take."""

import errno
import mmap
import sys
from collections.abc import Callable
from functools import cache, partial
from operator import call
from pathlib import Path
from typing import Any, TypeVar, cast

if sys.platform == "linux":
    from resource import RLIMIT_DATA, getrlimit, setrlimit

Result = TypeVar("Result")

PROBE = 64 << 20  # bytes: more than the allocator has in reserve
READ_AGAIN = 32  # calls: reading the size takes longer than the rest


class GrowthLimit:
    """Calls functions implemented in C, and raises MemoryError if this process would grow by more bytes.

    It takes a few microseconds, however much a function allocates. Only where `can_limit_memory()`.
    """

    def __init__(self, growth: int) -> None:
        self._growth = growth
        self._calls = 0
        self._limit = 0

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function within the limit, which is narrower if the process grew during the last calls."""
        if self._calls % READ_AGAIN == 0:
            self._limit = _data_size() + self._growth
        self._calls += 1
        soft, hard = before = getrlimit(RLIMIT_DATA)
        limit = self._limit if soft < 0 else min(self._limit, soft)
        # All of it is one call into C, in which no other thread runs Python: the limit is for the whole
        # process, and a browser that is started meanwhile would inherit it.
        steps: tuple[Callable[[], Any], ...] = (
            partial(setrlimit, RLIMIT_DATA, (limit, hard)),
            function,
            partial(setrlimit, RLIMIT_DATA, before),
        )
        try:
            results: list[Any] = list(map(call, steps))
        except BaseException:
            setrlimit(RLIMIT_DATA, before)
            self._calls = 0
            raise
        return cast("Result", results[1])


@cache
def can_limit_memory() -> bool:
    """Tell whether the kernel enforces the limit: Linux does, some sandboxes do not."""
    if sys.platform != "linux":
        return False
    try:
        allocate = partial(mmap.mmap, -1, PROBE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        GrowthLimit(PROBE // 2).call(allocate).close()
    except MemoryError:
        return True
    except OSError as error:
        return error.errno == errno.ENOMEM
    return False


def _data_size() -> int:
    """Return the bytes that count towards the limit."""
    return int(Path("/proc/self/statm").read_bytes().split()[5]) * mmap.PAGESIZE
