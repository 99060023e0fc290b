"""The messages on a signal."""

import asyncio
import os
import signal

import pytest

from shoal.cli.signals import obey_signals


class Pool:
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
async def test_the_hint_names_the_signal_to_send_again(number, advice):
    said: asyncio.Queue[str] = asyncio.Queue()
    obey_signals(Pool(), said.put_nowait)
    try:
        os.kill(os.getpid(), number)
        assert advice in await asyncio.wait_for(said.get(), 10)
    finally:
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(one)
