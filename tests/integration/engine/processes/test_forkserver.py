"""The fork server: how it starts workers, and what happens to them when it dies."""

import asyncio
import errno
import os
import signal
import socket
import threading
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND
from shoal.core.procfs import is_process_running
from shoal.fleet.run import pool
from shoal.worker.ipc.step_markers import make_file
from shoal.worker.process import forkserver
from shoal.worker.process.forkserver import ForkServer, ForkServerDied, read_pipe
from tests.integration import fork_workers
from tests.integration.engine.origin import Answer


@pytest.fixture
def started_for_real(monkeypatch):
    """Other tests fork it from a process that has imported all that it needs."""
    monkeypatch.setattr(forkserver, "_start", fork_workers._start_for_real)
    monkeypatch.setattr(ForkServer, "close", fork_workers._close_for_real)


class Descriptors:
    """The file descriptors that a supervisor passes to a worker."""

    def __init__(self):
        self.ours, self.theirs = socket.socketpair()
        self.markers = make_file()
        self.output, self.output_writer = os.pipe()

    def close(self):
        """Close the supervisor's ends."""
        self.ours.close()
        with suppress(OSError):
            os.close(self.output)

    async def spawn(self, fork_server):
        """Start a worker, and close its ends here."""
        given = self.theirs.fileno(), self.markers, self.output_writer
        try:
            worker = await fork_server.spawn(*given)
        except ForkServerDied:
            worker = await fork_server.spawn(*given)
        self.theirs.close()
        os.close(self.output_writer)
        os.close(self.markers)
        return worker


@pytest.fixture
def fork_server():
    with ForkServer() as fork_server:
        yield fork_server


