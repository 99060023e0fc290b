import asyncio
import socket

from shoal.worker.ipc.protocol import STOP, WAKE
from shoal.worker.process.main import handle_messages
from shoal.worker.worker import Stop


async def test_a_supervisor_that_dies_with_unread_messages_stops_its_worker():
    stops = asyncio.Queue()
    supervisor, worker = socket.socketpair()
    handle_messages(worker, stops.put_nowait, {})
    worker.send(b"a report that nobody reads")
    supervisor.close()  # which resets the connection
    async with asyncio.timeout(5):
        assert await stops.get() is Stop.FINISH
    worker.close()


async def test_a_supervisor_wakes_its_worker_without_stopping_it():
    stops, wakes = asyncio.Queue(), asyncio.Queue()
    supervisor, worker = socket.socketpair()
    handle_messages(worker, stops.put_nowait, {WAKE: lambda: wakes.put_nowait(True)})
    supervisor.send(WAKE)
    async with asyncio.timeout(5):
        await wakes.get()
    assert stops.empty()
    supervisor.send(WAKE + STOP)
    async with asyncio.timeout(5):
        assert await stops.get() is Stop.FINISH
    supervisor.close()
    async with asyncio.timeout(5):
        assert await stops.get() is Stop.RELEASE
    worker.close()
