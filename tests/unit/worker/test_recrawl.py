"""What is stored of a page, and how the page is judged the next time."""

import zlib
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import QueueFull
from shoal.core.http import Headers, Response
from shoal.core.model import Note, Reject, Task
from shoal.scrape.harvest import Harvest
from shoal.worker.page_changes import FieldDifference, PageDifferences, canonical_json
from shoal.worker.recrawl import (
    IndexedPage,
    PageChange,
    PageIndex,
    PageVisit,
    VisitStore,
    compare_visits,
    digest_of,
    encode,
    key_of,
    read_index,
    read_visit,
    topic,
)

TASK = Task(url="https://shop.test/hat", step="product", payload={"from": "front"}, partition="CA", depth=2)
TAG = [("etag", '"1"')]


class FakeNotes:
    """Notes in memory."""

    def __init__(self):
        self.values = {}
        self.refusals = 0  # writes that fail from now on

    async def notes(self, topic, keys=None):
        return {
            key: Note(value=self.values[topic, key], stamp=1, age=timedelta(0))
            for key in (keys or [key for name, key in self.values if name == topic])
            if self.values.get((topic, key)) is not None
        }

    async def write_notes(self, topic, values, *, ttl=None):
        if self.refusals:
            self.refusals -= 1
            raise QueueFull("redis://queue", "no room")
        self.values |= {(topic, key): value for key, value in values.items()}


@pytest.fixture
def notes():
    return FakeNotes()


def page(body=b"page", status=200, fields=()):
    return Response(url=TASK.url, status=status, headers=Headers(fields), body=body)


def harvest_of(*items, follow=()):
    return Harvest(
        items=[{"title": item} for item in items],
        follow=[Task(url=f"https://shop.test/{path}", step="product", depth=3) for path in follow],
    )


async def visit(notes, run_id, response, harvest=None, *, again=True):
    """Visit the page in a run as a worker does; return the finding and the conditional headers."""
    revisits = VisitStore(notes, "shop", run_id, again=again)
    past = await revisits.read(TASK)
    if revisits.is_gone(past, response):
        await revisits.record_gone(TASK, past)
    else:
        given = revisits.harvest_if_unchanged(past, response)
        await revisits.record(TASK, past, response, harvest if given is None else given)
    await revisits.close()
    (stored,) = (read_visit(value) for (topic, _), value in notes.values.items() if topic == "pages:shop")
    ((_, indexed),) = await read_index(notes, "shop", run_id)
    assert indexed == IndexedPage(TASK, stored.finding)
    return stored.finding, dict(past.conditions)


async def test_the_first_visit_is_new_and_its_request_unconditional(notes):
    assert await visit(notes, "1", page(fields=TAG), harvest_of("Hat"), again=False) == (PageChange.NEW, {})


async def test_a_304_gives_the_harvest_of_the_last_visit(notes):
    before = harvest_of("Hat", follow=["cap"])
    before.rejects = [Reject(data={"title": ""}, reason="empty")]
    await visit(notes, "1", page(fields=TAG), before)
    revisits = VisitStore(notes, "shop", "2", again=True)
    past = await revisits.read(TASK)
    assert past.conditions == {"if-none-match": '"1"'}
    given = revisits.harvest_if_unchanged(past, page(b"", status=304))
    assert (given.items, given.follow, given.rejects) == (before.items, before.follow, before.rejects)
    assert await visit(notes, "2", page(b"", status=304)) == (PageChange.UNCHANGED, {"if-none-match": '"1"'})
    assert await visit(notes, "3", page(b"", status=304)) == (PageChange.UNCHANGED, {"if-none-match": '"1"'})


async def test_the_items_of_an_unchanged_page_keep_the_order_of_their_fields(notes):
    item = {"url": "u", "title": "t", "size": {"width": 1, "height": 2}}
    await visit(notes, "1", page(fields=TAG), Harvest(items=[item]))
    past = await VisitStore(notes, "shop", "2", again=True).read(TASK)
    (again,) = past.harvest.items
    assert (list(again), list(again["size"])) == (list(item), list(item["size"]))


