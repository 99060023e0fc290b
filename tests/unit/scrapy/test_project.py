"""Spiders are found in folders and files, and become scrapers."""

import asyncio
import sys
from datetime import timedelta

import pytest
import scrapy
from scrapy.settings import Settings

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import RunSettings
from shoal.fleet.build_job import make_job
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load
from shoal.fleet.status.doctor import CheckStatus, examine
from shoal.scrape.load import load_scraper
from shoal.scrapy.pacing import HostPacer
from shoal.scrapy.settings import fates

SPIDER = """
import scrapy

class Quotes(scrapy.Spider):
    name = "quotes"
    custom_settings = {"DOWNLOAD_DELAY": 2}

    def parse(self, response):
        yield {}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    (folder / "shopbot" / "spiders").mkdir(parents=True)
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = shopbot.settings\n")
    (folder / "shopbot" / "__init__.py").touch()
    (folder / "shopbot" / "spiders" / "__init__.py").touch()
    (folder / "shopbot" / "settings.py").write_text(
        'SPIDER_MODULES = ["shopbot.spiders"]\nFEEDS = {"a.json": {}}\nTWISTED_REACTOR_ENABLED = False\n'
    )
    (folder / "shopbot" / "spiders" / "quotes.py").write_text(SPIDER)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("SCRAPY_SETTINGS_MODULE", "SHOAL_SCRAPY_SETTINGS"):
        monkeypatch.setenv(name, "")
    yield folder
    for name in [one for one in sys.modules if one.partition(".")[0] == "shopbot"]:
        del sys.modules[name]


def test_a_spider_is_found_by_its_projects_folder_by_its_name_and_in_a_file(project, tmp_path, monkeypatch):
    assert load_scraper(f"{project}:quotes").name == "quotes"
    assert load_scraper(str(project)).name == "quotes"
    monkeypatch.chdir(project)
    assert load_scraper("quotes").name == "quotes"
    file = tmp_path / "alone.py"
    file.write_text(SPIDER)
    assert load_scraper(str(file)).name == "quotes"
    assert load_scraper(f"{file}:Quotes").name == "quotes"


def test_a_spider_is_found_that_has_the_name_of_its_package(project, monkeypatch):
    spider = project / "shopbot" / "spiders" / "quotes.py"
    spider.write_text(SPIDER.replace('name = "quotes"', 'name = "shopbot"'))
    monkeypatch.chdir(project)
    assert load_scraper("shopbot").name == "shopbot"


def test_a_project_is_found_from_a_folder_within_it_and_for_a_file_of_it(project, monkeypatch):
    monkeypatch.chdir(project / "shopbot" / "spiders")
    assert load_scraper("quotes").name == "quotes"
    with pytest.raises(InvalidInput, match="There is no module 'no_such_spider'"):
        load_scraper("no_such_spider")
    assert "FEEDS" in {part[0] for part in load_scraper("quotes.py").parts()}


def test_the_code_of_a_project_finds_its_settings_from_any_folder(project, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spider = project / "shopbot" / "spiders" / "quotes.py"
    found = "from scrapy.utils.project import get_project_settings\nFEEDS = get_project_settings()['FEEDS']\n"
    spider.write_text(found + SPIDER)
    load_scraper(f"{project}:quotes")
    assert sys.modules["shopbot.spiders.quotes"].FEEDS.copy_to_dict() == {"a.json": {}}
    (project / "shopbot" / "prod.py").write_text('SPIDER_MODULES = ["shopbot.spiders"]\nBOT_NAME = "prod"\n')
    assert load_scraper(f"{project}:quotes").bridge.settings["BOT_NAME"] != "prod"
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "shopbot.prod")
    for _ in range(2):
        assert load_scraper(f"{project}:quotes").bridge.settings["BOT_NAME"] == "prod"


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (
            "spiders/bad.py",
            "import not_installed",
            r"The spiders of the project shop could not be imported: ModuleNotFoundError: "
            r"No module named 'not_installed' \(shopbot/spiders/bad.py:1\)\. "
            r"Install .* SPIDER_LOADER_WARN_ONLY = True",
        ),
        ("spiders/bad.py", "def :", r"SyntaxError: .*\(shopbot/spiders/bad.py:1\)"),
        (
            "settings.py",
            "import os\nKEY = os.environ['NO_SUCH_KEY']",
            r"The settings shopbot.settings of the project shop could not be imported: "
            r"KeyError: 'NO_SUCH_KEY' \(shopbot/settings.py:2\)",
        ),
        (
            "settings.py",
            'SPIDER_MODULES = ["none.there"]',
            r"could not be imported: .*No module named 'none'",
        ),
    ],
)
def test_what_cannot_be_imported_is_said_with_its_line(project, file, text, says):
    (project / "shopbot" / file).write_text(text)
    with pytest.raises(InvalidInput, match=says):
        load_scraper(f"{project}:quotes")


def test_a_spider_says_how_to_install_scrapy(tmp_path, monkeypatch):
    file = tmp_path / "alone.py"
    file.write_text(SPIDER)
    monkeypatch.setitem(sys.modules, "scrapy", None)
    with pytest.raises(InvalidInput, match=r"alone.py could not be .*, line 2: .* Run: pip install .*scrapy"):
        load_scraper(str(file))


def test_an_unknown_spider_is_answered_with_the_nearest_one(project, tmp_path):
    with pytest.raises(InvalidInput, match=r"The project shop has no spider 'qotes'. Did you mean 'quotes'"):
        load_scraper(f"{project}:qotes")
    file = tmp_path / "two.py"
    file.write_text(SPIDER + SPIDER.replace("Quotes", "Books").replace('"quotes"', '"books"'))
    with pytest.raises(InvalidInput, match=r"two.py has several spiders. Name one: books, quotes"):
        load_scraper(str(file))


def test_a_folder_or_a_file_without_a_spider_is_refused_as_before(tmp_path):
    with pytest.raises(InvalidInput, match="There is no file"):
        load_scraper(str(tmp_path))
    file = tmp_path / "empty.py"
    file.write_text("import scrapy\n")
    with pytest.raises(InvalidInput, match="has no scraper"):
        load_scraper(str(file))


def test_settings_of_scrapy_are_those_of_the_run_and_typed_ones_win(project):
    scraper = load_scraper(f"{project}:quotes")
    assert scraper.settings.delay == timedelta(seconds=2)
    typed = scraper.group_settings({"DOWNLOAD_DELAY": "0.5", "per_host": 3})
    changed = scraper.replace(**typed)
    assert (changed.settings.delay, changed.settings.per_host) == (timedelta(seconds=0.5), 3)
    assert changed.bridge.settings["DOWNLOAD_DELAY"] == "0.5"
    assert changed.replace(max_pages=9).settings.delay == timedelta(seconds=0.5)
    assert scraper.replace(rate="10/s").settings.delay == timedelta(seconds=0.1)
    # A typed setting of Scrapy does not take back a delay that a project file has set before.
    assert scraper.replace(delay=7).replace(scrapy={"LOG_LEVEL": "INFO"}).settings.delay.seconds == 7
    assert scraper.hooks.finish_timeout == scraper.settings.lease  # pipelines may close for as long
    with pytest.raises(InvalidSetting, match="upper-case"):
        scraper.replace(scrapy={"delay": 1})


def test_arguments_of_any_name_are_taken(project):
    args = load_scraper(f"{project}:quotes").declared_args
    assert args.read({"tag": "humor"}) == {"tag": "humor"}


def test_a_spider_may_be_a_scraper_of_a_project_file(project, tmp_path):
    (tmp_path / "shoal.toml").write_text('[scrapers.q]\nmodule = "shop:quotes"\nDOWNLOAD_DELAY = 3\n')
    loaded = load(Project.find(tmp_path), "q")
    assert loaded.reference == f"{tmp_path}/shop:quotes"
    assert loaded.scraper.settings.delay == timedelta(seconds=3)
    job = make_job("q", loaded, queue_url="sqlite://", settings={"RETRY_TIMES": "1"})
    for_worker = load_scraper(job.reference).replace(**job.overrides)
    assert for_worker.settings.scrapy == {"DOWNLOAD_DELAY": 3, "RETRY_TIMES": "1"}


def test_what_is_not_used_is_listed_with_what_to_do(project):
    settings = load_scraper(f"{project}:quotes").bridge.settings
    found = {fate.what: fate for fate in fates(settings)}
    assert str(found["FEEDS"]) == "FEEDS is written from the queue when the run has ended"
    by_class = fates(Settings({"FEEDS": {"a.jl": {"item_classes": ["shop.Book"]}}, "JOBDIR": "job"}))
    says = [str(fate) for fate in by_class if not fate.is_used]
    assert says[0].startswith("JOBDIR is not used: runs are always stored")
    assert says[1].startswith("FEEDS is not used for a.jl: the queue does not store the classes of items")
    assert found["DOWNLOAD_DELAY"].is_used
    redis = Settings({"ITEM_PIPELINES": {"scrapy_redis.pipelines.RedisPipeline": 1}})
    assert "ITEM_PIPELINES" not in {fate.what for fate in fates(redis)}


async def test_a_check_of_a_project_lists_what_all_its_spiders_have(project, tmp_path):
    (project / "shopbot" / "spiders" / "books.py").write_text(SPIDER.replace('"quotes"', '"books"'))
    settings = project / "shopbot" / "settings.py"
    settings.write_text(settings.read_text() + 'EXTENSIONS = {"none.There": 1}\n')
    with pytest.raises(InvalidInput) as raised:
        load_scraper(str(project))
    results = examine(f"sqlite:///{tmp_path}/queue.db", raised.value)
    found = {one.what: (one.health, one.says) async for one in results}
    names = "The project shop has several spiders. Name one: books, quotes"
    assert found["scraper"] == (CheckStatus.POOR, names)
    broken = "none.There, which cannot be imported: No module named 'none'"
    assert found["EXTENSIONS"] == (CheckStatus.BAD, broken)


def test_a_pipeline_that_remembers_items_is_said_to_see_those_of_its_worker_only(project):
    file = project / "shopbot" / "settings.py"
    names = '"shopbot.pipelines.Once": 1, "shopbot.pipelines.Clean": 2'
    file.write_text(file.read_text() + f"\nITEM_PIPELINES = {{{names}}}\n")
    (project / "shopbot" / "pipelines.py").write_text(
        "class Once:\n    def __init__(self):\n        self.ids_seen = set()\n\nclass Clean:\n    pass\n"
    )
    parts = [
        (is_used, says)
        for what, is_used, says in load_scraper(f"{project}:quotes").parts()
        if what == "ITEM_PIPELINES"
    ]
    assert (True, "shopbot.pipelines.Clean, in each worker") in parts
    (once,) = [says for is_used, says in parts if not is_used]
    assert once.startswith(
        "shopbot.pipelines.Once, in each worker: of self.ids_seen, one worker does not see"
    )


def test_what_does_not_work_is_listed(project):
    settings = '\nDOWNLOAD_DELY = 3\nITEM_PIPELINES = {"shopbot.nowhere.Pipeline": 1}\n'
    file = project / "shopbot" / "settings.py"
    file.write_text(file.read_text() + settings)
    spider = project / "shopbot" / "spiders" / "quotes.py"
    spider.write_text(SPIDER + "\n    def start_requests(self):\n        yield scrapy.Request('data:,')\n")
    parts = {(what, is_used): says for what, is_used, says in load_scraper(f"{project}:quotes").parts()}
    assert parts["DOWNLOAD_DELY", False] == "no setting of Scrapy. Did you mean DOWNLOAD_DELAY?"
    broken = parts["ITEM_PIPELINES", None]
    assert broken.startswith("shopbot.nowhere.Pipeline, which cannot be imported: No module named")
    if hasattr(scrapy.Spider, "start_requests"):  # up to 2.15
        assert ("start_requests()", True) not in parts
    else:
        assert "async def start" in parts["start_requests()", True]


async def test_a_delay_that_is_changed_while_it_runs_holds_for_requests_within_tasks(project, queue):
    made = load_scraper(f"{project}:quotes")
    pacer = made.bridge._pacer = HostPacer(queue, RunSettings(host_delay=timedelta(0)), made.settings.sites)
    made.change(delay=timedelta(seconds=0.2))
    sent = []
    for _ in range(2):
        async with pacer.turn(scrapy.Request("https://shop.test/")):
            sent.append(asyncio.get_running_loop().time())
    assert sent[1] - sent[0] >= 0.95 * 0.2
