"""Items that are written as they are stored."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from shoal.core.errors import ExportUnavailable, InvalidSetting, QueueError, QueueUnavailable
from shoal.export import follow as module
from shoal.export.contract import Writer
from shoal.export.follow import follow
from shoal.export.open import open_writer
from tests.unit.export.factories import NOON, item

INTERVAL = timedelta(milliseconds=1)


class Store:
    """A run to which a test adds items."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)
        self.is_over = False
        self.looks = 0
        self.stored_at = NOON

    async def items(self, after):
        self.looks += 1
        for number in sorted(self.numbers):
            if number > after:
                yield msgspec.structs.replace(item({"n": number}, number), stored_at=self.stored_at)

    async def ended(self):
        return len(self.numbers) if self.is_over else None


async def follow_into(path, store, **options):
    writer = open_writer(path, live=True, overwrite=True)
    return await follow(store.items, writer, ended=store.ended, interval=INTERVAL, **options)


async def wait_until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def numbers(path):
    return [int(line[5:-1]) for line in path.read_text().splitlines()]


async def test_items_are_written_during_the_run_and_it_ends_with_the_run(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1, 2)
    following = asyncio.create_task(follow_into(path, store))
    await wait_until(lambda: path.exists() and numbers(path) == [1, 2])
    store.numbers += [3]
    await wait_until(lambda: numbers(path) == [1, 2, 3])
    assert not following.done()
    store.numbers += [4]
    store.is_over = True
    report = await following
    assert numbers(path) == [1, 2, 3, 4]
    assert (report.items, report.is_complete) == (4, True)


async def test_an_item_stored_late_with_a_lower_id_is_written_at_the_end(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1, 5)
    following = asyncio.create_task(follow_into(path, store))
    await wait_until(lambda: path.exists() and numbers(path) == [1, 5])
    store.numbers += [3]
    store.is_over = True
    report = await following
    assert numbers(path) == [1, 5, 3]
    assert report.items == 3


@pytest.mark.parametrize(("left", "later"), [([1], NOON), ([1, 2, 3], NOON + timedelta(seconds=9))])
async def test_a_store_that_was_set_back_is_noticed_even_if_it_has_the_same_ids_again(tmp_path, left, later):
    path, store = tmp_path / "items.jsonl", Store(1, 2)
    following = asyncio.create_task(follow_into(path, store))
    await wait_until(lambda: path.exists() and numbers(path) == [1, 2])
    store.numbers, store.stored_at = left, later
    with pytest.raises(QueueError, match="no longer has item 2, which was written"):
        await following


async def test_a_complete_run_is_not_read_twice(tmp_path):
    store = Store(*range(1, 2000))
    store.is_over = True
    await follow_into(tmp_path / "items.jsonl", store)
    assert store.looks == 1


async def test_stopping_keeps_what_is_written_and_reports_that_it_is_incomplete(tmp_path):
    path, store, stop = tmp_path / "items.jsonl", Store(1), asyncio.Event()
    following = asyncio.create_task(follow_into(path, store, stop=stop))
    await wait_until(lambda: path.exists() and numbers(path) == [1])
    stop.set()
    report = await following
    assert (report.items, report.is_complete) == (1, False)
    assert numbers(path) == [1]


async def test_an_error_of_the_queue_keeps_what_is_written(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1)

    async def broken():
        if store.looks:
            raise QueueUnavailable("redis://x", "gone")

    with pytest.raises(QueueUnavailable):
        await follow(store.items, open_writer(path, live=True), ended=broken, interval=INTERVAL)
    assert numbers(path) == [1]


async def test_older_items_are_skipped_and_not_read_again(tmp_path):
    path, store = tmp_path / "items.jsonl", Store(1, 2)
    store.is_over = True
    report = await follow_into(path, store, since=NOON + INTERVAL)
    assert (report.items, store.looks) == (0, 1)


class UnavailableWriter(Writer):
    """A writer whose server is unavailable for the first attempts."""

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


async def test_a_temporarily_unavailable_server_is_retried(monkeypatch, caplog):
    monkeypatch.setattr(module, "RETRY_INTERVAL", INTERVAL)
    store, writer = Store(1, 2), UnavailableWriter(3)
    store.is_over = True
    report = await follow(store.items, writer, ended=store.ended)
    assert writer.written == [1, 2]
    assert report.items == 2
    assert "Waiting for db: refused" in caplog.text


async def test_an_unavailable_server_is_not_retried_forever(monkeypatch):
    monkeypatch.setattr(module, "RETRY_INTERVAL", INTERVAL)
    monkeypatch.setattr(module, "UNAVAILABLE_TIMEOUT", 5 * INTERVAL)
    with pytest.raises(ExportUnavailable):
        await follow(Store(1).items, UnavailableWriter(10**9), ended=Store(1).ended)


async def test_each_step_can_be_followed_to_its_own_file(tmp_path):
    store = Store(1)
    store.is_over = True
    writer = open_writer(tmp_path / "items.jsonl", live=True, by_step=True)
    await follow(store.items, writer, ended=store.ended)
    assert numbers(tmp_path / "items.product.jsonl") == [1]


@pytest.mark.parametrize("name", ["items.csv", "items.parquet", "items.jsonl.gz"])
def test_a_format_that_cannot_be_written_live_is_rejected(tmp_path, name):
    with pytest.raises(InvalidSetting, match=r"cannot be written live. Use a \.jsonl file or a table"):
        open_writer(tmp_path / name, live=True)