@pytest.mark.parametrize(
    ("before", "now", "body", "finding"),
    [
        (harvest_of("Hat"), harvest_of("Hat"), b"page", PageChange.UNCHANGED),
        (harvest_of("Hat"), harvest_of("Hat"), b"page of today", PageChange.UNCHANGED),
        (harvest_of("Hat", "Cap"), harvest_of("Cap", "Hat"), b"turned", PageChange.UNCHANGED),
        (harvest_of("Hat"), harvest_of("Cap"), b"other", PageChange.CHANGED),
        (harvest_of("Hat"), harvest_of("Hat", "Hat"), b"other", PageChange.CHANGED),
        (harvest_of("Hat"), harvest_of(), b"other", PageChange.CHANGED),
        (harvest_of(follow=["a"]), harvest_of(follow=["a"]), b"other", PageChange.UNCHANGED),
        (harvest_of(follow=["a"]), harvest_of(follow=["a", "b"]), b"other", PageChange.CHANGED),
        (harvest_of("Hat", follow=["a"]), harvest_of("Hat", follow=["b"]), b"other", PageChange.UNCHANGED),
    ],
)
async def test_a_page_without_validators_is_judged_by_its_harvest(notes, before, now, body, finding):
    await visit(notes, "1", page(), before)
    assert await visit(notes, "2", page(body), now) == (finding, {})


async def test_a_page_may_disappear_and_come_back(notes):
    await visit(notes, "1", page(fields=TAG), harvest_of("Hat"))
    assert (await visit(notes, "2", page(status=410)))[0] is PageChange.GONE
    assert await visit(notes, "3", page(fields=TAG), harvest_of("Hat")) == (PageChange.NEW, {})


async def test_a_task_that_is_repeated_in_its_run_is_judged_as_before(notes):
    await visit(notes, "1", page(), harvest_of("Hat"))
    assert (await visit(notes, "2", page(b"other"), harvest_of("Cap")))[0] is PageChange.CHANGED
    assert (await visit(notes, "2", page(b"other"), harvest_of("Cap")))[0] is PageChange.CHANGED


async def test_without_again_no_stored_harvest_is_used(notes):
    await visit(notes, "1", page(fields=TAG), harvest_of("Hat"))
    assert await visit(notes, "2", page(fields=TAG), harvest_of("Hat"), again=False) == (
        PageChange.UNCHANGED,
        {},
    )


async def test_a_harvest_that_is_too_large_to_store_is_computed_again(notes, monkeypatch):
    monkeypatch.setattr("shoal.worker.recrawl.MAX_HARVEST", 10)
    await visit(notes, "1", page(fields=TAG), harvest_of("Hat"))
    assert await visit(notes, "2", page(fields=TAG), harvest_of("Hat")) == (PageChange.UNCHANGED, {})


@pytest.mark.parametrize("kind", ["pages:shop", "harvests:shop"])
async def test_a_damaged_visit_or_harvest_is_not_used(notes, kind):
    await visit(notes, "1", page(fields=TAG), harvest_of("Hat"))
    (key,) = (key for key in notes.values if key[0] == kind)
    whole = notes.values[key]
    for poison in (whole[:-4], b"", b"\x93\x01", b"\xff" * len(whole)):
        notes.values[key] = poison
        past = await VisitStore(notes, "shop", "2", again=True).read(TASK)
        assert not past.conditions and (past.visit is None) == (kind == "pages:shop")


async def test_a_harvest_of_another_body_is_not_used(notes):
    await visit(notes, "1", page(fields=TAG), harvest_of("Hat"))
    old = {key: value for key, value in notes.values.items() if key[0] == "harvests:shop"}
    await visit(notes, "2", page(b"other", fields=TAG), harvest_of("Cap"))
    notes.values |= old
    assert not (await VisitStore(notes, "shop", "3", again=True).read(TASK)).conditions


