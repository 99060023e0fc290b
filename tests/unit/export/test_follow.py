"""Items that are written as they come."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import ExportUnavailable, InvalidSetting, QueueUnavailable
from shoal.export import follow as module
from shoal.export.contract import Writer
from shoal.export.follow import follow
from shoal.export.open import open_writer
from tests.unit.export.making import NOON, item

SOON = timedelta(milliseconds=1)


class Store:
    """A run to which a test adds items."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)
        self.is_over = False
        self.looks = 0

    async def items(self, after):
        self.looks += 1
        for number in sorted(self.numbers):
            if number > after:
                yield item({"n": number}, number)

    async def ended(self):
        return len(self.numbers) if self.is_over else None


async def follow_into(path, store, **wishes):
    writer = open_writer(path, live=True, anew=True)
    return await follow(store.items, writer, ended=store.ended, every=SOON, **wishes)


async def until(is_so):
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.001)


def numbers(path):
    return [int(line[5:-1]) for line in path.read_text().splitlines()]


async def test_items_are_there_while_the_run_goes_on_and_it_ends_with_the_run(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1, 2)
    following = asyncio.create_task(follow_into(path, store))
    await until(lambda: path.exists() and numbers(path) == [1, 2])
    store.numbers += [3]
    await until(lambda: numbers(path) == [1, 2, 3])
    assert not following.done()
    store.numbers += [4]
    store.is_over = True
    report = await following
    assert numbers(path) == [1, 2, 3, 4]
    assert (report.items, report.is_whole) == (4, True)


async def test_an_item_that_turns_up_behind_a_higher_one_is_written_in_the_end(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1, 5)
    following = asyncio.create_task(follow_into(path, store))
    await until(lambda: path.exists() and numbers(path) == [1, 5])
    store.numbers += [3]
    store.is_over = True
    report = await following
    assert numbers(path) == [1, 5, 3]
    assert report.items == 3


async def test_a_run_of_which_nothing_is_missing_is_not_read_twice(tmp_path):
    store = Store(*range(1, 2000))
    store.is_over = True
    await follow_into(tmp_path / "items.jsonl", store)
    assert store.looks == 1


async def test_stopping_keeps_what_is_written_and_says_that_there_is_more(tmp_path):
    path, store, stop = tmp_path / "items.jsonl", Store(1), asyncio.Event()
    following = asyncio.create_task(follow_into(path, store, stop=stop))
    await until(lambda: path.exists() and numbers(path) == [1])
    stop.set()
    report = await following
    assert (report.items, report.is_whole) == (1, False)
    assert numbers(path) == [1]


async def test_an_error_of_the_queue_keeps_what_is_written(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1)

    async def broken():
        if store.looks:
            raise QueueUnavailable("redis://x", "gone")

    with pytest.raises(QueueUnavailable):
        await follow(store.items, open_writer(path, live=True), ended=broken, every=SOON)
    assert numbers(path) == [1]


async def test_items_from_before_are_left_out_and_not_looked_for_again(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1, 2)
    store.is_over = True
    report = await follow_into(path, store, since=NOON + SOON)
    assert (report.items, store.looks) == (0, 1)


class Away(Writer):
    """A writer whose server is away for its first tries."""

    def __init__(self, tries):
        self.tries, self.written = tries, []

    def write(self, items):
        self.tries -= 1
        if self.tries >= 0:
            raise ExportUnavailable("db", "refused", "Start it")
        self.written += [one.id for one in items]

    def close(self):
        """Do nothing."""

    def discard(self):
        self.written = None


async def test_a_server_that_is_away_for_a_while_is_waited_for(monkeypatch, caplog):
    monkeypatch.setattr(module, "AGAIN", SOON)
    store, writer = Store(1, 2), Away(3)
    store.is_over = True
    report = await follow(store.items, writer, ended=store.ended)
    assert writer.written == [1, 2]
    assert report.items == 2
    assert "Waiting for db: refused" in caplog.text


async def test_a_server_that_stays_away_is_not_waited_for_without_end(monkeypatch):
    monkeypatch.setattr(module, "AGAIN", SOON)
    monkeypatch.setattr(module, "PATIENCE", 5 * SOON)
    with pytest.raises(ExportUnavailable):
        await follow(Store(1).items, Away(10**9), ended=Store(1).ended)


async def test_each_step_can_be_followed_into_a_file_of_its_own(tmp_path):
    store = Store(1)
    store.is_over = True
    writer = open_writer(tmp_path / "items.jsonl", live=True, by_step=True)
    await follow(store.items, writer, ended=store.ended)
    assert numbers(tmp_path / "items.product.jsonl") == [1]


@pytest.mark.parametrize("name", ["items.csv", "items.parquet", "items.jsonl.gz"])
def test_a_format_that_cannot_be_followed_says_so(tmp_path, name):
    with pytest.raises(InvalidSetting, match=r"cannot grow as items come. Use a \.jsonl file or a table"):
        open_writer(tmp_path / name, live=True)
