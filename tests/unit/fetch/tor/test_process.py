"""What Tor's events mean."""

import asyncio
from types import SimpleNamespace

import pytest

from shoal.fetch.tor.process import TorProcess

DONE = 'STATUS_CLIENT NOTICE BOOTSTRAP PROGRESS=100 TAG=done SUMMARY="Done"'
LOST = "STATUS_CLIENT NOTICE CIRCUIT_NOT_ESTABLISHED REASON=CLOCK_JUMPED"
FOUND = "STATUS_CLIENT NOTICE CIRCUIT_ESTABLISHED"


@pytest.fixture
async def changes():
    return []


@pytest.fixture
async def tor(changes):
    silent = asyncio.StreamReader()
    silent.feed_eof()
    process = TorProcess(SimpleNamespace(stdout=silent, pid=1, returncode=None), lambda: changes.append(None))
    yield process
    await asyncio.wait([process._output_reader])


async def test_it_is_up_when_it_is_done_and_has_a_circuit(tor, changes):
    for event in ('NOTICE BOOTSTRAP PROGRESS=5 TAG=conn SUMMARY="Connecting to a relay"', FOUND):
        tor._on_event(event)
        assert not tor.is_up
    assert (tor.progress, tor.activity) == (5, "Connecting to a relay")
    tor._on_event(DONE)
    assert tor.is_up and len(changes) == 1


async def test_it_is_not_up_while_it_has_no_circuit(tor, changes):
    for event, is_up in ((DONE, True), (LOST, False), (LOST, False), (FOUND, True)):
        tor._on_event(event)
        assert tor.is_up is is_up
    assert len(changes) == 3


async def test_a_problem_is_what_it_says_it_is_doing(tor):
    tor._on_event(
        'STATUS_CLIENT WARN BOOTSTRAP PROGRESS=10 TAG=conn_done SUMMARY="Connected"'
        ' WARNING="No route to host" REASON=NOROUTE COUNT=1 RECOMMENDATION=warn'
    )
    assert (tor.progress, tor.activity) == (10, "No route to host")


@pytest.mark.parametrize("event", ["", "BOOTSTRAP PROGRESS=", "STATUS_CLIENT NOTICE NEW_THING A=1"])
async def test_the_unknown_changes_nothing(tor, changes, event):
    tor._on_event(event)
    assert (tor.progress, changes) == (0, [])
