"""The channel from a worker to its supervisor."""

import asyncio
import os
import socket
from threading import Thread

import pytest

from shoal.core.model import SECOND, ZERO, Lease, Task
from shoal.core.request_options import RequestOptions
from shoal.worker.ipc.protocol import ExitReason, SupervisorChannel, WorkerEnded, WorkerFailed, read_message


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


async def test_every_message_arrives_after_a_supervisor_was_stalled(ends):
    ours, theirs = ends
    os.set_blocking(theirs.fileno(), False)  # as an event loop does that reads from it
    channel, text = SupervisorChannel(theirs), "x" * 10_000

    def send():
        for _ in range(200):  # far more than the buffer of a socket takes
            channel.send(WorkerFailed(text))
        channel.send(WorkerEnded(ExitReason.DRAINED))
        theirs.close()

    sender = Thread(target=send)
    sender.start()
    sender.join(0.3)
    assert sender.is_alive()  # it waits
    reader, writer = await asyncio.open_connection(sock=ours)
    messages = []
    while message := await read_message(reader):
        messages.append(message)
    assert messages == [WorkerFailed(text)] * 200 + [WorkerEnded(ExitReason.DRAINED)]
    await asyncio.to_thread(sender.join)
    writer.close()


def test_a_worker_goes_on_when_its_supervisor_is_gone(ends):
    ours, theirs = ends
    os.set_blocking(theirs.fileno(), False)
    ours.close()
    channel = SupervisorChannel(theirs)
    for _ in range(3):
        channel.send(WorkerEnded(ExitReason.DRAINED))


async def test_a_supervisor_learns_the_leases_of_a_claim_without_their_payloads(ends):
    ours, theirs = ends
    url, big = "https://a.example/books", "x" * (1 << 20)
    task = Task(url=url, step="book", payload={"text": big}, request=RequestOptions(post=big.encode()))
    leases = [
        Lease(
            run_id="r", task_id=f"{n:032x}", token=n, task=task, attempt=1, start_in=ZERO, deadline_in=SECOND
        )
        for n in range(100)
    ]
    reader, writer = await asyncio.open_connection(sock=ours, limit=100_000)
    assert SupervisorChannel(theirs).report_claimed(leases) == range(1, 101)
    told = await read_message(reader)
    assert [lease.token for lease in told.leases] == list(range(100))
    assert all(lease.task == Task(url=url, step="book") for lease in told.leases)
    writer.close()
