"""Items and rejects are returned as they were stored, in order, and from any position."""

from typing import Any

import pytest

from shoal.core.errors import UnknownRun
from shoal.core.model import DOWNLOAD_KEY, MINUTE, Done, Reject, Run, StoredItem, Task
from shoal.queue.contract import Queue
from tests.conformance.backends import Clock
from tests.conformance.helpers import claim_all, claim_one, data_of, every, page, pages, start, start_one, url


async def yield_items(queue: Queue, run: Run, *batches: list[Any], step: str = "main") -> None:
    """Settle one new task for each batch of items."""
    for batch in batches:
        await queue.enqueue(run.id, [Task(step=step, key=f"{step}-{batch}")])
        await queue.settle([Done(await claim_one(queue, run, steps=[step]), items=batch)])


async def test_an_item_knows_where_it_comes_from(queue: Queue, clock: Clock) -> None:
    run, lease = await start_one(queue, page(step="detail"))
    await queue.settle([Done(lease, items=[{"title": "One"}])])
    (item,) = await every(queue.items(run.id))
    assert (item.task_id, item.url, item.step, item.data) == (
        lease.task_id,
        url(),
        "detail",
        {"title": "One"},
    )
    assert abs(item.stored_at - clock.now()) < MINUTE
    assert item.stored_at.tzinfo is not None


async def test_the_items_of_a_download_belong_to_the_page_that_asked_for_it(queue: Queue) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "https://shop/page"),
        ({"runs_step": True}, "https://shop/1.png"),
    ]
    for more, where in cases:
        plan = {"files": [{"url": "https://shop/1.png"}], "origin": "https://shop/page", **more}
        run, lease = await start_one(queue, Task(url="https://shop/1.png", payload={DOWNLOAD_KEY: plan}))
        await queue.settle([Done(lease, items=[{"n": 1}], rejects=[Reject(data={}, reason="no")])])
        assert [item.url for item in await every(queue.items(run.id))] == [where]
        assert [reject.url for reject in await every(queue.rejects(run.id))] == [where]


async def test_an_item_comes_back_as_it_went_in(queue: Queue) -> None:
    every_kind: list[Any] = [
        {"price": 1.5, "tags": ["a", None, True], "nested": {"": {}}},
        {"text": "Grüße 🐟 'quoted' \"twice\" \\ \n\t </script>"},
        {"code": "the six characters \\u0000 are no NUL"},
        {"big": 2**53, "small": -1e-9},
        [1, 2, 3],
        "just text",
        17,
        None,
        {"long": "x" * 2_000_000},
    ]
    for data in every_kind:
        run, lease = await start_one(queue)
        await queue.settle([Done(lease, items=[data], rejects=[Reject(data=data, reason="odd")])])
        assert await data_of(queue, run) == [data]
        assert [reject.data for reject in await every(queue.rejects(run.id))] == [data]


async def test_fields_keep_their_order_in_items_rejects_and_payloads(queue: Queue) -> None:
    fields = {"url": "u", "title": {"z": 1, "a": 2}, "10": 1, "9": 2, "author": None}
    run, lease = await start_one(queue, page(payload=fields))
    follow = page(2, step="detail", payload=fields)
    await queue.settle(
        [Done(lease, items=[fields], rejects=[Reject(data=fields, reason="no")], follow=[follow])]
    )
    (item,), (reject,) = await every(queue.items(run.id)), await every(queue.rejects(run.id))
    followed = await claim_one(queue, run, steps=["detail"])
    for found in (lease.task.payload, item.data, reject.data, followed.task.payload):
        assert repr(dict(found)) == repr(fields)


async def test_items_come_in_the_order_they_were_stored(queue: Queue) -> None:
    run = await start(queue)
    await yield_items(queue, run, [1, 2, 3], [4], [5, 5])
    items = await every(queue.items(run.id))
    assert [item.data for item in items] == [1, 2, 3, 4, 5, 5]
    ids = [item.id for item in items]
    assert ids == sorted(set(ids))
    assert ids[0] > 0


