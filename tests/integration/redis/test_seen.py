"""Keys are still found when the buckets that hold them are split.

A group of keys has one bucket until it holds 400 of them, so the first split of a run comes at about 25,000
tasks. Here all keys are of one group, which is split three times by a few hundred.
"""

from itertools import count, islice

from shoal.core.model import EnqueueReport, RunSettings, Task
from shoal.queue.intake import Intake
from shoal.queue.redis.records import GROUPS
from tests.conformance.helpers import unhurried
from tests.conformance.test_dedup import WEEK

KEYS = 850  # beyond 400, 600 and 800


def of_one_group(intake: Intake, name: str) -> list[Task]:
    """Return tasks whose ids, or keys in all runs of the scraper, are in the same group."""
    entries = ((task, intake.entry(task)) for task in (Task(key=f"k{number}") for number in count()))
    found = (task for task, entry in entries if getattr(entry, name)[7] % GROUPS == 0)
    return list(islice(found, KEYS))


async def test_what_a_run_has_seen_stays_seen(queue, direct):
    run = await queue.start_run("books", settings=RunSettings())
    tasks = of_one_group(Intake(run.id, run.settings), "id")
    assert await queue.enqueue(run.id, tasks) == EnqueueReport(added=KEYS)
    assert len([key async for key in direct.scan_iter("*:seen:0:*", count=10_000)]) == 4
    assert await queue.enqueue(run.id, tasks) == EnqueueReport(duplicate=KEYS)


async def test_what_other_runs_know_stays_known(queue, direct):
    settings = unhurried(dedup=WEEK)
    tasks = of_one_group(Intake("any", settings, "books"), "scraper_key")
    first, second = [await queue.start_run("books", settings=settings) for _ in range(2)]
    assert await queue.enqueue(first.id, tasks) == EnqueueReport(added=KEYS)
    assert len([key async for key in direct.scan_iter("*:known:*:0:*", count=10_000)]) == 4
    assert await queue.enqueue(second.id, tasks) == EnqueueReport(known=KEYS)
