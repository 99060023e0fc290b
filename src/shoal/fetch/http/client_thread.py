"""How long wreq's thread has waited for a processor: what it was given to send has left that much later."""

import os
import time
from contextlib import suppress
from pathlib import Path

THREAD_NAME = "wreq-python"
TASKS = Path("/proc/self/task")  # of Linux
SEARCH_INTERVAL_SECONDS = 1.0  # while there is no such thread, as with another HTTP client


class ClientThread:
    """Measures the threads of wreq in this process; on other systems than Linux they seem never to wait."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._next_search = 0.0

    def waited(self) -> float:
        """Return for how many seconds its threads have waited for a processor so far."""
        if not self._files and (now := time.monotonic()) >= self._next_search:
            self._files, self._next_search = _find_threads(), now + SEARCH_INTERVAL_SECONDS
        return sum(map(_waited, self._files))


def _find_threads() -> list[str]:
    found = []
    with suppress(OSError):
        for task in TASKS.iterdir():
            with suppress(OSError):
                if (task / "comm").read_text().strip() == THREAD_NAME:
                    found.append(str(task / "schedstat"))
    return found


def _waited(path: str) -> float:
    # Not with `open`, which takes three times as long: this is read twice for each request.
    with suppress(OSError, IndexError, ValueError):
        file = os.open(path, os.O_RDONLY)
        try:
            _, waited_ns, _ = os.read(file, 100).split()
            return int(waited_ns) / 1e9
        finally:
            os.close(file)
    return 0.0
