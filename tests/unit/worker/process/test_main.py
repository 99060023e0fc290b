import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.worker.ipc.protocol import STOP, WAKE
from shoal.worker.process.main import FILE_TABLE_SIZE, handle_messages
from shoal.worker.worker import Stop

PRINT_SIZE = "print(open('/proc/self/status').read().split('FDSize:')[1].split()[0])"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux shows the size of the table")
def test_a_new_worker_grows_its_file_table_before_it_has_threads():
    prepare = "from shoal.worker.process.main import allow_many_files; allow_many_files();"
    assert _size_of_table(PRINT_SIZE) < FILE_TABLE_SIZE
    assert _size_of_table(prepare + PRINT_SIZE) >= FILE_TABLE_SIZE


def _size_of_table(program):
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout)


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
