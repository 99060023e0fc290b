"""A note whose writer lost its request or its answer is written once, and the writer hears so."""

import asyncio

import pytest

from shoal.queue.contract import GONE
from tests.conformance.helpers import ME, pages, start
from tests.integration.shaky import LOST_TWICE

# RabbitMQ keeps its notes in Redis.
pytestmark = pytest.mark.parametrize("stand", ["postgres", "redis"], indirect=True)

TOPIC = "proxies"


async def test_a_note_is_written_and_read(shaky, queue):
    async with shaky.on("write_notes") as it:
        await it.write_notes(TOPIC, {"a": b"1", "b": b"2"})
    async with shaky.on("notes") as it:
        assert {key: note.value for key, note in (await it.notes(TOPIC)).items()} == {"a": b"1", "b": b"2"}


async def test_a_swap_succeeds_once(shaky, queue):
    async with shaky.on("swap_note") as it:
        made = await it.swap_note(TOPIC, "a", b"1", stamp=None)
    assert (await queue.notes(TOPIC))["a"].stamp == made.stamp
    async with shaky.on("swap_note") as it:
        assert await it.swap_note(TOPIC, "a", None, stamp=made.stamp) == GONE
    assert await queue.notes(TOPIC) == {}


async def test_a_swap_that_came_too_late_fails_however_often_it_is_made(shaky, queue):
    await queue.write_notes(TOPIC, {"a": b"1"})
    async with shaky.on("swap_note") as it:
        assert await it.swap_note(TOPIC, "a", b"2", stamp=None) is None
    assert (await queue.notes(TOPIC))["a"].value == b"1"


async def test_a_trim_counts_what_went(shaky, queue):
    await queue.write_notes(TOPIC, {"a": b"x" * 10, "b": b"x" * 10})
    async with shaky.on("trim_notes") as it:
        assert await it.trim_notes(TOPIC, max_bytes=5) == 2
    assert await queue.notes(TOPIC) == {}


async def test_a_fenced_claim_keeps_what_it_got(shaky, queue):
    run = await start(queue, *pages(3))
    note = await queue.swap_note("plans", "books", b"1", stamp=None)
    async with shaky.on("claim") as it:
        grant = await it.claim(ME, run_id=run.id, fence=("plans", "books", note.stamp))
    assert (len(grant.leases), grant.outdated) == (3, False)
    await queue.write_notes("plans", {"books": b"2"})
    async with shaky.on("claim") as it:
        assert (await it.claim(ME, run_id=run.id, fence=("plans", "books", note.stamp))).outdated


async def interrupted(shaky, verb, call, meanwhile):
    """Lose the answer of a call, do something before it is repeated, and return what it says then."""
    async with shaky.on(verb):
        calling = asyncio.create_task(call)
        while not shaky.proxy.struck:
            await asyncio.sleep(0)
        await shaky.proxy.refuse()
        await meanwhile
        await shaky.proxy.accept()
        return await calling


async def test_a_swap_is_not_said_to_have_failed_because_another_came_after_it(shaky, queue):
    """A counter would else be counted up twice."""

    async def another():
        stamp = (await queue.notes(TOPIC))["a"].stamp
        assert await queue.swap_note(TOPIC, "a", b"2", stamp=stamp)

    swap = shaky.queue.swap_note(TOPIC, "a", b"1", stamp=None)
    assert await interrupted(shaky, "swap_note", swap, another())
    assert (await queue.notes(TOPIC))["a"].value == b"2"


async def test_a_write_is_not_repeated_over_what_came_after_it(shaky, queue):
    write = shaky.queue.write_notes(TOPIC, {"a": b"1"})
    await interrupted(shaky, "write_notes", write, queue.write_notes(TOPIC, {"a": b"2"}))
    assert (await queue.notes(TOPIC))["a"].value == b"2"


@pytest.mark.parametrize("shaky", [LOST_TWICE], indirect=True)
async def test_an_answer_that_is_lost_twice_is_heard_the_third_time(shaky, queue):
    async with shaky.on("swap_note") as it:
        assert await it.swap_note(TOPIC, "a", b"1", stamp=None)
