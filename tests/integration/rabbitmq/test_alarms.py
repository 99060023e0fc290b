"""A broker that is short of memory or disk takes no task, and what it has is worked off."""

import asyncio
from contextlib import contextmanager

import pytest

from shoal.core.errors import QueueFull
from shoal.core.model import SECOND, ZERO, Done
from shoal.queue.rabbitmq import broker
from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.conformance.helpers import claim, claim_all, page, pages, start


@pytest.fixture
def rabbitmq(unshared_rabbitmq):
    """A broker that no other process uses, because an alarm stops all who publish."""
    return unshared_rabbitmq


@pytest.mark.long
async def test_a_broker_that_is_short_of_memory_is_full(queue, rabbitmq, rabbitmq_url, monkeypatch):
    run = await start(queue, *pages(3))
    monkeypatch.setattr(broker, "CALL_TIMEOUT_SECONDS", 1.0)
    rabbitmq.set_memory_limit("1MB")
    try:
        with pytest.raises(QueueFull, match="short of memory"):
            await queue.enqueue(run.id, pages(3, "b.example"))
        assert len(await claim_all(queue, run)) == 3
    finally:
        rabbitmq.set_memory_limit("1GB")
    async with await RabbitQueue.open(rabbitmq_url, skew=lambda: 6 * SECOND) as later:
        assert len(await claim_all(later, run)) == 3


@pytest.mark.long
@pytest.mark.parametrize("alarm", ["memory", "disk"])
async def test_while_the_broker_takes_nothing_what_it_has_is_worked_off(
    rabbitmq, rabbitmq_url, monkeypatch, caplog, alarm
):
    later = ZERO
    monkeypatch.setattr(broker, "CALL_TIMEOUT_SECONDS", 1.0)
    async with await RabbitQueue.open(rabbitmq_url, skew=lambda: later) as queue:
        run = await start(queue, *(page(n, f"h{n}.example") for n in range(3_000)))
        leases = await claim(queue, run, limit=10)
        with alarmed(rabbitmq, alarm):
            follow = [page(n, "late.example") for n in range(10)]
            # This one waits; after it the connection is known to be blocked.
            await queue.settle([Done(leases[0], follow=follow)])
            monkeypatch.setattr(broker, "CALL_TIMEOUT_SECONDS", 60.0)
            async with asyncio.timeout(30):
                await queue.settle([Done(lease, follow=pages(3, lease.task_id)) for lease in leases[1:]])
            monkeypatch.setattr(broker, "CALL_TIMEOUT_SECONDS", 1.0)
            later = 6 * SECOND  # the bundles are overdue
            done = 10
            while new := await claim(queue, run, limit=500):
                await queue.settle([Done(lease) for lease in new])
                done += len(new)
            assert done == 3_000
            assert "short of memory or disk" in caplog.text
            with pytest.raises(QueueFull):
                await queue.enqueue(run.id, pages(3, "c.example"))
        monkeypatch.setattr(queue._transport, "_next_resend", 0.0)
        later = 12 * SECOND
        rest = await claim_all(queue, run)
        assert len(rest) == 10 + 9 * 3 + 3
        await queue.purge(run.id)


@contextmanager
def alarmed(rabbitmq, alarm):
    """Make the broker short of memory or disk."""
    few, many = ("1MB", "1GB") if alarm == "memory" else ("900000GB", "50MB")
    limit = rabbitmq.set_memory_limit if alarm == "memory" else rabbitmq.set_disk_limit
    limit(few)
    try:
        yield
    finally:
        limit(many)
