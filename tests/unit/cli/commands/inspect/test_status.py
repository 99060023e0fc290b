"""What `runs`, `status` and `check` print for a queue with a namespace."""

import asyncio

import msgspec
import pytest

from shoal.cli.commands.inspect.status import runs, status
from shoal.core.model import MINUTE
from shoal.fleet.status.doctor import _check_queue
from shoal.fleet.status.hook_records import FINISH, START, HookRecord, HookState, topic_of
from shoal.queue.open import open_queue


@pytest.fixture
def address(tmp_path):
    """A queue with a run, in a namespace."""
    url = f"sqlite:///{tmp_path}/books.db?namespace=news"

    async def fill():
        async with open_queue(url) as queue:
            await queue.start_run("books", run_id="daily")

    asyncio.run(fill())
    return url


@pytest.mark.parametrize("look", [lambda url: runs(url), lambda url: status(None, url)])
def test_the_address_is_shown_with_its_namespace_and_the_other_queue_has_no_run(look, address, capsys):
    look(address)
    said = capsys.readouterr()
    assert "?namespace=news" in said.err
    assert "daily" in said.out + said.err


def test_without_a_namespace_none_is_shown(address, capsys):
    runs(address.partition("?")[0])
    said = capsys.readouterr()
    assert "namespace=" not in said.err
    assert "daily" not in said.out


async def test_check_names_the_queue_that_it_reached(tmp_path):
    url = f"sqlite:///{tmp_path}/books.db?namespace=news"
    findings = [finding async for finding in _check_queue(url)]
    assert "books.db?namespace=news, schema version" in findings[0].says


def test_a_hook_that_is_running_and_one_that_was_interrupted_are_named(address, capsys):
    calling = HookRecord(
        state=HookState.RUNNING,
        token=1,
        process="machine-7-abcd",
        limit=MINUTE,
        hook="on_run_start prepare",
    )
    stopped = HookRecord(
        state=HookState.INTERRUPTED,
        token=1,
        process="machine-8-efgh",
        hook="on_run_finish report",
        error="it was stopped",
    )

    async def call():
        async with open_queue(address) as queue:
            notes = {START: msgspec.json.encode(calling), FINISH: msgspec.json.encode(stopped)}
            await queue.write_notes(topic_of("daily"), notes)

    asyncio.run(call())
    status("daily", address)
    out = capsys.readouterr().out
    assert "The hook on_run_start prepare is running (in process machine-7-abcd)." in out
    assert "The hook on_run_finish report failed: it was stopped (in process machine-8-efgh)." in out
