"""Where workers are born: a process that has loaded all they need splits off a copy of itself for each.

Loading takes a good part of a second. Every worker would have to wait for it, and every one that takes the
place of a dead one. The nursery has no threads, no event loop and none of the user's code, so that a copy of
it is as good as a new process.
"""

import asyncio
import gc
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from types import TracebackType
from typing import NoReturn, Self

from shoal.worker import child

HIGHEST_DESCRIPTOR = 65_536
DESCRIPTORS = 4  # that come with a worker: its line, its marks, its output, and its page in the register


class WorkerProcess:
    """A worker as its keeper sees it."""

    def __init__(self, pid: int, register: asyncio.StreamReader, pipe: asyncio.ReadTransport) -> None:
        self.pid = pid
        self._register, self._pipe = register, pipe
        self.has_ended = False

    def kill(self) -> None:
        """End it now."""
        if not self.has_ended:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    async def wait(self) -> int | None:
        """Return its exit code when it has ended: a signal is negative, and None means that nobody knows."""
        try:
            line = await self._register.readline()
        finally:
            self._pipe.close()
        self.has_ended = True
        return int(line) if line else None


class Nursery:
    """Brings workers into the world."""

    def __init__(self, *, here: bool = False) -> None:
        """Start one; `here` splits it off this process, which must not have threads or a user's code yet."""
        self.pid, self._socket = _split_off() if here else _start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the nursery, once its last worker has ended."""
        self._socket.close()
        os.waitpid(self.pid, 0)

    async def bear(self, line: int, marks: int, output: int) -> WorkerProcess:
        """Bring a worker into the world that has these descriptors."""
        try:
            return await self._bear(line, marks, output)
        except OSError:
            # Somebody has ended the nursery. What it brought up lives on.
            self.close()
            self.pid, self._socket = _start()
            return await self._bear(line, marks, output)

    async def _bear(self, line: int, marks: int, output: int) -> WorkerProcess:
        page, theirs = os.pipe()
        try:
            register, pipe = await read_pipe(page)
            socket.send_fds(self._socket, [b"+"], [line, marks, output, theirs])
        finally:
            os.close(theirs)
        pid = await register.readline()
        if not pid:
            pipe.close()
            raise ConnectionError("the nursery has died")
        return WorkerProcess(int(pid), register, pipe)


async def read_pipe(pipe: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Return a reader of this pipe, and what is to be closed in the end."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(pipe, "rb", 0))
    return reader, transport


def _start() -> tuple[int, socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        as_stdin = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
        command = [sys.executable, "-m", __name__]
        return os.posix_spawn(sys.executable, command, os.environ, file_actions=as_stdin), ours


def _split_off() -> tuple[int, socket.socket]:
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        ours.close()
        _serve(theirs)
    theirs.close()
    return pid, ours


def _serve(sock: socket.socket) -> NoReturn:
    """Bear workers and keep the register, until nobody can ask for more and the last one has ended."""
    # What the terminal sends to all is for the launcher to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    bell = _ring_at_deaths()
    gc.collect()
    gc.freeze()
    asking: list[socket.socket | int] = [sock]
    register: dict[int, int] = {}
    while asking or register:
        for source in select.select([*asking, bell], [], [])[0]:
            if source == bell:
                os.read(bell, 4096)
                _enter_deaths(register)
            elif not _bear(sock, register):
                asking.clear()
    os._exit(0)


def _ring_at_deaths() -> int:
    bell, striker = os.pipe()
    os.set_blocking(striker, False)
    signal.set_wakeup_fd(striker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return bell


def _bear(sock: socket.socket, register: dict[int, int]) -> bool:
    said, descriptors, _, _ = socket.recv_fds(sock, 1, DESCRIPTORS)
    if not said:
        return False
    line, marks, output, page = descriptors
    # A sign that comes before the worker can obey it waits; ignored, as it is here, it would be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = os.fork()
    if not pid:
        _live(line, marks, output)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for descriptor in (line, marks, output):
        os.close(descriptor)
    register[pid] = page
    with suppress(OSError):
        os.write(page, b"%d\n" % pid)
    return True


def _enter_deaths(register: dict[int, int]) -> None:
    for pid in list(register):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            page = register.pop(pid)
            with suppress(OSError):
                os.write(page, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(page)


def _live(line: int, marks: int, output: int) -> NoReturn:
    """Be a worker, and forget the nursery."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # New ones: the old may be anything, and hold what the launcher was about to say.
    sys.stdout = os.fdopen(1, "w", buffering=1, errors="replace", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="replace", closefd=False)
    sys.argv = [child.__name__]
    _close_all_but(line, marks)
    child.main(line, marks)


def _close_all_but(*kept: int) -> None:
    lowest = 3
    for descriptor in sorted(kept):
        os.closerange(lowest, descriptor)
        lowest = descriptor + 1
    os.closerange(lowest, HIGHEST_DESCRIPTOR)


if __name__ == "__main__":
    _serve(socket.socket(fileno=os.dup(0)))
