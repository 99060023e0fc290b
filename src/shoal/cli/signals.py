"""Handles Ctrl-C and SIGTERM in commands with workers."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

FINISH_TIMEOUT = 30.0  # seconds to finish the tasks in progress, then they are released
RELEASE_TIMEOUT = 5.0  # seconds to release them, then the workers are killed

HINTS = {signal.SIGINT: "press Ctrl-C again", signal.SIGTERM: "send SIGTERM again"}
_handled: ContextVar[list[str] | None] = ContextVar("handled", default=None)  # signals so far


class SignalledPool(Protocol):
    """A worker pool, or several of them."""

    @property
    def in_hand(self) -> int: ...
    def stop(self) -> int: ...


def on_signals(act: Callable[[str], object]) -> None:
    """Call `act` at every signal to stop, with a hint on how to send it again."""
    handled = _handled.get()

    def handle(hint: str) -> None:
        if handled is not None:
            handled.append(hint)
        act(hint)

    for number, hint in HINTS.items():
        asyncio.get_running_loop().add_signal_handler(number, handle, hint)


@contextmanager
def ignore_further_signals() -> Iterator[None]:
    """Ignore signals after the block if one was handled in it.

    All that is left is to print the summary and how to resume: one Ctrl-C too many must not cut that off.
    """
    handled: list[str] = []
    token = _handled.set(handled)
    try:
        yield
    finally:
        _handled.reset(token)
        if handled:
            _ignore_signals()


def _ignore_signals() -> None:
    loop = asyncio.get_running_loop()
    # Blocked meanwhile: removing a handler restores the default one, which ends the process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HINTS)
    for number in HINTS:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey_signals(pool: SignalledPool, say: Callable[[str], None]) -> None:
    """Finish the tasks in progress at the first signal, release them at the second, kill at the third."""
    loop = asyncio.get_running_loop()

    def stop(hint: str) -> None:
        in_hand = pool.in_hand
        match pool.stop():
            case 1:
                say(f"Finishing {in_hand:,} tasks; {hint} to hand them to other workers.")
                loop.call_later(FINISH_TIMEOUT, stop, hint)
            case 2:
                say(f"Returning {in_hand:,} tasks to the queue.")
                loop.call_later(RELEASE_TIMEOUT, stop, hint)
            case _:
                pass

    on_signals(stop)
