"""Tasks with request options: a POST, or their own headers."""

from shoal.core.errors import InvalidTask
from shoal.core.model import Bury, Done, EnqueueReport, Retry, Task
from shoal.core.request_options import RequestOptions
from tests.conformance.backends import by_contract
from tests.conformance.helpers import claim_all, claim_one, every, page, start, start_one

SEARCH = RequestOptions.form({"q": "red shoes", "size": [41, 42]}, headers={"X-Lang": "en"})
BYTES = RequestOptions(post=bytes(range(256)))
POLITE = RequestOptions(headers={"accept": "application/json"})


async def test_a_task_is_handed_out_with_all_that_it_asks(queue):
    options = [SEARCH, BYTES, POLITE, RequestOptions(post=b""), RequestOptions.json({"a": 1}, method="PUT")]
    tasks = {
        str(n): page(n, step=str(n), request=one, payload={"page": 2} if one.post else {})
        for n, one in enumerate(options)
    }
    run = await start(queue, *tasks.values())
    leases = await claim_all(queue, run)
    assert {lease.task.step: lease.task for lease in leases} == tasks
    await queue.settle([Retry(lease, "once more") for lease in leases])
    leases = await claim_all(queue, run)
    assert {lease.task.step: lease.task for lease in leases} == tasks
    await queue.settle([Bury(lease, "gone") for lease in leases])
    assert {letter.task.step: letter.task for letter in await every(queue.dead(run.id))} == tasks
    await queue.replay(run.id)
    assert {lease.task.step: lease.task for lease in await claim_all(queue, run)} == tasks


@by_contract
async def test_what_is_sent_tells_tasks_of_one_url_apart(queue):
    run = await start(
        queue, page(), page(request=SEARCH), page(request=BYTES), page(request=RequestOptions(post=b""))
    )
    again = [
        page(request=RequestOptions(post=SEARCH.post)),
        page(request=BYTES, payload={"n": 1}),
        page(request=POLITE),
    ]
    assert await queue.enqueue(run.id, again) == EnqueueReport(added=0, duplicate=3, invalid=0)
    assert len(await claim_all(queue, run)) == 4


@by_contract
async def test_a_key_counts_more_than_what_is_sent(queue):
    run = await start(queue, page(request=SEARCH, key="a"))
    again = [page(request=BYTES, key="a"), page(request=SEARCH, key="b")]
    assert await queue.enqueue(run.id, again) == EnqueueReport(added=1, duplicate=1, invalid=0)


async def test_follow_ups_ask_too(queue):
    run, lease = await start_one(queue)
    await queue.settle([Done(lease, follow=[page(2, request=SEARCH)])])
    assert (await claim_one(queue, run)).task.request == SEARCH


@by_contract
async def test_what_cannot_be_asked_is_refused(queue):
    cases = [
        (Task(payload={"n": 1}, request=SEARCH), "without a URL sends no request"),
        (page(request=RequestOptions(post="text")), "post must be bytes, got str"),
        (page(request=RequestOptions(method="HEAD", post=b"x")), "a HEAD sends no body"),
        (page(request=RequestOptions(headers={"x": 1})), "headers must be strings"),
        (page(request={"post": b""}), "wrong type"),
        (page(request=RequestOptions(post=bytes(1 << 20))), "the limit is"),
        *(
            (page(request=RequestOptions(post=b"", method=method)), "")
            for method in ("GET", "TRACE", "P UT", "")
        ),
    ]
    run = await start(queue)
    refused = {}
    report = await queue.enqueue(run.id, [task for task, _ in cases], on_invalid=refused.__setitem__)
    assert report == EnqueueReport(invalid=len(cases))
    for number, (_, says) in enumerate(cases):
        assert isinstance(refused[number], InvalidTask) and says in str(refused[number])


@by_contract
async def test_the_method_tells_tasks_of_one_url_apart(queue):
    put, delete = RequestOptions(method="PUT"), RequestOptions(method="DELETE")
    run = await start(queue, page(), page(request=put), page(request=delete))
    assert await queue.enqueue(run.id, [page(request=put)]) == EnqueueReport(added=0, duplicate=1, invalid=0)
    requests = [lease.task.request for lease in await claim_all(queue, run)]
    assert sorted(one.method if one else "GET" for one in requests) == ["DELETE", "GET", "PUT"]