async def test_an_unchanged_page_does_not_write_its_harvest_again(notes):
    await visit(notes, "1", page(fields=TAG), harvest_of("Hat"))
    before, notes.values = notes.values, {**notes.values}
    await visit(notes, "2", page(b"", status=304))
    written = [value for key, value in notes.values.items() if value is not before.get(key)]
    assert written and not any(b"Hat" in value for value in written)


def test_a_visit_survives_encoding():
    before = PageVisit(run="2", finding=PageChange.CHANGED, validators={"if-none-match": "x"}, body=b"1")
    assert read_visit(encode(before)) == before


@given(st.binary(max_size=100))
def test_no_bytes_make_reading_fail(data):
    assert read_visit(data) is None


def test_digests_of_items_do_not_depend_on_order():
    assert canonical_json({"b": 1, "a": 2}) == canonical_json({"a": 2, "b": 1})
    assert digest_of([b"a", b"b"]) == digest_of([b"b", b"a"]) != digest_of([b"a", b"a"])
    assert digest_of([]) == b""


def test_a_visit_of_the_same_run_keeps_its_finding():
    now = PageVisit(run="1", finding=PageChange.NEW)
    before = PageVisit(run="1", finding=PageChange.CHANGED, items=b"x")
    assert compare_visits(before, now) is PageChange.CHANGED
    assert compare_visits(None, now) is PageChange.NEW


def test_a_topic_is_never_too_long_for_a_queue():
    assert topic("pages", "shop", "r1") == "pages:shop:r1"
    long = topic("pages", "x" * 200, "r1")
    assert len(long) <= 200 and long != topic("pages", "x" * 200, "r2")


async def test_many_pages_take_few_notes_and_are_read_once_each(notes):
    index = PageIndex(notes, "shop", "1")
    tasks = [Task(url=f"https://shop.test/{number}", step="product") for number in range(1_000)]
    for number, task in enumerate([*tasks, *tasks[:100]]):
        index.add(task, PageChange.NEW)
        if number % 50 == 0:
            await index.flush()
    await index.close()
    assert len(notes.values) <= 6
    assert sorted(page.task.url for _, page in await read_index(notes, "shop", "1")) == sorted(
        task.url for task in tasks
    )
    assert not list(await read_index(notes, "shop", "2"))


async def test_pages_that_the_queue_has_no_room_for_are_recorded_later(notes):
    index = PageIndex(notes, "shop", "1")
    tasks = [Task(url=f"https://shop.test/{number}", step="product") for number in range(600)]
    notes.refusals = 3
    for number, task in enumerate(tasks):
        index.add(task, PageChange.NEW)
        if number % 100 == 0:
            await index.flush()
    await index.close()
    assert {page.task.url for _, page in await read_index(notes, "shop", "1")} == {task.url for task in tasks}


async def test_a_worker_that_cannot_record_its_pages_says_how_many(notes, monkeypatch, caplog):
    monkeypatch.setattr("shoal.worker.recrawl.CLOSE_TIMEOUT", timedelta(seconds=0.2))
    index = PageIndex(notes, "shop", "1")
    notes.refusals = 10**9
    index.add(TASK, PageChange.NEW)
    await index.close()
    assert "up to 1 pages of this worker" in caplog.text


async def test_a_damaged_index_is_ignored(notes):
    index = PageIndex(notes, "shop", "1")
    index.add(TASK, PageChange.NEW)
    await index.close()
    ((key, whole),) = notes.values.items()
    for poison in (b"", b"junk", whole[:-9], zlib.compress(b"junk")):
        notes.values[key] = poison
        assert not list(await read_index(notes, "shop", "1"))


async def test_differences_are_known_with_and_without_again_and_survive_a_repeated_task(notes):
    await visit(notes, "1", page(), harvest_of("Hat"))
    for again, run_id, old, new in ((False, "2", "Hat", "Cap"), (True, "3", "Cap", "Bow")):
        for _ in range(2):
            await visit(notes, run_id, page(new.encode()), harvest_of(new), again=again)
        found = msgspec.msgpack.decode(
            notes.values["changes:shop:" + run_id, key_of(TASK)], type=PageDifferences
        )
        assert found == PageDifferences([FieldDifference(1, "title", old, new)])
