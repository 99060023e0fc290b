"""The fork server of a command: forked before its options are read, if it is known to start workers."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module

from shoal.core.errors import ShoalError
from shoal.queue.open import load_backend
from shoal.worker.process.forkserver import ForkServer

QUEUE = "--queue"
# What both the launcher and its workers import, before the fork: then it is done once.
SHARED = (
    "uvloop",
    "shoal.export.target",
    "shoal.queue.run_args",
    "shoal.scrape.load",
    "shoal.worker.background",
    "shoal.worker.files.counts",
    "shoal.worker.ipc.protocol",
    "shoal.worker.ipc.step_markers",
    "shoal.worker.left_out",
    "shoal.worker.page_limit",
    "shoal.worker.process.procfs",
    "shoal.worker.run_hooks.record",
    "shoal.worker.run_settings.follow",
    "shoal.worker.secrets",
    "shoal.worker.settling",
    "shoal.worker.slots",
    "shoal.worker.trap_counts",
)


class _Early:
    server: ForkServer | None = None


@contextmanager
def forked_early(typed: Sequence[str], queue: str) -> Iterator[None]:
    """Fork the server that `fork_server_for` returns inside the block; one that is not used ends with it.

    `queue` is the address that is used unless one is typed.
    """
    with suppress(ShoalError):  # which the command raises too, when it has read its options
        _Early.server = _fork(typed_queue(typed) or queue)
    try:
        yield
    finally:
        unused, _Early.server = _Early.server, None
        if unused:
            os.kill(unused.pid, signal.SIGKILL)
            unused.close()


def typed_queue(typed: Sequence[str]) -> str:
    """Return the address of the queue among typed words, which are not parsed yet; empty if there is none."""
    for index, word in enumerate(typed):
        if word == QUEUE:
            return next(iter(typed[index + 1 :]), "")
        if word.startswith(f"{QUEUE}="):
            return word.partition("=")[2]
    return ""


def fork_server_for(queue: str) -> ForkServer:
    """Return a fork server whose workers have the driver of this queue imported already."""
    server, _Early.server = _Early.server, None
    if server is None:
        return _fork(queue)
    load_backend(queue)  # raises for an address that cannot be used
    return server


def _fork(queue: str) -> ForkServer:
    for module in SHARED:
        import_module(module)
    load_backend(queue)
    return ForkServer(here=True)
