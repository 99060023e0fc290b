"""Tasks that ask for more than a plain GET: a POST, or headers of their own."""

import pytest

from shoal.core.ask import Ask
from shoal.core.errors import InvalidTask
from shoal.core.model import Bury, Done, EnqueueReport, Retry, Task
from tests.conformance.helpers import claim_all, claim_one, every, page, start, start_one

SEARCH = Ask.form({"q": "red shoes", "size": [41, 42]}, headers={"X-Lang": "en"})
BYTES = Ask(post=bytes(range(256)))
POLITE = Ask(headers={"accept": "application/json"})


@pytest.mark.parametrize(
    "ask", [SEARCH, BYTES, POLITE, Ask(post=b"")], ids=["form", "bytes", "headers", "empty"]
)
@pytest.mark.parametrize("payload", [{}, {"page": 2}], ids=["bare", "with a payload"])
async def test_a_task_is_handed_out_with_all_that_it_asks(queue, ask, payload):
    task = page(ask=ask, payload=payload)
    run = await start(queue, task)
    lease = await claim_one(queue, run)
    assert (lease.task.ask, dict(lease.task.payload), lease.task.url) == (ask, payload, task.url)
    await queue.settle([Retry(lease, "once more")])
    again = await claim_one(queue, run)
    assert again.task.ask == ask
    await queue.settle([Bury(again, "gone")])
    (letter,) = await every(queue.dead(run.id))
    assert letter.task.ask == ask
    await queue.replay(run.id)
    assert (await claim_one(queue, run)).task.ask == ask


async def test_what_is_sent_tells_tasks_of_one_url_apart(queue):
    run = await start(queue, page(), page(ask=SEARCH), page(ask=BYTES), page(ask=Ask(post=b"")))
    again = [page(ask=Ask(post=SEARCH.post)), page(ask=BYTES, payload={"n": 1}), page(ask=POLITE)]
    assert await queue.enqueue(run.id, again) == EnqueueReport(added=0, duplicate=3, invalid=0)
    assert len(await claim_all(queue, run)) == 4


async def test_a_key_counts_more_than_what_is_sent(queue):
    run = await start(queue, page(ask=SEARCH, key="a"))
    again = [page(ask=BYTES, key="a"), page(ask=SEARCH, key="b")]
    assert await queue.enqueue(run.id, again) == EnqueueReport(added=1, duplicate=1, invalid=0)


async def test_follow_ups_ask_too(queue):
    run, lease = await start_one(queue)
    await queue.settle([Done(lease, follow=[page(2, ask=SEARCH)])])
    assert (await claim_one(queue, run)).task.ask == SEARCH


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (Task(payload={"n": 1}, ask=SEARCH), "without a URL asks nobody"),
        (page(ask=Ask(post="text")), "post must be bytes, got str"),
        (page(ask=Ask(headers={"x": 1})), "headers must be texts"),
        (page(ask={"post": b""}), "wrong type"),
        (page(ask=Ask(post=bytes(1 << 20))), "the limit is"),
    ],
    ids=["nobody", "text", "number", "mapping", "too long"],
)
async def test_what_cannot_be_asked_is_refused(queue, task, says):
    run = await start(queue)
    refused = []
    report = await queue.enqueue(run.id, [task], on_invalid=lambda number, error: refused.append(error))
    assert report.invalid == 1
    assert isinstance(refused[0], InvalidTask) and says in str(refused[0])
