"""Thousands of hosts, one after the other: idle connections do not use up all file descriptors."""

import asyncio
import json
import subprocess
import sys

import pytest

HOSTS, FILES = 400, 200
ASK_ALL = f"""
import asyncio, json, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))
from shoal.core.http import Request
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import open_engine

async def main():
    fetcher = open_engine(egress=Egress(["127.0.0.0/8"]), user_agent="test")
    statuses = [(await fetcher.fetch(Request(url=url))).status for url in json.load(sys.stdin)]
    print(len(statuses), set(statuses))
    await fetcher.close()

asyncio.run(main())
"""


async def serve(reader, writer):
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    except asyncio.IncompleteReadError:
        writer.close()


@pytest.fixture
async def hosts():
    """URLs of hosts that keep every connection open."""
    addresses = [f"127.1.{number // 200}.{number % 200 + 1}" for number in range(HOSTS)]
    first = await asyncio.start_server(serve, addresses[0], 0)
    port = first.sockets[0].getsockname()[1]
    others = await asyncio.start_server(serve, addresses[1:], port)
    yield [f"http://{address}:{port}/" for address in addresses]
    for server in (first, others):
        server.close()


async def test_hosts_that_are_known_by_their_address_do_not_use_up_the_files(hosts):
    words = [sys.executable, "-c", ASK_ALL]
    done = await asyncio.to_thread(
        subprocess.run, words, input=json.dumps(hosts), capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == f"{HOSTS} {{200}}", done.stderr[-500:]
