"""No name is resolved on this machine: the kernel would end whoever tries."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.integration.processes import start_process
from tests.integration.tor.walled import SYSTEMS

pytestmark = [
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(
        os.uname().machine not in SYSTEMS, reason="the seccomp filter knows x86_64 and aarch64 only"
    ),
]
ROOT = Path(__file__).parents[3]


async def walled(*words):
    """Run the program behind the wall; return its exit code and what it said."""
    process = await start_process(
        *(sys.executable, "-m", "tests.integration.tor.walled", *map(str, words)),
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    async with asyncio.timeout(90):
        said, failure_reason = await process.communicate()
    return process.returncode, said.decode(), failure_reason.decode()


async def test_a_process_that_looks_up_a_name_is_ended():
    """The negative control: the wall is there."""
    code, _, failure_reason = await walled("lookup", "http://www.faraway.test/")
    assert code == -signal.SIGSYS, failure_reason


async def test_neither_a_worker_nor_its_tor_looks_up_a_name(tor_network, target):
    code, said, failure_reason = await walled(tor_network.torrc, target.url("/page", host="www.hidden.test"))
    assert (code, said in tor_network.exits) == (0, True), failure_reason
    assert [visit.path for visit in target.visits] == ["/robots.txt", "/page"]
    assert "www.hidden.test" in tor_network.names.asked
