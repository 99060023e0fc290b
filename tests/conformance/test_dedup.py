"""With `dedup`, tasks that one run of a scraper has queued are skipped by its other runs for a while."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO, Bury, Done, EnqueueReport, Fate, Run, RunSettings, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Bench, Clock, by_contract, lasting, only_on
from tests.conformance.helpers import claim_all, claim_one, page, pages, start, unhurried

DAY = timedelta(days=1)
WEEK = 7 * DAY
# A key may be known for up to an eighth of its lifetime longer.
OVER = WEEK + WEEK / 8 + timedelta(hours=1)
HOSTS = [f"{letter}.example" for letter in "abcdefghijkl"]  # on several shards of a cluster


async def deduping(queue: Queue, *tasks: Task, scraper: str = "books", dedup: timedelta = WEEK) -> Run:
    """Start a run with dedup; all these tasks must be added."""
    run = await queue.start_run(scraper, settings=unhurried(dedup=dedup))
    report = await queue.enqueue(run.id, tasks)
    assert report == EnqueueReport(added=len(tasks)), f"not every task entered: {report}"
    return run


async def tasks_of(queue: Queue, run: Run) -> int:
    return (await queue.stats(run.id)).tasks


def articles() -> list[Task]:
    """Return tasks of many hosts, over http and https, and some without a URL."""
    urls = [
        Task(url=f"{scheme}://{host}/{n}") for scheme in ("http", "https") for host in HOSTS for n in "xy"
    ]
    return [*urls, *(Task(payload={"n": n}) for n in range(20)), *(Task(key=f"k{n}") for n in range(20))]


async def test_what_one_run_has_queued_is_known_to_the_next(queue: Queue) -> None:
    await deduping(queue, *articles())
    second = await deduping(queue)
    report = await queue.enqueue(second.id, [*articles(), page("new")])
    assert report == EnqueueReport(added=1, known=len(articles()))
    assert [lease.task.url for lease in await claim_all(queue, second)] == [page("new").url]


async def test_a_known_task_that_comes_twice_is_counted_twice(queue: Queue) -> None:
    await deduping(queue, page(1))
    second = await deduping(queue)
    report = await queue.enqueue(second.id, [page(1), page(1), page(2), page(2)])
    assert report == EnqueueReport(added=1, duplicate=1, known=2)


@only_on("sqlite", "redis")
async def test_many_keys_are_all_known(queue: Queue) -> None:
    many = pages(15_000)
    await deduping(queue, *many)
    second = await deduping(queue)
    assert await queue.enqueue(second.id, many) == EnqueueReport(known=len(many))
    assert await queue.enqueue(second.id, pages(15_100)) == EnqueueReport(known=len(many), added=100)


async def test_what_a_run_has_queued_itself_is_a_duplicate_to_it(queue: Queue) -> None:
    run = await deduping(queue, *articles())
    assert await queue.enqueue(run.id, articles()) == EnqueueReport(duplicate=len(articles()))
    again = await queue.start_run("books", settings=unhurried(dedup=WEEK), run_id=run.id)
    assert again.settings.dedup == WEEK
    assert await queue.enqueue(run.id, articles()) == EnqueueReport(duplicate=len(articles()))


async def test_without_dedup_a_run_neither_leaves_out_nor_makes_known(queue: Queue) -> None:
    await start(queue, page(1))
    await deduping(queue, page(1), page(2))
    await start(queue, page(1), page(2))


async def test_a_key_is_known_within_its_scraper_and_step(queue: Queue) -> None:
    await deduping(queue, page(1))
    await deduping(queue, page(1, step="detail"))
    await deduping(queue, page(1), scraper="shoes")
    third = await deduping(queue)
    assert (await queue.enqueue(third.id, [page(1), page(1, step="detail")])).known == 2


async def test_dedup_may_be_for_some_steps_only(queue: Queue) -> None:
    settings = unhurried(dedup=WEEK, dedup_steps=("article", "comment"))
    tasks = [page(1, step="listing"), page(1, step="article"), page(1, step="comment")]
    first = await queue.start_run("books", settings=settings)
    assert (await queue.run(first.id)).settings == settings
    assert (await queue.enqueue(first.id, tasks)).added == 3
    second = await queue.start_run("books", settings=settings)
    assert await queue.enqueue(second.id, tasks) == EnqueueReport(added=1, known=2)
    assert (await claim_one(queue, second)).task.step == "listing"


async def test_a_key_is_known_for_its_time_by_the_stores_clock_and_then_enters_again(
    queue: Queue, clock: Clock
) -> None:
    await deduping(queue, *articles())
    await clock.forward(WEEK - timedelta(minutes=1))
    second = await deduping(queue)
    assert (await queue.enqueue(second.id, articles())).known == len(articles())
    await clock.forward(OVER - WEEK)
    third = await deduping(queue, *articles())
    assert await tasks_of(queue, third) == len(articles())
    fourth = await deduping(queue)
    assert (await queue.enqueue(fourth.id, articles())).known == len(articles())


async def test_each_run_says_how_long_its_own_keys_are_known(queue: Queue, clock: Clock) -> None:
    await deduping(queue, page("short"), dedup=DAY)
    await deduping(queue, page("long"), dedup=WEEK)
    await clock.forward(2 * DAY)
    third = await queue.start_run("books", settings=unhurried(dedup=DAY))
    report = await queue.enqueue(third.id, [page("short"), page("long")])
    assert report == EnqueueReport(added=1, known=1)


async def test_what_is_forgotten_does_not_count_what_nobody_knew_any_more(queue: Queue, clock: Clock) -> None:
    await deduping(queue, *pages(3))
    await clock.forward(OVER)
    await deduping(queue, *pages(2))
    assert await queue.forget("books") == 2


async def test_follow_up_tasks_are_left_out_and_become_known_in_the_same_way(queue: Queue) -> None:
    first = await deduping(queue, page("listing/1"))
    await queue.settle([Done(await claim_one(queue, first), follow=articles())])
    assert await tasks_of(queue, first) == 1 + len(articles())
    second = await deduping(queue, page("listing/2"))
    lease = await claim_one(queue, second)
    assert await queue.settle([Done(lease, follow=[*articles(), page("new")])]) == [Fate.ACCEPTED]
    assert [one.task.url for one in await claim_all(queue, second)] == [page("new").url]
    assert await tasks_of(queue, second) == 2
    third = await deduping(queue)
    assert (await queue.enqueue(third.id, [*articles(), page("new")])).known == len(articles()) + 1


async def test_follow_up_tasks_that_the_run_has_itself_stay_as_they_are(queue: Queue) -> None:
    run = await deduping(queue, *pages(3))
    leases = await claim_all(queue, run)
    await queue.settle([Done(lease, follow=pages(4)) for lease in leases])
    assert await tasks_of(queue, run) == 4
    (last,) = await claim_all(queue, run)
    assert last.task.url == page(3).url


async def test_the_follow_up_tasks_of_a_stale_outcome_do_not_become_known(queue: Queue) -> None:
    first = await deduping(queue, page("listing"))
    lease = await claim_one(queue, first)
    await queue.settle([Done(lease)])
    assert await queue.settle([Done(lease, follow=articles())]) == [Fate.STALE]
    await deduping(queue, *articles())


async def test_dead_tasks_stay_known_and_are_replayed_in_their_run(queue: Queue) -> None:
    first = await deduping(queue, page())
    await queue.settle([Bury(await claim_one(queue, first), "gone")])
    second = await deduping(queue)
    assert (await queue.enqueue(second.id, [page()])).known == 1
    assert await queue.replay(first.id) == 1
    assert (await claim_one(queue, first)).task.url == page().url


async def test_a_purge_of_the_run_keeps_its_keys_known(queue: Queue) -> None:
    first = await deduping(queue, *articles())
    await queue.purge(first.id)
    second = await deduping(queue)
    assert (await queue.enqueue(second.id, articles())).known == len(articles())


async def test_what_a_scraper_has_queued_can_be_forgotten(queue: Queue) -> None:
    many = [*pages(1_500), *articles()]
    first = await deduping(queue, *many)
    await deduping(queue, page(1), scraper="shoes")
    assert await queue.forget("books") == len(many)
    assert await queue.forget("books") == 0
    assert (await queue.enqueue(first.id, many)).duplicate == len(many)
    await deduping(queue, *many)
    shoes = await deduping(queue, scraper="shoes")
    assert (await queue.enqueue(shoes.id, [page(1)])).known == 1


async def test_two_producers_at_the_same_time_queue_each_article_once(queue: Queue) -> None:
    runs = [await deduping(queue) for _ in range(4)]

    async def produce(run: Run, order: Sequence[Task]) -> EnqueueReport:
        report = EnqueueReport()
        for first in range(0, len(order), 100):
            report += await queue.enqueue(run.id, order[first : first + 100])
        return report

    wanted = [*pages(500), *articles()]
    orders = [wanted, wanted[::-1], wanted[300:] + wanted[:300], wanted]
    reports = await asyncio.gather(*(produce(run, order) for run, order in zip(runs, orders, strict=True)))
    assert sum(report.added for report in reports) == len(wanted)
    assert sum(report.known for report in reports) == 3 * len(wanted)
    urls = [lease.task_id for run in runs for lease in await claim_all(queue, run)]
    assert len(urls) == len(wanted)


async def test_two_producers_of_one_run_find_duplicates_and_nothing_that_is_known(queue: Queue) -> None:
    run = await deduping(queue)
    wanted = [*pages(300), *articles()]
    reports = await asyncio.gather(*(queue.enqueue(run.id, order) for order in (wanted, wanted[::-1])))
    assert reports[0] + reports[1] == EnqueueReport(added=len(wanted), duplicate=len(wanted))


async def test_two_settlements_at_the_same_time_queue_each_article_once(queue: Queue) -> None:
    runs = [await deduping(queue, page(f"listing/{n}")) for n in range(3)]
    leases = [await claim_one(queue, run) for run in runs]
    wanted = [*pages(300), *articles()]
    orders = [wanted, wanted[::-1], wanted]
    await asyncio.gather(
        *(queue.settle([Done(lease, follow=order)]) for lease, order in zip(leases, orders, strict=True))
    )
    assert sum([await tasks_of(queue, run) for run in runs]) == len(runs) + len(wanted)


@lasting
async def test_keys_are_known_after_a_restart(bench: Bench) -> None:
    await deduping(bench.queue, *articles())
    queue = await bench.restart()
    second = await deduping(queue)
    assert (await queue.enqueue(second.id, articles())).known == len(articles())


@by_contract
async def test_a_time_that_cannot_be_is_refused(queue: Queue) -> None:
    for dedup in (ZERO, -DAY, timedelta(days=40_000)):
        with pytest.raises(InvalidSetting, match="dedup"):
            await queue.start_run("books", settings=RunSettings(dedup=dedup))
