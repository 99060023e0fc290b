"""The preview of a launch."""

from datetime import timedelta

from shoal.core.model import SECOND, RunSettings, Task
from shoal.fleet.job import Job
from shoal.fleet.scale.preview import preview_launch
from shoal.scrape.scraper import Scraper


async def lined_up(queue, gap=SECOND, pause=None, **more):
    """Return the preview for a run of 10, 20 and 30 tasks in the partitions a, b and c of one host each."""
    run = await queue.start_run("pages", settings=RunSettings(host_delay=gap))
    await queue.enqueue(
        run.id,
        [
            Task(url=f"http://{name}.example/{number}", partition=name, step="page")
            for name, count in (("a", 10), ("b", 20), ("c", 30))
            for number in range(count)
        ],
    )
    scraper = Scraper("pages", pause=pause)
    job = Job(scraper=scraper, name="pages", reference="pages.py", queue_url="sqlite:///", **more)
    return await preview_launch(queue, job, run)


def shares(lineup):
    return [(part.worker, part.serves, part.pending) for part in lineup.parts]


async def test_workers_without_a_plan_share_everything(queue):
    assert shares(await lined_up(queue, workers=4)) == [(number, "all", 15) for number in (1, 2, 3, 4)]


async def test_named_partitions_are_shared_by_all_workers(queue):
    assert shares(await lined_up(queue, workers=2, partitions=["a", "c"])) == [
        (1, "a, c", 20),
        (2, "a, c", 20),
    ]


async def test_a_plan_balances_the_partitions(queue):
    found = shares(await lined_up(queue, workers=2, partitions=["auto"]))
    assert sorted(found, key=lambda share: share[1]) == [(found[1][0], "a, b", 30), (found[0][0], "c", 30)]


async def test_a_table_is_followed_and_idle_workers_wait(queue):
    homes = {"a": 2, "b": 2, "c": 1}
    found = await lined_up(queue, workers=3, partitions=["exclusive"], homes=homes)
    assert shares(found) == [(1, "c", 30), (2, "a, b", 30), (3, "waits", 0)]


async def test_the_longest_queue_of_a_host_sets_the_end(queue):
    (part,) = (await lined_up(queue, workers=1)).parts
    assert part.eta == timedelta(seconds=30)  # 60 tasks at 3/s are 20 s, but c alone takes 30 s


async def test_without_a_delay_there_is_no_estimate(queue):
    (part,) = (await lined_up(queue, gap=timedelta(0), workers=1)).parts
    assert part.eta is None and part.as_json()["eta_seconds"] is None


async def test_workers_that_the_hosts_cannot_use_are_named(queue):
    lineup = await lined_up(queue, workers=50)
    assert lineup.warning and "3 hosts at 3 requests/s can't keep 50 workers busy" in lineup.warning
    assert "--workers 1 is just as fast" in lineup.warning
    assert (await lined_up(queue, workers=1)).warning is None


async def test_hosts_that_set_no_rate_are_not_said_to_have_one(queue):
    lineup = await lined_up(queue, gap=timedelta(0), workers=500)
    assert lineup.warning and lineup.warning.startswith("3 hosts can't keep 500 workers busy")


async def test_a_pause_between_tasks_is_in_the_estimate_and_useful_workers_cause_no_warning(queue):
    # Three hosts allow 30 tasks a second; a worker that rests for 10 s after each does not one in ten.
    found = await lined_up(queue, gap=SECOND / 10, pause="8-12s", workers=10)
    assert [part.eta for part in found.parts] == [timedelta(seconds=60)] * 10
    assert found.warning is None
    hurried = await lined_up(queue, gap=SECOND / 10, workers=10)
    assert hurried.warning is not None


async def test_a_pause_is_in_the_estimate_where_no_host_sets_a_limit(queue):
    found = await lined_up(queue, gap=timedelta(0), pause="10s", workers=2)
    assert [part.eta for part in found.parts] == [timedelta(seconds=300)] * 2
