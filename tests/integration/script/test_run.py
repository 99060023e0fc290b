"""A scraper is run by the program that defines it."""

import asyncio
import bdb
import os
import tempfile
import threading
from dataclasses import dataclass
from functools import partial

import pytest

from shoal import Scraper, Task
from shoal.core.errors import InvalidInput, InvalidSetting, ScraperBusy, ShoalError
from shoal.core.model import RunState
from shoal.queue.open import open_queue
from tests.integration.script.conftest import PRODUCTS, make_shop


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """Every test leaves no thread and no temporary file."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    in_folder = partial(tempfile.TemporaryDirectory, dir=folder)
    monkeypatch.setattr("shoal.fleet.run.inline_pool.TemporaryDirectory", in_folder)
    before = set(threading.enumerate())
    yield
    ours = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("asyncio")]
    for thread in ours:
        thread.join(5)
    assert [thread.name for thread in ours if thread.is_alive()] == []
    assert list(folder.iterdir()) == []


def skus(items):
    return {item["sku"] for item in items}


async def test_run_returns_the_items_and_the_counts(shop, shop_site):
    result = await shop.run(shop_site.seeds)
    assert len(result.items) == PRODUCTS == len(skus(result.items))
    assert result.state == "finished"
    assert result.counts["items"] == PRODUCTS
    assert (result.counts["dead"], result.dead, result.rejects) == (0, [], [])
    assert result.is_complete
    assert f"{PRODUCTS} items" in repr(result)
    assert result.run_id


def test_run_sync_does_so_twice_in_one_process(shop, shop_site):
    first, second = shop.run_sync(shop_site.seeds), shop.run_sync(shop_site.seeds)
    assert skus(first.items) == skus(second.items)
    assert first.run_id != second.run_id


def test_run_sync_works_in_a_thread(shop, shop_site):
    found = []
    thread = threading.Thread(target=lambda: found.append(shop.run_sync(shop_site.seeds)))
    thread.start()
    thread.join(60)
    assert len(found[0].items) == PRODUCTS


async def test_run_sync_inside_a_loop_says_to_await_run(shop, shop_site):
    with pytest.raises(InvalidInput, match=r"await shop\.run"):
        shop.run_sync(shop_site.seeds)


async def test_two_scrapers_run_at_once(shop, shop_site):
    other = make_shop(shop_site, "other")
    both = await asyncio.gather(shop.run(shop_site.seeds), other.run(shop_site.seeds))
    assert [len(result.items) for result in both] == [PRODUCTS, PRODUCTS]


async def test_declared_items_come_back_as_their_type(shop_site):
    @dataclass
    class Title:
        title: str

    titles = Scraper("titles", allow_private=shop_site.hosts)

    @titles.step(item=Title)
    def home(page):
        yield Title(page.text("h1"))

    (item,) = (await titles.run(shop_site.seeds)).items
    assert isinstance(item, Title)


async def test_rejects_and_dead_letters_are_in_the_result(shop_site):
    @dataclass
    class Priced:
        price: float

    broken = Scraper("broken", allow_private=shop_site.hosts, retries=0)

    @broken.step(item=Priced)
    def home(page):
        yield {"price": "<b>cheap</b>"}
        yield Task(url=page.url, key="second", step=second)

    @broken.step
    def second(page):
        raise ValueError("no <price>")

    result = await broken.run(shop_site.seeds)
    assert result.rejects[0].data == {"price": "<b>cheap</b>"}
    assert result.dead[0].error.startswith("ValueError: no <price>")
    assert "raise ValueError" in result.dead[0].traceback
    assert not result.is_complete
    assert "ValueError" in str(result)
    assert "<price>" not in result._repr_html_()
    assert "&lt;price&gt;" in result._repr_html_()


async def test_the_table_of_a_notebook_is_escaped_and_bounded(shop_site):
    hostile = Scraper("hostile", allow_private=shop_site.hosts)

    @hostile.step
    def home(page):
        for number in range(12):
            yield {"a": "<script>alert(1)</script>", "n": number}

    html = (await hostile.run(shop_site.seeds))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "2 more items" in html


async def test_its_own_seeds_are_used_without_urls(shop_site):
    shop = make_shop(shop_site, start=shop_site.seeds)
    assert len((await shop.run()).items) == PRODUCTS


async def test_without_any_url_it_says_what_to_write(shop):
    with pytest.raises(InvalidInput, match=r"No URLs to start with\. Write: shop\.run"):
        await shop.run()


async def test_without_any_url_it_names_the_run_that_ended_at_a_limit(shop, shop_site, tmp_path):
    queue = str(tmp_path / "shop.db")
    first = await shop.run(shop_site.seeds, queue=queue, max_pages=1)
    with pytest.raises(
        InvalidInput, match=rf"Run {first.run_id} ended, max_pages=1 reached, with [1-9]"
    ) as raised:
        await shop.run(queue=queue, max_pages=100)
    assert str(raised.value).endswith(f"To go on with it: resume={first.run_id!r} and a larger limit")
    again = await shop.run(queue=queue, resume=first.run_id, max_pages=100)
    assert again.run_id == first.run_id and len(again.items) == PRODUCTS


async def test_settings_and_arguments_are_those_of_the_command(shop_site):
    titles = Scraper("titles", args={"word": str}, allow_private=shop_site.hosts)

    @titles.step
    def home(page):
        yield {"word": page.args.word}
        yield from map(page.follow, page.links("a"))

    result = await titles.run(shop_site.seeds, args={"word": "sale"}, max_pages=1)
    assert result.items == [{"word": "sale"}]
    assert result.state == RunState.PARTIAL
    assert "max_pages=1" in result.reason
    assert "temporary" in str(result)
    with pytest.raises(InvalidSetting, match="word"):
        await titles.run(shop_site.seeds)
    with pytest.raises(InvalidSetting, match="retries"):
        await titles.run(shop_site.seeds, args={"word": "x"}, retries=-1)


async def test_an_unknown_keyword_says_what_is_allowed(shop):
    with pytest.raises(InvalidSetting, match="Did you mean 'max_pages'"):
        await shop.run(["https://example.com"], max_page=3)
    with pytest.raises(InvalidSetting, match=r"Allowed are queue, .*; the sources .*; and the settings "):
        await shop.run(["https://example.com"], xyzzy=3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers"),
        ({"concurrency": 0}, "concurrency"),
        ({"on_invalid": "ignore"}, "on_invalid"),
        ({"resume": True}, "needs a queue that is kept"),
        ({"queue": 3}, "queue"),
        ({"args": "x"}, "args"),
    ],
)
async def test_a_wrong_option_is_named(shop, options, words):
    with pytest.raises(InvalidSetting, match=words):
        await shop.run(["https://example.com"], **options)


async def test_a_private_host_needs_to_be_allowed(shop_site):
    shop = Scraper("private")

    @shop.step
    def home(page):
        yield {}

    with pytest.raises(InvalidInput, match=r"Allow it with: allow_private=\['127"):
        await shop.run(shop_site.seeds)


async def test_what_cannot_be_queued_is_an_error_or_in_the_result(shop, shop_site):
    with pytest.raises(InvalidInput, match="Nothing could be queued"):
        await shop.run(["no url"])
    result = await shop.run(["no url", *shop_site.seeds], max_pages=1)
    assert result.counts["invalid"] == 1
    assert result.refused[0].text == "no url"


async def test_a_queue_that_is_kept_is_resumed(shop, shop_site, tmp_path):
    queue = str(tmp_path / "shop.db")
    handled = []

    @shop.step
    def slow(page):
        handled.append(page.url)
        yield {"sku": "slow"}

    async with shop.stream(shop_site.seeds, queue=queue) as items:
        async for _ in items:
            break
    result = await shop.run(shop_site.seeds, queue=queue)
    assert len(skus(result.items)) == PRODUCTS == len(result.items)
    async with open_queue(f"sqlite:///{queue}") as opened:
        assert [run.id for run in await opened.runs()] == [result.run_id]
    again = await shop.run(shop_site.seeds, queue=queue)  # a finished run is not resumed
    assert again.run_id != result.run_id


async def test_a_kept_queue_is_locked_like_that_of_the_command(shop, shop_site, tmp_path):
    queue = str(tmp_path / "shop.db")
    async with shop.stream(shop_site.seeds, queue=queue) as items:
        async for _ in items:
            with pytest.raises(ScraperBusy):
                await shop.run(shop_site.seeds, queue=queue)
            break


async def test_cancelling_hands_the_tasks_back(shop_site, tmp_path):
    shop = Scraper("waiting", rate=None, allow_private=shop_site.hosts)
    started = asyncio.Event()

    @shop.step
    async def home(page):
        started.set()
        await asyncio.Event().wait()
        yield {}

    queue = str(tmp_path / "shop.db")
    running = asyncio.create_task(shop.run(shop_site.seeds, queue=queue))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with open_queue(f"sqlite:///{queue}") as opened:
        (run,) = await opened.runs()
        stats = await opened.stats(run.id)
        assert (stats.pending, stats.leased, stats.dead) == (1, 0, 0)


async def test_cancelling_while_urls_are_read_leaves_nothing(shop):
    reading = asyncio.Event()

    async def urls():
        reading.set()
        await asyncio.Event().wait()
        yield "https://example.com"

    running = asyncio.create_task(shop.run(urls()))
    await reading.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_stream_yields_items_while_the_run_works(shop, shop_site):
    stream = shop.stream(shop_site.seeds)
    found = [item async for item in stream]
    assert len(skus(found)) == PRODUCTS == len(found)
    assert stream.result.counts["items"] == PRODUCTS
    with pytest.raises(InvalidInput, match="read once"):
        aiter(stream)


async def test_an_error_in_the_loop_of_a_stream_ends_the_run(shop, shop_site):
    with pytest.raises(LookupError):
        async with shop.stream(shop_site.seeds) as items:
            async for _ in items:
                raise LookupError


async def test_leaving_a_stream_ends_the_run_without_a_block(shop, shop_site):
    async for item in shop.stream(shop_site.seeds):
        assert item
        break
    while [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
        await asyncio.sleep(0)


async def test_a_slow_reader_holds_the_worker(shop_site, monkeypatch):
    monkeypatch.setattr("shoal.script.run.MAX_AHEAD", 10)
    many = Scraper("many", rate=None, per_host=4, allow_private=shop_site.hosts)
    pages = 0

    @many.step
    async def page_of_items(page):
        nonlocal pages
        pages += 1
        yield from_page(pages)

    def from_page(number):
        return {"n": number}

    tasks = [Task(url=shop_site.seeds[0], key=str(number)) for number in range(300)]
    async with many.stream(tasks, concurrency=4) as items:
        reader = aiter(items)
        await anext(reader)
        held = 0
        while held < 5:  # the same number of pages in five looks
            before = pages
            await asyncio.sleep(0.1)
            held = held + 1 if pages == before else 0
        assert pages < 200
        rest = [item async for item in reader]
    assert len(rest) == 299


async def test_a_resumed_stream_yields_the_earlier_items_too_and_is_not_held_for_good(
    shop_site, tmp_path, monkeypatch
):
    monkeypatch.setattr("shoal.script.run.MAX_AHEAD", 3)
    shop, queue = make_shop(shop_site), str(tmp_path / "shop.db")
    async with shop.stream(shop_site.seeds, queue=queue) as items:
        count = 0
        async for _ in items:
            count += 1
            if count == 10:
                break
    found = [item async for item in shop.stream(shop_site.seeds, queue=queue)]
    assert len(skus(found)) == PRODUCTS == len(found)


async def test_an_error_of_a_worker_is_raised(shop, shop_site):
    with pytest.raises(ShoalError):
        await shop.run(shop_site.seeds, playback="missing.warc")


def test_a_debugger_that_is_left_ends_the_run(shop_site):
    shop = Scraper("debugged", allow_private=shop_site.hosts)

    @shop.step
    async def home(page):
        raise bdb.BdbQuit
        yield {}

    with pytest.raises(bdb.BdbQuit):
        shop.run_sync(shop_site.seeds)


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_a_breakpoint_stops_in_the_step(shop_site, monkeypatch, kind):
    shop = Scraper("debugged", allow_private=shop_site.hosts)
    stops = []
    monkeypatch.setattr("sys.breakpointhook", lambda: stops.append(os.getpid()))

    if kind == "async":

        @shop.step
        async def home(page):
            breakpoint()
            yield {"ok": True}
    else:

        @shop.step
        def home(page):
            breakpoint()
            yield {"ok": True}

    assert shop.run_sync(shop_site.seeds).items == [{"ok": True}]
    assert stops == [os.getpid()]


@pytest.mark.parametrize("backend", ["postgres_url", "redis_url", "rabbitmq_url"])
def test_it_runs_on_every_queue(shop, shop_site, request, backend):
    queue = request.getfixturevalue(backend)
    result = shop.run_sync(shop_site.seeds, queue=queue)
    assert len(skus(result.items)) == PRODUCTS == len(result.items)

    async def read():
        return [item async for item in shop.stream(shop_site.seeds, queue=queue)]

    found = asyncio.run(read())
    assert len(skus(found)) == PRODUCTS == len(found)


def test_a_scraper_that_has_no_file_cannot_have_worker_processes(shop, shop_site):
    with pytest.raises(InvalidInput, match=r"%%writefile shop\.py"):
        shop.run_sync(shop_site.seeds, workers=2)
