"""The nursery: what workers are born from, and what becomes of them without it."""

import asyncio
import os
import signal
import socket
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from shoal.worker.marks import make_file
from shoal.worker.nursery import Nursery, read_pipe
from tests.integration.engine.origin import Answer


class Cradle:
    """What a keeper hands to a worker."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.marks = make_file()
        self.output, self.says = os.pipe()

    def close(self):
        """Hang up."""
        self.ours.close()
        with suppress(OSError):
            os.close(self.output)

    async def bear(self, nursery):
        """Let a worker be born, and keep nothing of what is its own."""
        worker = await nursery.bear(self.theirs.fileno(), self.marks, self.says)
        self.theirs.close()
        os.close(self.says)
        os.close(self.marks)
        return worker


@pytest.fixture
def nursery():
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def cradles(nursery):
    """As many cradles as are wanted; the nursery waits until the last worker has been hung up on."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Cradle()))


def kinds(pid):
    """Return what a process has open, in order of names."""
    links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    return sorted("file" if "deleted" in link else link.split(":")[0] for link in links)


async def test_a_worker_has_what_it_was_given_and_nothing_else(nursery, cradles):
    others = [cradles() for _ in range(2)]
    alive = [await each.bear(nursery) for each in others]
    cradle = cradles()
    worker = await cradle.bear(nursery)
    async with asyncio.timeout(5):
        while kinds(worker.pid) != ["/dev/null", "file", "pipe", "pipe", "socket"]:
            await asyncio.sleep(0.01)
    for each in (cradle, *others):
        each.close()
    assert [await each.wait() for each in (worker, *alive)] == [1, 1, 1]


async def test_how_a_worker_ended_is_known(nursery, cradles):
    cradle = cradles()
    worker = await cradle.bear(nursery)
    worker.kill()
    assert await worker.wait() == -signal.SIGKILL
    worker.kill()  # does nothing, for its number may be another's by now


async def test_a_worker_that_is_asked_to_leave_at_its_birth_leaves_and_that_is_no_death(nursery, cradles):
    for _ in range(20):
        cradle = cradles()
        worker = await cradle.bear(nursery)
        os.kill(worker.pid, signal.SIGTERM)
        cradle.ours.send(b" ")  # its keeper does so too; a sign just before it reads is obeyed then
        async with asyncio.timeout(5):
            assert await worker.wait() == 0
        assert b'"reason":"stopped"' in cradle.ours.recv(1_000)


async def test_what_a_worker_says_last_is_heard(nursery, cradles):
    cradle = cradles()
    output, pipe = await read_pipe(cradle.output)
    worker = await cradle.bear(nursery)
    cradle.ours.send(b"no order at all\n")
    assert await worker.wait() == 1
    assert b"DecodeError" in await output.read()
    pipe.close()


async def test_workers_outlive_the_nursery_and_new_ones_are_born(nursery, cradles):
    first, second = cradles(), cradles()
    old = await first.bear(nursery)
    os.kill(nursery.pid, signal.SIGKILL)
    new = await second.bear(nursery)
    os.kill(old.pid, 0)  # is there
    assert await old.wait() is None
    second.close()
    assert await new.wait() == 1


async def test_a_run_goes_on_when_its_nursery_and_a_worker_are_killed(bench, origin):
    origin.answer = lambda path: Answer(after=0.02)
    killed = []

    def kill_both(snapshot, crew):
        if snapshot.stats.completed and crew.pids and not killed:
            killed.append(crew.pids[0])
            os.kill(_parent(crew.pids[0]), signal.SIGKILL)
            os.kill(crew.pids[0], signal.SIGKILL)

    bench.witness.on_saw = kill_both
    code = """
    pages = Scraper("pages", rate=None, per_host=64, robots=False)

    @pages.step
    async def page(page: Page):
        yield {"url": page.url}
    """
    summary = await bench.run(code, [f"{origin.url}/{number}" for number in range(1_500)], workers=2)
    assert killed and "vanished" in bench.witness.said_lines[0]
    assert summary.snapshot.stats.items == summary.snapshot.stats.completed == 1_500


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
