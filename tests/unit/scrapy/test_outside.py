"""Requests that belong to no task: their order, and what is counted of them."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.model import EnqueueReport, RunSettings, Task
from shoal.scrapy.outside import OutsideRequests


def task(name):
    return Task(url=f"http://a.example/{name}")


async def as_they_are(tasks):
    return tasks


@pytest.mark.parametrize("order", [1, -1])
async def test_requests_are_enqueued_a_moment_later_in_their_order(queue, order):
    run = await queue.start_run("spider", settings=RunSettings(host_delay=timedelta(0)))
    enqueued = asyncio.Event()
    outside = OutsideRequests(queue, run.id, as_they_are, lambda _: enqueued.set(), order)
    names = ["first", "second", "third"]
    for name in names:
        outside.add(task(name), is_start=True)
    outside.add(task("other"))
    await enqueued.wait()
    claimed = []
    while grant := (await queue.claim("worker", run_id=run.id, limit=1)).leases:
        claimed += [lease.task.url.rpartition("/")[2] for lease in grant]
    assert claimed == ["other", *names[::order]]


async def test_what_the_queue_has_not_added_is_counted(queue):
    run = await queue.start_run("spider", settings=RunSettings(host_delay=timedelta(0)))
    reports = []
    outside = OutsideRequests(queue, run.id, as_they_are, reports.append)
    for name in ("a", "b", "a"):
        outside.add(task(name))
    outside.add(Task(step="x" * 10_000))
    assert await outside.flush() == reports[0] == EnqueueReport(added=2, duplicate=1, invalid=1)
