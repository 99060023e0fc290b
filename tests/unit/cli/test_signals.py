"""The messages on a signal."""

import asyncio
import gc
import os
import signal
import sys
from datetime import timedelta
from types import ModuleType

import pytest

from shoal.__main__ import start
from shoal.cli import signals
from shoal.cli.exits import Exit
from shoal.cli.signals import obey_signals
from shoal.core.errors import QueueUnavailable
from shoal.queue.outages import Outage, RetryUntil


class Pool:
    in_hand = 5

    def __init__(self):
        self.stops = 0

    def stop(self):
        self.stops += 1
        return self.stops


async def test_a_stop_without_a_task_in_progress_speaks_of_none():
    said = []

    class NoTask(Pool):
        in_hand = 0

    obey_signals(NoTask(), said.append)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(10):
            while not said:
                await asyncio.sleep(0.001)
    finally:
        release_signals()
    assert said == ["Stopping; no task is in progress."]


@pytest.fixture(autouse=True)
def waits_for_servers_again_after_the_test(monkeypatch):
    monkeypatch.setattr(RetryUntil, "gives_up", False)


async def test_the_timers_of_one_signal_end_the_wait_for_a_server_that_is_away(monkeypatch):
    monkeypatch.setattr(signals, "FINISH_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(signals, "RELEASE_TIMEOUT_SECONDS", 0.01)
    retry = RetryUntil(Outage("redis://a"), timedelta(hours=1))
    await retry.again("refused", OSError())
    pool = Pool()
    obey_signals(pool, lambda text: None)
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(10):
            with pytest.raises(QueueUnavailable):
                while True:
                    await retry.again("refused", OSError())
    finally:
        release_signals()
    assert pool.stops == 3


async def test_nohup_stays_in_force():
    pool = Pool()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    obey_signals(pool, print)
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        assert pool.stops == 0
    finally:
        release_signals()
        signal.signal(signal.SIGHUP, before)


def release_signals():
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(one)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (signal.SIGINT, "press Ctrl-C again to hand"),
        (signal.SIGTERM, "send SIGTERM again to hand"),
        (signal.SIGHUP, "send SIGHUP again to hand"),
    ],
)
async def test_the_hint_names_the_signal_to_send_again(number, advice):
    said: asyncio.Queue[str] = asyncio.Queue()
    obey_signals(Pool(), said.put_nowait)
    try:
        os.kill(os.getpid(), number)
        assert advice in await asyncio.wait_for(said.get(), 10)
    finally:
        release_signals()


async def test_the_third_signal_ends_a_command_that_does_not_end_by_itself(monkeypatch):
    said, ended = [], asyncio.Queue()
    monkeypatch.setattr(signals, "END_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr(signals.os, "_exit", ended.put_nowait)
    pool = Pool()
    obey_signals(pool, said.append)
    try:
        for number in range(1, 4):
            os.kill(os.getpid(), signal.SIGTERM)
            while pool.stops < number:
                await asyncio.sleep(0.001)
        assert await asyncio.wait_for(ended.get(), 10) == Exit.INTERRUPTED
    finally:
        release_signals()
    assert said[-1].startswith("Killing the workers; this command ends in")


class InterruptedImport(ModuleType):
    """A module in whose import Ctrl-C is pressed."""

    def __getattr__(self, name):
        raise KeyboardInterrupt


def test_an_interrupt_while_a_command_is_imported_is_no_traceback(monkeypatch):
    thresholds = gc.get_threshold()
    monkeypatch.setattr(sys, "argv", ["shoal", "run"])
    monkeypatch.setitem(sys.modules, "shoal.cli.main", InterruptedImport("shoal.cli.main"))
    try:
        with pytest.raises(SystemExit) as ended:
            start()
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    assert ended.value.code == Exit.INTERRUPTED
