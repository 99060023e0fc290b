"""A time limit for imports, which are code of other packages."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 1.0  # seconds after which the signal is repeated, if the code has caught the first one


class TooSlow(BaseException):
    """The code took too long. No Exception, which it might handle and go on."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlow in the block after a time; there is no limit outside of the main thread."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise TooSlow

    # By a signal and not in a thread: some packages can be imported in the main thread only.
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
