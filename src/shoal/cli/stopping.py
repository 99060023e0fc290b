"""What Ctrl-C and SIGTERM mean to a command with workers."""

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

GRACE = 30.0  # seconds for the tasks in hand, then they are handed back
LAST_GRACE = 5.0


class Workers(Protocol):
    """A crew, or several of them."""

    @property
    def in_hand(self) -> int: ...
    def stop(self) -> int: ...


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

    loop.add_signal_handler(signal.SIGINT, obey, "press Ctrl-C again")
    loop.add_signal_handler(signal.SIGTERM, obey, "send SIGTERM again")
