"""From a source into a queue: counts and reject files are exact, also after a death."""

import json

import pytest

from shoal.core.model import MINUTE, ZERO, Bury, DeadFilter, Done, RunSettings, Task
from shoal.discover.feed import Feed
from shoal.discover.files.files import UrlFile
from shoal.discover.previous import DeadTasks, ItemTasks
from shoal.discover.rejects import RejectFile
from shoal.discover.routing import Routes, Rule
from shoal.queue.open import open_queue
from tests.integration.discover.making import HOME


@pytest.fixture
def database(tmp_path):
    return f"sqlite:///{tmp_path}/queue.db"


@pytest.fixture
async def queue(database):
    async with open_queue(database) as queue:
        yield queue


async def test_what_only_the_queue_can_refuse_is_reported_with_its_line(queue, tmp_path):
    path, rejects = tmp_path / "tasks.jsonl", tmp_path / "rejects.jsonl"
    path.write_text(
        f'"{HOME}/1"\n"nonsense"\n{{"url": "{HOME}/2", "text": "a\\u0000b"}}\n"{HOME}/3"\n'
        f'{{"url": "{HOME}/4", "partition": "{"x" * 300}"}}\n'
    )
    run = await queue.start_run("books")
    with RejectFile(str(rejects)) as file:
        feed = Feed(UrlFile(str(path)), on_refusal=file.write)
        report = await queue.enqueue(run.id, feed, on_invalid=feed.invalid)
    assert (report.added, report.invalid, feed.passed, feed.refused) == (2, 2, 2, 3)
    told = [json.loads(line) for line in rejects.read_text().splitlines()]
    assert [line["where"].removeprefix(f"{path}:") for line in told] == ["2", "3", "5"]
    assert "NUL" in told[1]["reason"]


async def test_the_smallest_of_all_times_to_live_wins(queue):
    """Of the run, of the task and of a rule."""
    times = [(2, 3, 1), (2, 3, 4), (5, 3, 4), (5, None, 4), (None, 3, None), (None, None, None)]
    for number, given in enumerate(times):
        run_ttl, task_ttl, rule_ttl = ttls = [minutes and minutes * MINUTE for minutes in given]
        run = await queue.start_run(f"books{number}", settings=RunSettings(ttl=run_ttl, host_delay=ZERO))
        routes = Routes([Rule(ttl=rule_ttl)] if rule_ttl else [])
        await queue.enqueue(run.id, [routes.apply(Task(url=HOME, ttl=task_ttl))])
        (lease,) = (await queue.claim("me", run_id=run.id)).leases
        assert lease.task.ttl == min(filter(None, ttls), default=None)
        await queue.settle([Done(lease)])


async def test_rules_set_what_the_queue_goes_by(queue):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    routes = Routes([Rule(path="/news/*", priority=9, partition="news", step="article")])
    await queue.enqueue(run.id, map(routes.apply, [Task(url=f"{HOME}/1"), Task(url=f"{HOME}/news/2")]))
    (lease,) = (await queue.claim("me", run_id=run.id, limit=1, partitions=["news"])).leases
    assert (lease.task.url, lease.task.step, lease.task.priority) == (f"{HOME}/news/2", "article", 9)


async def test_a_new_run_begins_with_what_died_and_what_was_found_in_another(queue):
    first = await queue.start_run("books", settings=RunSettings(host_delay=ZERO, per_host=9))
    await queue.enqueue(first.id, [Task(url=f"{HOME}/{n}", payload={"n": n}) for n in range(3)])
    leases = sorted((await queue.claim("me", run_id=first.id)).leases, key=lambda lease: lease.task.url)
    done = Done(leases[0], items=[{"link": "/book/7"}, {"title": "none"}])
    await queue.settle([done, Bury(leases[1], "DnsFailed: x"), Bury(leases[2], "HttpStatus: y")])

    dead = DeadTasks(queue.dead(first.id, DeadFilter(error="Dns")))
    items = ItemTasks(queue.items(first.id, step="main"), step="book", field="link")
    second = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    told = []
    feed = Feed(dead, items, on_refusal=told.append)
    assert (await queue.enqueue(second.id, feed, on_invalid=feed.invalid)).added == 2
    tasks = {lease.task.url: lease.task for lease in (await queue.claim("me", run_id=second.id)).leases}
    assert tasks[f"{HOME}/1"].payload == {"n": 1}
    assert tasks[f"{HOME}/book/7"].step == "book"
    assert [refusal.reason for refusal in told] == ["its field 'link' holds no URL"]
