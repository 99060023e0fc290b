"""The fork server: a process that imports all that workers need, and forks one for each request.

Importing takes a good part of a second. Every new worker would have to wait for it, and so would every
replacement of a dead worker. The fork server has no threads, no event loop and none of the user's code, so a
fork of it is as good as a new process.
"""

import asyncio
import errno
import gc
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from typing import NoReturn, Self

from shoal.core.model import SECOND
from shoal.worker.process import main

log = logging.getLogger(__name__)
MAX_DESCRIPTOR = 65_536
SPAWN_TIMEOUT = 20 * SECOND  # for a fork, which takes milliseconds, and the imports of a new fork server
CLOSE_TIMEOUT = 10 * SECOND  # for its end, and that of its last worker
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAITING_THREAD = "waiting for the fork server's end"
DESCRIPTORS = 4  # sent for each worker: its channel, its step markers, its output, and its exit status pipe


class WorkerProcess:
    """A worker process as its supervisor sees it; close it, or wait for its end."""

    def __init__(self, pid: int, status: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        self.pid = pid
        self._status, self._pipe = status, pipe
        self._descriptor = _descriptor_of(pid)
        self.has_ended = False  # as far as `wait` knows, or it is closed

    def kill(self) -> None:
        """Kill it now."""
        if self.has_ended:
            return
        with suppress(ProcessLookupError):
            if self._descriptor is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def close(self) -> None:
        """Kill it, and watch it no longer."""
        self.kill()
        self.has_ended = True
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    async def wait(self) -> int | None:
        """Return its exit code once it has ended: negative for a signal, None if it is unknown."""
        try:
            line = await self._status.readline()
        finally:
            self._pipe.close()
        if not line and self._descriptor is not None:
            # The fork server has died, and its workers live on.
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(self._descriptor, ended.set)
            await ended.wait()
        self.has_ended = bool(line)
        self.close()  # which kills it where nothing tells its end
        return int(line) if line else None


def _descriptor_of(pid: int) -> int | None:
    """Return a descriptor that never means another process, as a pid does once its process has ended.

    None where the system has none: before Linux 5.3, in some sandboxes and on macOS.
    """
    with suppress(AttributeError, OSError):
        return os.pidfd_open(pid)
    return None


class ForkServerDied(Exception):
    """The fork server was killed while it was to fork a worker, and nothing tells whether it has."""


class ForkServer:
    """Forks worker processes."""

    # Whether this process has none of the user's code, which a fork would share: a file with `main()` has it.
    may_fork_here = True

    def __init__(self, *, here: bool = False) -> None:
        """Start one; `here` forks it off this process, which must have no threads and no user code yet."""
        self.pid, self._socket = _fork() if here and self.may_fork_here else _start()
        self._patience = 1.0  # times SPAWN_TIMEOUT

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the fork server, once its last worker has ended; this process does not end before it."""
        self._socket.close()
        # In a thread, which the interpreter joins: meanwhile the results of the run are written.
        threading.Thread(target=_wait_for, args=(self.pid,), name=WAITING_THREAD).start()

    async def spawn(self, channel: int, markers: int, output: int) -> WorkerProcess:
        """Fork a worker with these file descriptors; raises ForkServerDied once another one is started.

        It may have forked a worker before it died, which has the descriptors: another worker needs new ones.
        """
        used, timeout = self._socket, self._patience * SPAWN_TIMEOUT.total_seconds()
        try:
            async with asyncio.timeout(timeout):
                return await self._spawn(channel, markers, output)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise  # of this process, which opens some for each worker
            is_frozen = isinstance(error, TimeoutError)
            how = f"has not responded for {timeout:g} s" if is_frozen else "has died"
            if used is self._socket:  # else another call has started one
                log.warning("The fork server, which starts workers, %s; starting another.", how)
                # On a busy machine its imports take long, and those of another one as long again.
                self._patience *= 2 if is_frozen else 1
                # Its workers live on.
                _kill(self.pid)
                self.close()
                self.pid, self._socket = _start()
            raise ForkServerDied(f"the fork server {how}") from error

    async def _spawn(self, channel: int, markers: int, output: int) -> WorkerProcess:
        ours, theirs = os.pipe()
        try:
            status, pipe = await read_pipe(ours)
            socket.send_fds(self._socket, [b"+"], [channel, markers, output, theirs])
        finally:
            os.close(theirs)
        pid = b""
        try:
            pid = await status.readline()
        finally:
            if not pid:
                pipe.close()
        if not pid:
            raise ConnectionError("the fork server has died")
        return WorkerProcess(int(pid), status, pipe)


async def read_pipe(pipe: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Return a reader of this pipe, and the transport to close at the end."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(pipe, "rb", 0))
    return reader, transport


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _wait_for(pid: int) -> None:
    """Wait for the end of a fork server whose socket is closed; kill one that is frozen."""
    ends = time.monotonic() + CLOSE_TIMEOUT.total_seconds()
    with suppress(ChildProcessError):  # other code of this process has waited for any child
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > ends:
                _kill(pid)
            time.sleep(0.01)


def _start() -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        as_stdin = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
        command = [sys.executable, "-m", __name__]
        pid = os.posix_spawn(
            sys.executable, command, os.environ, file_actions=as_stdin, setsigmask=IGNORED_SIGNALS
        )
        return pid, ours


def _fork() -> tuple[int, socket.socket]:
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        try:
            _serve(theirs)
        except BaseException:
            # It must not reach the handlers of the process that was copied.
            traceback.print_exc()
            os._exit(1)
    theirs.close()
    return pid, ours


def _serve(sock: socket.socket) -> NoReturn:
    """Fork workers and report their exit codes, until the socket is closed and the last worker has ended."""
    # The terminal sends signals to the whole group; the launcher handles them.
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED_SIGNALS)  # blocked while it imports
    child_exits = _sigchld_pipe()
    gc.freeze()  # without a collection first, for which the first worker would wait
    requests: list[socket.socket | int] = [sock]
    status_pipes: dict[int, int] = {}  # by the pid of each live worker
    while requests or status_pipes:
        for source in select.select([*requests, child_exits], [], [])[0]:
            if source == child_exits:
                os.read(child_exits, 4096)
                _report_exits(status_pipes)
            elif not _fork_worker(sock, status_pipes):
                requests.clear()
    os._exit(0)


def _sigchld_pipe() -> int:
    """Return a pipe that becomes readable whenever a child process ends."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def _fork_worker(sock: socket.socket, status_pipes: dict[int, int]) -> bool:
    request, descriptors, _, _ = socket.recv_fds(sock, 1, DESCRIPTORS)
    if not request:
        return False
    channel, markers, output, status_pipe = descriptors
    # Blocked, a signal that arrives before the worker can handle it stays pending; ignored, as here, it would
    # be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if not pid:
        _run_child(channel, markers, output)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for descriptor in (channel, markers, output):
        os.close(descriptor)
    status_pipes[pid] = status_pipe
    with suppress(OSError):
        os.write(status_pipe, b"%d\n" % pid)
    return True


def _report_exits(status_pipes: dict[int, int]) -> None:
    for pid in list(status_pipes):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            status_pipe = status_pipes.pop(pid)
            with suppress(OSError):
                os.write(status_pipe, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(status_pipe)


def _run_child(channel: int, markers: int, output: int) -> NoReturn:
    """Run a worker in the forked process; undo the fork server's signal handlers and descriptors first."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # New objects: the old ones may be anything, and may hold unflushed output of the launcher.
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)

    sys.argv = [main.__name__]
    _close_all_but(channel, markers)
    main.main(channel, markers)


def _close_all_but(*kept: int) -> None:
    lowest = 3
    for descriptor in sorted(kept):
        os.closerange(lowest, descriptor)
        lowest = descriptor + 1
    os.closerange(lowest, MAX_DESCRIPTOR)


if __name__ == "__main__":
    _serve(socket.socket(fileno=os.dup(0)))
