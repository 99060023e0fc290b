"""Spiders of a Scrapy project give the same items on Shoal's workers as with plain Scrapy."""

import json

import pytest

from tests.cases import long
from tests.integration.scrapy.crawls import PROJECT, read_items


@pytest.mark.parametrize("spider", ["mixed", *long("rules", "covers", "old")])
def test_a_spider_of_a_project_gives_the_items_of_plain_scrapy(crawls, tmp_path, spider):
    found, _ = crawls.on_shoal(f"{PROJECT}:{spider}", f"sqlite:///{tmp_path}/queue.db")
    assert found == crawls.plain(spider)
    assert found


@pytest.mark.long
def test_what_start_has_yielded_before_it_fails_is_crawled(crawls, tmp_path):
    found, shown = crawls.on_shoal(f"{PROJECT}:stumbles", f"sqlite:///{tmp_path}/queue.db", code=3)
    assert found == {json.dumps({"name": "before"}): 1}
    assert "start() failed: ValueError: start" in shown


@pytest.mark.long
@pytest.mark.parametrize("spider", ["listing", "modern"])
def test_several_workers_share_a_spider_its_cookies_its_start_and_what_its_callbacks_set(
    crawls, tmp_path, spider
):
    queue = f"sqlite:///{tmp_path}/queue.db"
    found, _ = crawls.on_shoal(f"{PROJECT}:{spider}", queue, "--workers", "2")
    assert found == crawls.plain(spider)


@pytest.mark.long
@pytest.mark.parametrize(
    ("spider", "store"),
    [("mixed", "postgres_url"), ("members", "redis_url"), ("remembers", "rabbitmq_url")],
)
def test_the_items_are_the_same_on_every_queue(crawls, request, store, spider):
    queue = request.getfixturevalue(store)
    found, _ = crawls.on_shoal(f"{PROJECT}:{spider}", queue, "--workers", "2")
    assert found == crawls.plain(spider)


@pytest.mark.long
def test_a_spider_of_before_start_is_found_in_a_file_and_another_in_a_project_by_name(crawls, tmp_path):
    queue = f"sqlite:///{tmp_path}/queue.db"
    file = tmp_path / "names.py"
    file.write_text(
        "import os, scrapy\n"
        "class Names(scrapy.Spider):\n"
        "    name = 'names'\n"
        "    def start_requests(self):\n"
        "        yield scrapy.Request(os.environ['SITE'] + '/name/one', self.parse_name)\n"
        "    def parse_name(self, response):\n"
        "        yield response.json()\n"
    )
    found, _ = crawls.on_shoal(str(file), queue)
    assert found == {json.dumps({"name": "one"}): 1}
    out = tmp_path / "maps.jsonl"
    command = ["-m", "shoal", "run", "maps", "--queue", queue, "--out", str(out)]
    crawls.run(command, cwd=PROJECT)
    assert read_items(out) == crawls.plain("maps")


@pytest.mark.long
def test_a_spider_that_cannot_be_opened_says_what_to_type(crawls, tmp_path):
    file = tmp_path / "tagged.py"
    file.write_text(
        "import scrapy\n"
        "class Tagged(scrapy.Spider):\n"
        "    name = 'tagged'\n"
        "    def __init__(self, tag, **args):\n"
        "        super().__init__(**args)\n"
    )
    command = ["-m", "shoal", "run", str(file), "--queue", f"sqlite:///{tmp_path}/queue.db"]
    shown = crawls.run(command, cwd=tmp_path, code=1)
    assert "missing 1 required positional argument: 'tag'" in shown
    assert "-a NAME=VALUE" in shown


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["parse", "{site}/list/1", "--spider", "old"], "'after': '1'"),
        (["shell", "{site}/name/x", "-c", "response.json()"], "{'name': 'x'}"),
    ],
)
def test_other_commands_of_scrapy_do_not_touch_the_queue(crawls, tmp_path, command, says):
    queue = tmp_path / "queue.db"
    command = [one.format(site=crawls.site.url) for one in command]
    settings = ["-s", "SCHEDULER=shoal.scrapy.Scheduler", "-s", f"SHOAL_QUEUE=sqlite:///{queue}"]
    assert says in crawls.run(["-m", "scrapy", *command, *settings], cwd=PROJECT)
    assert not queue.exists()


