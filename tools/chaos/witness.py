"""A thread that wants to be woken every few milliseconds, and writes down when it was not."""

import threading
import time
from types import TracebackType
from typing import Self

from tools.chaos.history import Stall

EVERY = 0.005  # seconds
WORTH_NOTING = 0.004


class Witness:
    """Sees when the machine makes those wait who are due, as a worker would feel it."""

    def __init__(self) -> None:
        self.stalls: list[Stall] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        due = time.monotonic() + EVERY
        while not self._over.wait(max(0.0, due - time.monotonic())):
            now = time.monotonic()
            if now - due > WORTH_NOTING:
                self.stalls.append(Stall(now, now - due))
            due = now + EVERY
