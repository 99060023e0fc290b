"""How long wreq's thread has waited for a processor: what it was given to send has left that much later."""

import os
from contextlib import suppress
from pathlib import Path

THREAD_NAME = "wreq-python"
TASKS = Path("/proc/self/task")  # of Linux


class ClientThread:
    """Measures the threads of wreq in this process; on other systems than Linux they seem never to wait."""

    def __init__(self) -> None:
        self._files: list[str] = []

    def waited(self) -> float:
        """Return for how many seconds its threads have waited for a processor so far."""
        if not self._files:
            self._files = _find_threads()
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
