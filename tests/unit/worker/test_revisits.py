"""What is remembered of a page, and how it is judged the next time."""

import asyncio
import zlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.exchange import Headers, Response
from shoal.core.model import Note, Reject, Task
from shoal.scrape.harvest import Harvest
from shoal.worker.listing import LINGER, Listed, Listing, listed
from shoal.worker.revisits import Revisits
from shoal.worker.visits import Finding, Visit, digest_of, encode, found, read_visit, spelled, topic

TASK = Task(url="https://shop.test/hat", step="product", payload={"from": "front"}, partition="CA", depth=2)
TAG = [("etag", '"1"')]


class Board:
    """Notes in memory."""

    def __init__(self):
        self.kept = {}

    async def notes(self, topic, keys=None):
        return {
            key: Note(value=self.kept[topic, key], stamp=1, age=timedelta(0))
            for key in (keys or [key for name, key in self.kept if name == topic])
            if self.kept.get((topic, key)) is not None
        }

    async def write_notes(self, topic, values, *, ttl=None):
        self.kept |= {(topic, key): value for key, value in values.items()}


@pytest.fixture
def board():
    return Board()


def page(body=b"page", status=200, fields=()):
    return Response(url=TASK.url, status=status, headers=Headers(fields), body=body)


def gave(*items, follow=()):
    return Harvest(
        items=[{"title": item} for item in items],
        follow=[Task(url=f"https://shop.test/{path}", step="product", depth=3) for path in follow],
    )


async def visit(board, run_id, response, harvest=None, *, again=True):
    """Visit the page in a run as a worker does; return what became of it."""
    revisits = Revisits(board, "shop", run_id, again=again)
    past = await revisits.past(TASK)
    if revisits.is_gone(past, response):
        await revisits.note_gone(TASK, past)
    else:
        given = revisits.same(past, response)
        await revisits.note(TASK, past, response, harvest if given is None else given)
    await revisits.close()
    (held,) = (read_visit(value) for (topic, _), value in board.kept.items() if topic == "pages:shop")
    (listed_page,) = await listed(board, "shop", run_id)
    assert listed_page == Listed(TASK, held.finding)
    return held.finding, dict(past.conditions)


async def test_the_first_visit_is_new_and_asks_without_conditions(board):
    assert await visit(board, "1", page(fields=TAG), gave("Hat"), again=False) == (Finding.NEW, {})


async def test_an_answer_of_304_gives_what_was_given_before(board):
    before = gave("Hat", follow=["cap"])
    before.rejects = [Reject(data={"title": ""}, reason="empty")]
    await visit(board, "1", page(fields=TAG), before)
    revisits = Revisits(board, "shop", "2", again=True)
    past = await revisits.past(TASK)
    assert past.conditions == {"if-none-match": '"1"'}
    given = revisits.same(past, page(b"", status=304))
    assert (given.items, given.follow, given.rejects) == (before.items, before.follow, before.rejects)
    assert await visit(board, "2", page(b"", status=304)) == (Finding.UNCHANGED, {"if-none-match": '"1"'})
    assert await visit(board, "3", page(b"", status=304)) == (Finding.UNCHANGED, {"if-none-match": '"1"'})


@pytest.mark.parametrize(
    ("before", "now", "body", "finding"),
    [
        (gave("Hat"), gave("Hat"), b"page", Finding.UNCHANGED),
        (gave("Hat"), gave("Hat"), b"page of today", Finding.UNCHANGED),
        (gave("Hat", "Cap"), gave("Cap", "Hat"), b"turned", Finding.UNCHANGED),
        (gave("Hat"), gave("Cap"), b"other", Finding.CHANGED),
        (gave("Hat"), gave("Hat", "Hat"), b"other", Finding.CHANGED),
        (gave("Hat"), gave(), b"other", Finding.CHANGED),
        (gave(follow=["a"]), gave(follow=["a"]), b"other", Finding.UNCHANGED),
        (gave(follow=["a"]), gave(follow=["a", "b"]), b"other", Finding.CHANGED),
        (gave("Hat", follow=["a"]), gave("Hat", follow=["b"]), b"other", Finding.UNCHANGED),
    ],
)
async def test_a_page_without_marks_is_judged_by_what_it_gives(board, before, now, body, finding):
    await visit(board, "1", page(), before)
    assert await visit(board, "2", page(body), now) == (finding, {})