@pytest.fixture
def descriptors(fork_server):
    """Creates descriptors; the fork server waits until those of the last worker are closed."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Descriptors()))


def kinds(pid):
    """Return the kinds of files that a process has open, sorted."""
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed by now
            links.append(str(entry.readlink()))
    return sorted("file" if "deleted" in link else link.split(":")[0] for link in links)


async def has_its_own(worker):
    """Wait until a worker has closed the descriptors of the fork server."""
    async with asyncio.timeout(5):
        while kinds(worker.pid) != ["/dev/null", "file", "pipe", "pipe", "socket"]:
            await asyncio.sleep(0.01)


async def test_a_worker_has_the_descriptors_it_was_given_and_no_others(fork_server, descriptors):
    others = [descriptors() for _ in range(2)]
    alive = [await each.spawn(fork_server) for each in others]
    ends = descriptors()
    worker = await ends.spawn(fork_server)
    await has_its_own(worker)
    for each in (ends, *others):
        each.close()
    assert [await each.wait() for each in (worker, *alive)] == [1, 1, 1]


async def test_the_exit_code_of_a_worker_is_reported(fork_server, descriptors):
    ends = descriptors()
    worker = await ends.spawn(fork_server)
    worker.kill()
    assert await worker.wait() == -signal.SIGKILL
    worker.kill()  # does nothing, because its pid may be reused by now


async def test_a_sigterm_right_after_the_fork_ends_a_worker_regularly(fork_server, descriptors):
    for _ in range(5):
        ends = descriptors()
        worker = await ends.spawn(fork_server)
        os.kill(worker.pid, signal.SIGTERM)
        ends.ours.send(b" ")  # its supervisor does so too; a signal just before the read is handled then
        async with asyncio.timeout(5):
            assert await worker.wait() == 0
        assert b'"reason":"stopped"' in ends.ours.recv(1_000)


async def test_the_last_output_of_a_worker_is_read(fork_server, descriptors):
    ends = descriptors()
    output, pipe = await read_pipe(ends.output)
    worker = await ends.spawn(fork_server)
    ends.ours.send(b"no configuration\n")
    assert await worker.wait() == 1
    assert b"DecodeError" in await output.read()
    pipe.close()


async def test_workers_outlive_the_fork_server_and_new_ones_are_started(fork_server, descriptors):
    first, second = descriptors(), descriptors()
    old = await first.spawn(fork_server)
    os.kill(fork_server.pid, signal.SIGKILL)
    new = await second.spawn(fork_server)
    os.kill(old.pid, 0)  # it is alive
    first.close()
    second.close()
    assert await old.wait() is None
    assert await new.wait() == 1


async def test_a_frozen_worker_whose_fork_server_has_died_is_killed(fork_server, descriptors):
    first, second = descriptors(), descriptors()
    frozen = await first.spawn(fork_server)
    await has_its_own(frozen)
    os.kill(fork_server.pid, signal.SIGKILL)
    os.kill(frozen.pid, signal.SIGSTOP)
    exiting = asyncio.create_task(frozen.wait())
    new = await second.spawn(fork_server)
    assert not exiting.done()
    frozen.kill()
    async with asyncio.timeout(10):
        assert await exiting is None
    assert not is_process_running(frozen.pid)
    second.close()
    assert await new.wait() == 1


async def test_ctrl_c_does_not_end_a_fork_server_that_still_imports(
    started_for_real, fork_server, descriptors
):
    started = fork_server.pid
    os.kill(started, signal.SIGINT)  # as the terminal does, to the whole group
    ends = descriptors()
    worker = await ends.spawn(fork_server)
    assert fork_server.pid == started
    ends.close()
    assert await worker.wait() == 1


async def test_a_fork_server_that_is_frozen_is_named_and_replaced(
    fork_server, descriptors, monkeypatch, caplog
):
    alive = descriptors()
    old, frozen = await alive.spawn(fork_server), fork_server.pid
    os.kill(frozen, signal.SIGSTOP)
    first, second = descriptors(), descriptors()
    with monkeypatch.context() as patched:
        patched.setattr(forkserver, "SPAWN_TIMEOUT", 0.2 * SECOND)
        for seconds in (0.2, 0.4):  # the next one may be as slow: it has twice the time
            with pytest.raises(ForkServerDied):
                await fork_server.spawn(first.theirs.fileno(), first.markers, first.output_writer)
            assert f"The fork server, which starts workers, has not responded for {seconds} s" in caplog.text
            os.kill(fork_server.pid, signal.SIGSTOP)
        os.kill(fork_server.pid, signal.SIGCONT)
    first.theirs.close()
    new = await second.spawn(fork_server)
    os.kill(old.pid, 0)  # it is alive
    assert not is_process_running(frozen)
    second.close()
    assert await new.wait() == 1


async def test_a_run_with_more_workers_than_files_says_so_and_blames_no_fork_server(
    bench, origin, monkeypatch, caplog
):
    async def run_out(self, *descriptors):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(ForkServer, "_spawn", run_out)
    code = """
    few = Scraper("few", rate=None, robots=False)

    @few.step
    async def page(page: Page):
        yield {}
    """
    with pytest.raises(InvalidSetting, match=r"workers of 2 is too many for the .* ulimit -n 65536"):
        await bench.run(code, [f"{origin.url}/"], workers=2)
    assert "The fork server" not in caplog.text


def test_a_frozen_fork_server_does_not_keep_a_program_from_ending(started_for_real, monkeypatch):
    monkeypatch.setattr(forkserver, "CLOSE_TIMEOUT", 0.2 * SECOND)
    with ForkServer() as fork_server:
        os.kill(fork_server.pid, signal.SIGSTOP)
    for thread in threading.enumerate():
        if thread.name == forkserver.WAITING_THREAD:
            thread.join(10)
    assert not is_process_running(fork_server.pid)


async def test_a_run_goes_on_when_its_fork_server_and_a_worker_are_killed(started_for_real, bench, origin):
    origin.answer = lambda path: Answer(after=0.1)  # so that it goes on for a second at least
    killed = []

    def kill_both(snapshot, pool):
        if snapshot.stats.completed and pool.pids and not killed:
            killed.append(pool.pids[0])
            os.kill(_parent(pool.pids[0]), signal.SIGKILL)
            os.kill(pool.pids[0], signal.SIGKILL)

    bench.witness.on_saw = kill_both
    code = """
    pages = Scraper("pages", rate=None, per_host=64, robots=False)

    @pages.step
    async def page(page: Page):
        yield {"url": page.url}
    """
    summary = await bench.run(code, [f"{origin.url}/{number}" for number in range(900)], workers=2)
    assert killed and any("vanished" in line for line in bench.witness.said_lines), bench.witness.said_lines
    assert summary.snapshot.stats.items == summary.snapshot.stats.completed == 900


async def test_a_run_goes_on_when_several_fork_servers_in_a_row_are_killed(bench, monkeypatch):
    killed, spawn = [], ForkServer._spawn

    async def die(server, *descriptors):
        if len(killed) == 3:
            return await spawn(server, *descriptors)
        killed.append(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        raise ConnectionError("the fork server has died")

    monkeypatch.setattr(ForkServer, "_spawn", die)
    monkeypatch.setattr(pool, "MIN_RESTART_DELAY_SECONDS", 0.01)
    code = """
    plain = Scraper("plain", rate=None)

    @plain.step(fetch=None)
    async def page(task: Task):
        yield {"url": task.url}
    """
    summary = await bench.run(code, ["https://a.example/0"])
    assert len(killed) == 3 and summary.snapshot.stats.completed == 1
    said = "A worker could not be started, because the fork server has died; starting another."
    assert bench.witness.said_lines.count(said) == 3, bench.witness.said_lines


async def test_a_worker_that_a_killed_fork_server_did_not_report_reads_nothing_of_the_next(
    bench, monkeypatch
):
    forked, spawn = [], ForkServer._spawn

    async def lose_first_report(server, *descriptors):
        worker = await spawn(server, *descriptors)
        forked.append(worker.pid)
        if len(forked) == 1:
            os.kill(server.pid, signal.SIGKILL)
            raise ConnectionError("the fork server has died")
        return worker

    monkeypatch.setattr(ForkServer, "_spawn", lose_first_report)
    code = """
    plain = Scraper("plain", rate=None)

    @plain.step(fetch=None)
    async def page(task: Task):
        yield {"url": task.url}
    """
    summary = await bench.run(code, ["https://a.example/0"])
    assert summary.snapshot.stats.completed == 1 and summary.ending.reasons == ["drained"]
    assert len(forked) == 2, "another worker was started in its place, with another channel"
    async with asyncio.timeout(20):
        while is_process_running(forked[0]):
            await asyncio.sleep(0.01)


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