async def test_after_skips_what_was_seen(queue: Queue) -> None:
    run = await start(queue)
    await yield_items(queue, run, ["a", "b"], ["c"])
    ids = [item.id for item in await every(queue.items(run.id))]
    assert [item.data for item in await every(queue.items(run.id, after=ids[0]))] == ["b", "c"]
    assert await every(queue.items(run.id, after=ids[-1])) == []
    await yield_items(queue, run, ["d"])
    assert [item.data for item in await every(queue.items(run.id, after=ids[-1]))] == ["d"]


async def test_run_and_step_narrow_the_items(queue: Queue) -> None:
    run, other = await start(queue), await start(queue)
    await yield_items(queue, other, ["of another run"], step="detail")
    await yield_items(queue, run, ["a"], step="list")
    await yield_items(queue, run, ["b"], ["c"], step="detail")
    details = await every(queue.items(run.id, step="detail"))
    assert [item.data for item in details] == ["b", "c"]
    rest = await every(queue.items(run.id, step="detail", after=details[0].id))
    assert [item.data for item in rest] == ["c"]
    assert await every(queue.items(run.id, step="unheard of")) == []


async def test_rejects_are_kept_with_the_reason(queue: Queue) -> None:
    run = await start(queue, page(1, step="list"), page(2, step="detail"))
    for lease in sorted(await claim_all(queue, run), key=lambda lease: lease.task.step):
        refused = [Reject(data={"n": n}, reason=f"{lease.task.step} {n}") for n in range(2)]
        await queue.settle([Done(lease, rejects=refused)])
    rejects = await every(queue.rejects(run.id))
    assert [reject.reason for reject in rejects] == ["detail 0", "detail 1", "list 0", "list 1"]
    assert [(reject.url, reject.step) for reject in rejects[:2]] == [(url(2), "detail")] * 2
    behind = await every(queue.rejects(run.id, after=rejects[1].id))
    assert [reject.reason for reject in behind] == ["list 0", "list 1"]
    assert len(await every(queue.rejects(run.id, step="list"))) == 2
    assert await data_of(queue, run) == []


async def test_five_thousand_items_are_streamed_once_each(queue: Queue) -> None:
    run = await start(queue, *pages(50))
    leases = await claim_all(queue, run)
    await queue.settle([Done(lease, items=[[n, k] for k in range(100)]) for n, lease in enumerate(leases)])
    items = await every(queue.items(run.id))
    assert sorted(item.data for item in items) == [[n, k] for n in range(50) for k in range(100)]
    assert [item.id for item in items] == sorted({item.id for item in items})


async def test_items_may_be_stored_while_they_are_streamed(queue: Queue) -> None:
    run = await start(queue, *pages(3))
    leases = await claim_all(queue, run)
    await queue.settle([Done(leases[0], items=list(range(1500)))])
    seen: list[StoredItem] = []
    async for item in queue.items(run.id):
        seen.append(item)
        if len(seen) == 10:
            await queue.settle([Done(leases[1], items=["late"])])
    assert [item.data for item in seen[:1500]] == list(range(1500))
    assert [item.data for item in seen[1500:]] in ([], ["late"])


async def test_a_stream_may_be_left_in_the_middle(queue: Queue) -> None:
    run, lease = await start_one(queue)
    await queue.settle([Done(lease, items=list(range(3000)))])
    async for item in queue.items(run.id):
        if item.data == 5:
            break
    assert len(await data_of(queue, run)) == 3000


async def test_the_results_of_an_unknown_run_are_refused(queue: Queue) -> None:
    with pytest.raises(UnknownRun):
        await every(queue.items("nowhere"))
    with pytest.raises(UnknownRun):
        await every(queue.rejects("nowhere"))
    with pytest.raises(UnknownRun):
        await every(queue.expired("nowhere"))
