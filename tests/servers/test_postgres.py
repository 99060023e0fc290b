"""The private PostgreSQL keeps its data through anything but its end, and leaves nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import or_skip
from tests.servers.postgres import PostgresServer
from tests.servers.process import wait_until


@pytest.fixture(scope="module")
def server():
    with or_skip(PostgresServer) as server:
        server.sql("CREATE TABLE kept AS SELECT 42 AS answer")
        yield server


def test_a_durable_one_waits_for_the_disk_and_leaves_nothing_when_it_is_closed():
    with or_skip(lambda: PostgresServer(durable=True)) as durable:
        assert durable.sql("SHOW fsync", "SHOW synchronous_commit") == "on\non"
        pid = durable.pid
    assert not durable.folder.exists()
    assert not _is_running(pid)


LINGER = """
import signal
from tests.servers.postgres import PostgresServer
server = PostgresServer()
server.start()
print(server.pid, server.folder, flush=True)
signal.pause()
"""


def test_it_ends_with_tests_that_are_killed(server):
    with subprocess.Popen([sys.executable, "-c", LINGER], stdout=subprocess.PIPE, text=True) as tests:
        pid, folder = tests.stdout.readline().split()
        os.kill(tests.pid, signal.SIGKILL)
    wait_until(lambda: not _is_running(pid), "the server to end with its parent", 10)
    shutil.rmtree(folder)


def _is_running(pid):
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
