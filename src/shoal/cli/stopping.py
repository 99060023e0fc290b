"""What Ctrl-C and SIGTERM mean to a command with workers."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

GRACE = 30.0  # seconds for the tasks in hand, then they are handed back
LAST_GRACE = 5.0

ADVICE = {signal.SIGINT: "press Ctrl-C again", signal.SIGTERM: "send SIGTERM again"}
_told: ContextVar[list[str] | None] = ContextVar("told", default=None)  # to stop, by signals


class Workers(Protocol):
    """A crew, or several of them."""

    @property
    def in_hand(self) -> int: ...
    def stop(self) -> int: ...


def on_signals(act: Callable[[str], object]) -> None:
    """Call this at every signal to stop, with the advice for whoever sent it."""
    told = _told.get()

    def heed(advice: str) -> None:
        if told is not None:
            told.append(advice)
        act(advice)

    for number, advice in ADVICE.items():
        asyncio.get_running_loop().add_signal_handler(number, heed, advice)


@contextmanager
def ended_in_peace() -> Iterator[None]:
    """Ignore signals behind the block if one was obeyed in it.

    All that is left to do is to say how it went and how to go on: a Ctrl-C too many must not cut that off.
    """
    told: list[str] = []
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)
        if told:
            _ignore_signals()


def _ignore_signals() -> None:
    loop = asyncio.get_running_loop()
    # Blocked meanwhile: to take a handler away brings the one back that ends the process.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ADVICE)
    for number in ADVICE:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def obey_signals(crew: Workers, say: Callable[[str], None]) -> None:
    """Finish what is in hand at the first signal, hand it back at the second, kill at the third."""
    loop = asyncio.get_running_loop()

    def obey(again: str) -> None:
        in_hand = crew.in_hand
        match crew.stop():
            case 1:
                say(f"Finishing {in_hand:,} tasks; {again} to hand them to other workers.")
                loop.call_later(GRACE, obey, again)
            case 2:
                say(f"Handing {in_hand:,} tasks back.")
                loop.call_later(LAST_GRACE, obey, again)
            case _:
                pass

    on_signals(obey)
