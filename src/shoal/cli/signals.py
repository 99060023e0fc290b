"""Handles Ctrl-C, SIGTERM and the end of the terminal (SIGHUP) in commands with workers."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Protocol

from shoal.cli.exits import Exit
from shoal.core.values import counted
from shoal.queue.outages import RetryUntil

FINISH_TIMEOUT_SECONDS = 30.0  # to finish the tasks in progress, then they are released
RELEASE_TIMEOUT_SECONDS = 5.0  # to release them, then the workers are killed
END_TIMEOUT_SECONDS = 5.0  # for the command to end after the third signal

HINTS = {
    signal.SIGINT: "press Ctrl-C again",
    signal.SIGTERM: "send SIGTERM again",
    signal.SIGHUP: "send SIGHUP again",
}
SHOW_CURSOR = "\x1b[?25h"  # which the live view hides
MAX_SIGNALS = 3  # until the workers are killed, and the command ends
OUTPUTS = (1, 2)  # stdout and stderr
_handled: ContextVar[list[str] | None] = ContextVar("handled", default=None)  # signals so far


class SignalledPool(Protocol):
    """A worker pool, or several of them."""

    @property
    def in_hand(self) -> int: ...
    def stop(self) -> int: ...


def on_signals(act: Callable[[str], object]) -> None:
    """Call `act` at every signal to stop, with a hint on how to send it again."""
    handled = _handled.get()
    terminals = [number for number in OUTPUTS if os.isatty(number)]

    def handle(hint: str) -> None:
        _leave_closed_terminals(terminals)
        if handled is not None:
            handled.append(hint)
        act(hint)

    for number, hint in HINTS.items():
        # `nohup` ignores SIGHUP, and that must stay so.
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, handle, hint)


def _leave_closed_terminals(terminals: Iterable[int]) -> None:
    """Write to nowhere instead of a terminal that was closed: every message would be an error."""
    for number in terminals:
        if not os.isatty(number):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, number)
            os.close(nowhere)


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
    """Finish the tasks in progress at the first signal, release them at the second, kill at the third.

    Soon after the third one that was sent, the command ends, whatever it waits for.
    """
    loop, sent = asyncio.get_running_loop(), count(1)

    def stop(hint: str) -> None:
        in_hand = pool.in_hand
        match pool.stop():
            case 1 if not in_hand:
                say("Stopping; no task is in progress.")
                loop.call_later(FINISH_TIMEOUT_SECONDS, stop, hint)
            case 1:
                them = "it" if in_hand == 1 else "them"
                say(f"Finishing {counted(in_hand, 'task')}; {hint} to hand {them} to other workers.")
                loop.call_later(FINISH_TIMEOUT_SECONDS, stop, hint)
            case 2:
                say(f"Returning {counted(in_hand, 'task')} to the queue.")
                loop.call_later(RELEASE_TIMEOUT_SECONDS, stop, hint)
            case _:
                RetryUntil.gives_up = True  # nothing is left but to close the queue

    def handle(hint: str) -> None:
        stop(hint)
        # Not by the timers above: the items of a long run may take longer to write.
        if next(sent) == MAX_SIGNALS:
            say(
                f"Killing the workers; this command ends in {END_TIMEOUT_SECONDS:.0f} s at the latest. "
                "Items that are not written by then stay in the queue."
            )
            loop.call_later(END_TIMEOUT_SECONDS, _end_now)

    on_signals(handle)


def _end_now() -> None:
    """End this process: no exception ends a thread that waits for the reader of stdout."""
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
        sys.stderr.flush()
    os._exit(Exit.INTERRUPTED)
