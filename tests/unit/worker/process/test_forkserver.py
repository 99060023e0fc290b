"""The supervisor's side of the fork server, where a real one cannot show it."""

import os
import signal
import socket
import subprocess
import threading
from threading import Event

from shoal.worker.process import forkserver as module
from shoal.worker.process.forkserver import (
    ForkServer,
    WorkerProcess,
    read_pipe,
)


async def worker_with(status, pid):
    readable, writable = os.pipe()
    os.write(writable, status)
    os.close(writable)
    return WorkerProcess(pid, *await read_pipe(readable))


async def test_a_process_that_has_ended_is_not_killed_because_its_id_may_be_another_ones():
    child = subprocess.Popen(["true"])
    process = await worker_with(b"0\n", child.pid)
    child.wait()
    process.kill()
    assert await process.wait() == 0
    process.kill()


async def test_where_processes_have_no_descriptors_a_worker_is_killed_when_its_fork_server_dies(monkeypatch):
    monkeypatch.delattr(module.os, "pidfd_open")
    with subprocess.Popen(["sleep", "60"]) as child:
        process = await worker_with(b"", child.pid)
        assert await process.wait() is None and process.has_ended
        assert child.wait(10) == -signal.SIGKILL


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
