"""Workers that may go on for only so long."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

GRACE = timedelta(seconds=30)  # for the tasks in hand, then they are handed back


class Workers(Protocol):
    """A crew."""

    @property
    def in_hand(self) -> int: ...
    @property
    def stops(self) -> int: ...
    def stop(self) -> int: ...


@contextmanager
def within(span: timedelta | None, crew: Workers, say: Callable[[str], None]) -> Iterator[None]:
    """Have workers finish what is in hand once this time is over, unless they were asked to stop before."""
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()

    def time_is_up() -> None:
        if crew.stops == 0:
            say(f"The time is up: finishing {crew.in_hand:,} tasks.")
            crew.stop()
            timers.append(loop.call_later(GRACE.total_seconds(), hand_back))

    def hand_back() -> None:
        if crew.stops == 1:
            say(f"Handing {crew.in_hand:,} tasks back.")
            crew.stop()

    if span is not None:
        timers.append(loop.call_later(span.total_seconds(), time_is_up))
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
