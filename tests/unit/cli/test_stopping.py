"""What a person or a container is told at a signal."""

import asyncio
import os
import signal

import pytest

from shoal.cli.stopping import obey_signals


class Crew:
    in_hand = 5

    def __init__(self):
        self.stops = 0

    def stop(self):
        self.stops += 1
        return self.stops


@pytest.mark.parametrize(
    ("number", "advice"),
    [(signal.SIGINT, "press Ctrl-C again to hand"), (signal.SIGTERM, "send SIGTERM again to hand")],
)
async def test_the_advice_is_for_whoever_sent_the_signal(number, advice):
    said: asyncio.Queue[str] = asyncio.Queue()
    obey_signals(Crew(), said.put_nowait)
    try:
        os.kill(os.getpid(), number)
        assert advice in await asyncio.wait_for(said.get(), 10)
    finally:
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(one)