@pytest.mark.long
def test_typed_urls_take_the_place_of_start_and_a_link_to_one_is_followed_once(crawls, tmp_path):
    file, site = tmp_path / "circle.py", crawls.site.url
    file.write_text(
        "import scrapy\n"
        "class Circle(scrapy.Spider):\n"
        "    name = 'circle'\n"
        f"    start_urls = ['{site}/name/start']\n"
        "    def parse(self, response):\n"
        "        yield response.json()\n"
        "        yield response.follow('/name/one')\n"
    )
    queue, typed = f"sqlite:///{tmp_path}/queue.db", [f"--url={site}/name/{name}" for name in ("one", "two")]
    found, _ = crawls.on_shoal(str(file), queue, *typed)
    # Twice as in Scrapy, where start URLs are not filtered.
    assert found == {json.dumps({"name": "one"}): 2, json.dumps({"name": "two"}): 1}


@pytest.mark.long
def test_an_exception_of_a_callback_is_a_reject_and_a_failed_request_a_dead_letter(crawls, tmp_path):
    file = tmp_path / "lost.py"
    file.write_text(
        "import scrapy\n"
        "class Lost(scrapy.Spider):\n"
        "    name = 'lost'\n"
        f"    start_urls = ['http://127.0.0.1:1/', '{crawls.site.url}/name/one']\n"
        "    custom_settings = {'RETRY_ENABLED': False}\n"
        "    def parse(self, response):\n"
        "        raise ValueError('two')\n"
    )
    _, shown = crawls.on_shoal(str(file), f"sqlite:///{tmp_path}/queue.db", code=3)
    assert "1 rejected" in shown
    assert "ValueError: two (lost.py:7)" in shown
    assert "1 dead letter" in shown
    assert "DownloadConnectionRefusedError" in shown


@pytest.mark.long
def test_feeds_are_those_of_scrapy_and_statistics_those_of_all_workers(crawls, tmp_path):
    feeds = {
        "%(name)s-%(limit)s.csv": {"format": "csv", "fields": ["title", "price"], "overwrite": True},
        "%(name)s.json": {"format": "json", "indent": 1, "item_classes": ["bookbot.items.Book"]},
    }
    options = ["-a", "limit=3", "-s", f"FEEDS={json.dumps(feeds)}"]
    options += ["-s", "FEED_URI=old.csv", "-s", "FEED_FORMAT=csv"]  # as before FEEDS
    crawls.run(["-m", "scrapy", "crawl", "listing", *options, "-s", "BOT_NAME=plain"], cwd=PROJECT)
    names = ("listing-3.csv", "old.csv")
    try:
        expected, old = (sorted((PROJECT / name).read_text().splitlines()) for name in names)
    finally:
        for name in (*names, "listing.json"):
            (PROJECT / name).unlink()
    queue = f"sqlite:///{tmp_path}/queue.db"
    command = ["-m", "shoal", "run", f"{PROJECT}:listing", "--queue", queue, "--workers", "2", *options]
    shown = crawls.run([*command, "--json"], cwd=tmp_path)
    written = [sorted((tmp_path / name).read_text().splitlines()) for name in names]
    assert written == [expected, old]
    assert not (tmp_path / "listing.json").exists()
    assert "FEEDS is not used for %(name)s.json" in shown
    end = json.loads(shown.splitlines()[-1])
    assert end["scraper_stats"]["item_scraped_count"] == end["items"] == len(expected) - 1
    status = crawls.run(["-m", "shoal", "status", end["run_id"], "--queue", queue], cwd=tmp_path)
    assert f"'item_scraped_count': {end['items']}," in status


@pytest.mark.long
def test_a_limit_of_items_holds_for_all_workers(crawls, tmp_path):
    queue = f"sqlite:///{tmp_path}/queue.db"
    command = ["-m", "shoal", "run", f"{PROJECT}:paced", "--queue", queue, "--workers", "2", "--json"]
    shown = crawls.run([*command, "-s", "CLOSESPIDER_ITEMCOUNT=5"], cwd=tmp_path, code=6)
    end = json.loads(shown.splitlines()[-1])
    assert (end["state"], end["reason"]) == ("partial", "closespider_itemcount reached")
    assert 5 <= end["items"] < 30
