"""A turn of a host is used in time, or given up for another one; the clock is the test's."""

import asyncio
import os
import subprocess
from datetime import timedelta

import pytest

from shoal.core.model import SECOND
from shoal.core.procfs import pid_scope
from shoal.worker import turns as module
from shoal.worker.turns import LONGER, SLOTS, HostTurns


class Machine:
    """A queue that grants turns, and a clock by which every sleep ends late."""

    def __init__(self, *late):
        self.now, self.granted, self._late = 100.0, 0, list(late)

    async def take_turn(self, host, gap):
        self.granted += 1
        self.lasts = gap
        return timedelta(seconds=0.5)

    async def sleep(self, seconds):
        self.now += seconds + self._late.pop(0)


@pytest.mark.parametrize(
    ("late", "granted"),
    [
        ([0.0], 1),
        ([0.039], 1),
        ([1.5, 0.0], 2),  # its loop was blocked
        ([1.5, 0.28, 0.0], 2),  # the second one lasts a quarter longer
        ([1.5, 0.30, 0.53], 3),
        ([9.0] * len(LONGER), len(LONGER)),  # such a machine would never send anything
    ],
)
async def test_a_turn_that_has_passed_is_given_up_for_a_new_one(monkeypatch, late, granted):
    machine = Machine(*late)
    monkeypatch.setattr(module.asyncio, "sleep", machine.sleep)
    monkeypatch.setattr(module, "exact_time", lambda: machine.now)
    await HostTurns(machine).take("a.example", SECOND)
    assert machine.granted == granted
    assert machine.lasts == SECOND * (1 + LONGER[granted - 1])  # the request after it keeps the gap


@pytest.fixture
def ended_pid():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


async def test_a_slot_is_taken_from_a_process_of_this_machine_that_has_ended(queue, ended_pid):
    owners = [f"{ended_pid} of another machine", f"{ended_pid} {pid_scope()}"]
    for number, owner in enumerate(owners):
        await queue.swap_note(SLOTS, f"a.example {number}", owner.encode(), stamp=None)
    turns = HostTurns(queue)
    async with asyncio.timeout(10), turns.slot("a.example", 2, SECOND):
        notes = await queue.notes(SLOTS)
        assert [one.value.decode() for _, one in sorted(notes.items())] == [
            owners[0],
            f"{os.getpid()} {pid_scope()}",
        ]
        with pytest.raises(TimeoutError):  # this process has not ended
            async with asyncio.timeout(0.3), turns.slot("a.example", 2, SECOND):
                pass
