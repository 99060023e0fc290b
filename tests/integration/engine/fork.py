"""A process that has imported what commands need, and forks one for each command that is typed.

A start of `python -m shoal` takes a third of a second of processor time, most of it for imports, and tests
type hundreds of commands. A forked one has the folder, the environment and the streams of its own, imports
`shoal.cli` itself, and ends as any interpreter does; what it starts, it starts as ever.
"""

import asyncio
import gc
import json
import os
import runpy
import signal
import socket
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib import import_module

from tests.integration.fork_workers import QUEUES, reap, template

# Nothing of `shoal.cli`: it may look at the environment when it is imported.
MODULES = (
    *("typer", "rich.console", "rich.live", "rich.progress", "rich.table", "uvloop"),
    *("shoal.fleet.app", "shoal.fleet.run.launch", "shoal.fleet.status.progress"),
    *(
        "shoal.worker.process.main",
        "shoal.export.follow",
        "shoal.export.files.jsonl",
        "shoal.discover.feed",
        "shoal.scrape.load",
    ),
    *QUEUES,
)
MAX_REQUEST = 1 << 17  # bytes


async def run_forked(words, folder, environment):
    """Run a command to its end; return its exit code and what it wrote to stdout and stderr."""
    pipes = [os.pipe() for _ in range(3)]
    request = json.dumps({"words": words, "folder": str(folder), "environment": environment}).encode()
    _, requests = template(__name__)
    socket.send_fds(requests, [request], [write for _, write in pipes])
    for _, write in pipes:
        os.close(write)
    async with AsyncExitStack() as stack:
        status, *streams = [await stack.enter_async_context(_open(read)) for read, _ in pipes]
        pid = int(await status.readline())
        try:
            out, err = await asyncio.gather(*(stream.read() for stream in streams))
            return int(await status.readline()), out, err
        except asyncio.CancelledError:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            raise


@asynccontextmanager
async def _open(descriptor):
    reader = asyncio.StreamReader()
    with os.fdopen(descriptor, "rb", 0) as file:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        try:
            yield reader
        finally:
            transport.close()


def serve(requests):
    """Fork a process for each request; return the words of a command in a process that is to run it."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, 3)
        if not data:
            sys.exit()  # the tests have ended
        if not os.fork():
            requests.close()
            return watch(json.loads(data), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def watch(request, status, *streams):
    """Fork the process of a command, report how it ends, and end; return its words in that process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if not pid:
        os.close(status)
        return prepare(request, streams)
    for stream in streams:
        os.close(stream)
    os.write(status, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(status, f"{code}\n".encode())
    os._exit(0)


def prepare(request, streams):
    """Make this the process of a command."""
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, descriptor in enumerate(streams, 1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.path[0] = request["folder"]
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    return request["words"]


if __name__ == "__main__":
    for module in MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, reap)
    sys.argv = ["shoal", *serve(socket.socket(fileno=int(sys.argv[1])))]
    runpy.run_module("shoal", run_name="__main__", alter_sys=True)
