"""The supervisor's side of the fork server, and its exit reports, without a fork."""

import os
import socket
import threading
from pathlib import Path
from threading import Event, Thread

import pytest

from shoal.worker.process import forkserver as module
from shoal.worker.process.forkserver import (
    DESCRIPTORS,
    ForkServer,
    ForkServerDied,
    WorkerProcess,
    read_pipe,
)


async def worker_with(status: bytes, pid=1):
    readable, writable = os.pipe()
    os.write(writable, status)
    os.close(writable)
    return WorkerProcess(pid, *await read_pipe(readable))


@pytest.mark.parametrize(("status", "code"), [(b"0\n", 0), (b"-9\n", -9), (b"", None)])
async def test_a_worker_ends_with_its_exit_code_which_may_be_unknown(status, code):
    process = await worker_with(status)
    assert await process.wait() == code and process.has_ended


async def test_a_process_that_has_ended_is_not_killed_because_its_id_may_be_another_ones(monkeypatch):
    killed = []
    monkeypatch.setattr(module.os, "kill", lambda pid, number: killed.append(pid))
    process = await worker_with(b"0\n", pid=7)
    process.kill()
    await process.wait()
    process.kill()
    assert killed == [7]


def test_an_error_of_a_forked_server_does_not_reach_the_handlers_of_the_process_it_was_forked_from(
    monkeypatch, tmp_path
):
    def fail(sock):
        raise ImportError("no such module")

    monkeypatch.setattr(module, "_serve", fail)
    handled = tmp_path / "handled"
    try:
        server = ForkServer(here=True)
    except ImportError:  # in the forked process
        handled.touch()
        os._exit(0)
    _, status = os.waitpid(server.pid, 0)
    server._socket.close()
    assert os.waitstatus_to_exitcode(status) == 1 and not handled.exists()


def waiting_threads():
    return [each for each in threading.enumerate() if each.name == module.WAITING_THREAD]


def join_waiting_threads():
    for thread in waiting_threads():
        thread.join()


def fake_server(pid):
    """Return the launcher's end of a server that reports this process id for one request."""
    ours, theirs = socket.socketpair()

    def serve():
        with theirs:
            _, descriptors, _, _ = socket.recv_fds(theirs, 1, DESCRIPTORS)
            os.write(descriptors[-1], b"%d\n" % pid)
            for descriptor in descriptors:
                os.close(descriptor)

    thread = Thread(target=serve)
    thread.start()
    return ours, thread


async def test_a_killed_fork_server_is_replaced_when_the_next_worker_is_needed(monkeypatch):
    dead, closed = socket.socketpair()
    closed.close()
    alive, thread = fake_server(pid=42)
    starts = iter([(1, dead), (2, alive)])
    waited = []
    monkeypatch.setattr(module, "_start", lambda: next(starts))
    monkeypatch.setattr(module.os, "waitpid", lambda pid, options: waited.append(pid))
    with ForkServer() as server, Path(os.devnull).open() as file:
        with pytest.raises(ForkServerDied):
            await server.spawn(file.fileno(), file.fileno(), file.fileno())
        process = await server.spawn(file.fileno(), file.fileno(), file.fileno())
        assert (process.pid, server.pid) == (42, 2)
        assert await process.wait() is None
        thread.join()
    join_waiting_threads()
    assert sorted(waited) == [1, 2]


def test_closing_a_fork_server_does_not_wait_for_its_end(monkeypatch):
    ours, theirs = socket.socketpair()
    ended = Event()
    monkeypatch.setattr(module, "_start", lambda: (1, ours))
    monkeypatch.setattr(module.os, "waitpid", lambda pid, options: ended.wait())
    ForkServer().close()
    assert theirs.recv(1) == b""
    assert [each.daemon for each in waiting_threads()] == [False]  # the interpreter waits for it
    ended.set()
    join_waiting_threads()
    theirs.close()


def test_exit_codes_are_reported_to_the_supervisor_of_each_worker_that_has_ended(monkeypatch):
    pipes = {pid: os.pipe() for pid in (1, 2, 3)}
    statuses = {1: (1, 9), 2: (0, 0), 3: (3, 5 << 8)}  # killed, running, exit code 5
    monkeypatch.setattr(module.os, "waitpid", lambda pid, options: statuses[pid])
    live = {pid: writable for pid, (_, writable) in pipes.items()}
    module._report_exits(live)
    assert list(live) == [2]
    assert os.read(pipes[1][0], 9) == b"-9\n" and os.read(pipes[3][0], 9) == b"5\n"
    for descriptor in (pipes[1][0], *pipes[2], pipes[3][0]):
        os.close(descriptor)