async def test_a_page_may_go_and_come_back(board):
    await visit(board, "1", page(fields=TAG), gave("Hat"))
    assert (await visit(board, "2", page(status=410)))[0] is Finding.GONE
    assert await visit(board, "3", page(fields=TAG), gave("Hat")) == (Finding.NEW, {})


async def test_a_task_that_is_done_again_in_its_run_is_judged_as_before(board):
    await visit(board, "1", page(), gave("Hat"))
    assert (await visit(board, "2", page(b"other"), gave("Cap")))[0] is Finding.CHANGED
    assert (await visit(board, "2", page(b"other"), gave("Cap")))[0] is Finding.CHANGED


async def test_without_again_nothing_is_given_from_memory(board):
    await visit(board, "1", page(fields=TAG), gave("Hat"))
    assert await visit(board, "2", page(fields=TAG), gave("Hat"), again=False) == (Finding.UNCHANGED, {})


async def test_what_is_too_large_to_remember_is_read_anew(board, monkeypatch):
    monkeypatch.setattr("shoal.worker.visits.LARGEST_HARVEST", 10)
    await visit(board, "1", page(fields=TAG), gave("Hat"))
    assert await visit(board, "2", page(fields=TAG), gave("Hat")) == (Finding.UNCHANGED, {})


async def test_a_memory_of_another_page_or_of_half_a_page_is_not_used(board):
    await visit(board, "1", page(fields=TAG), gave("Hat"))
    (key,) = (key for key in board.kept if key[0] == "harvests:shop")
    whole = board.kept[key]
    for poison in (whole[:-4], b"", b"\x93\x01", whole.replace(b"Hat", b"\xff\xff\xff")):
        board.kept[key] = poison
        assert not (await Revisits(board, "shop", "2", again=True).past(TASK)).conditions


def test_a_visit_comes_back_as_it_was():
    before = Visit(run="2", finding=Finding.CHANGED, validators={"if-none-match": "x"}, body=b"1")
    assert read_visit(encode(before)) == before


@given(st.binary(max_size=100))
def test_no_bytes_make_reading_fail(data):
    assert read_visit(data) is None


def test_items_are_known_in_any_order_and_spelling():
    assert spelled({"b": 1, "a": 2}) == spelled({"a": 2, "b": 1})
    assert digest_of([b"a", b"b"]) == digest_of([b"b", b"a"]) != digest_of([b"a", b"a"])
    assert digest_of([]) == b""


def test_a_visit_of_the_same_run_keeps_its_finding():
    now = Visit(run="1", finding=Finding.NEW)
    before = Visit(run="1", finding=Finding.CHANGED, items=b"x")
    assert found(before, now) is Finding.CHANGED
    assert found(None, now) is Finding.NEW


def test_a_topic_is_never_too_long_for_a_queue():
    assert topic("pages", "shop", "r1") == "pages:shop:r1"
    long = topic("pages", "x" * 200, "r1")
    assert len(long) <= 200 and long != topic("pages", "x" * 200, "r2")


async def test_many_pages_take_few_notes_and_come_back_once_each(board):
    listing = Listing(board, "shop", "1")
    tasks = [Task(url=f"https://shop.test/{number}", step="product") for number in range(1_000)]
    for number, task in enumerate([*tasks, *tasks[:100]]):
        listing.add(task, Finding.NEW)
        if number % 50 == 0:
            await asyncio.sleep(LINGER)
    await listing.close()
    assert len(board.kept) <= 6
    assert sorted(page.task.url for page in await listed(board, "shop", "1")) == sorted(
        task.url for task in tasks
    )
    assert not list(await listed(board, "shop", "2"))


async def test_a_list_that_was_tampered_with_is_passed_over(board):
    listing = Listing(board, "shop", "1")
    listing.add(TASK, Finding.NEW)
    await listing.close()
    ((key, whole),) = board.kept.items()
    for poison in (b"", b"junk", whole[:-9], zlib.compress(b"junk")):
        board.kept[key] = poison
        assert not list(await listed(board, "shop", "1"))
