import os

import pytest

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load, load_entry

SCRAPER = """
from shoal import Scraper

books = Scraper("books", rate="1/s")

@books.step
async def page(page):
    yield {}
"""
FULL = """
queue = "sqlite:///books.db"

[workers]
count = 4

[scrapers.books]
module = "books.py:books"
rate = "5/s"
mode = "distributed"
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "environ", {})
    (tmp_path / "books.py").write_text(SCRAPER)

    def written(text, name="shoal.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path

    return written


def test_a_project_names_its_queue_its_workers_and_its_scrapers(write):
    folder = write(FULL)
    project = Project.find(folder)
    assert project.variables == {"SHOAL_QUEUE": "sqlite:///books.db", "SHOAL_WORKERS": "4"}
    scraper = load_entry(project.entry("books"), folder)
    assert scraper.settings.mode == "distributed"
    assert scraper.settings.delay.total_seconds() == pytest.approx(0.2)


def test_a_project_says_what_a_scraper_begins_with_and_describes_a_cluster(write):
    text = FULL + '[scrapers.books.seeds]\nurl = ["https://a.test/"]\n[storage]\nresults = "{run}.jsonl"\n'
    project = Project.find(write(text))
    assert project.scrapers["books"].seeds == {"url": ["https://a.test/"]}
    assert set(project.scrapers["books"].overrides) == {"rate", "mode"}
    assert project.cluster.storage.results == "{run}.jsonl"
    assert project.cluster.workers.count == 4


def test_a_scraper_is_loaded_by_its_name_or_by_its_file(write):
    folder = write(FULL)
    named = load(Project.find(folder), "books")
    assert named.reference == f"{folder}/books.py:books"
    assert named.overrides == {"rate": "5/s", "mode": "distributed"}
    by_file = load(Project.find(folder), f"{folder}/books.py")
    assert by_file.overrides == {} and by_file.scraper.settings.mode == "single"


def test_it_is_found_from_a_folder_below(write):
    folder = write(FULL) / "deep" / "down"
    folder.mkdir(parents=True)
    assert set(Project.find(folder).scrapers) == {"books"}


def test_a_syntax_error_in_yaml_names_its_line_and_shows_nothing_of_it(write):
    text = "robots: true\nqueue: postgresql://me:s3cret@db/shoal : x\n"
    with pytest.raises(InvalidInput, match="mapping values are not allowed here in line 2") as refused:
        Project.find(write(text, "shoal.yaml"))
    assert "s3cret" not in str(refused.value)


def test_yaml_says_the_same(write):
    text = "queue: sqlite:///books.db\nworkers: {count: 4}\nscrapers: {books: {module: books.py, rate: 5/s}}"
    project = Project.find(write(text, "shoal.yaml"))
    assert project.variables == {"SHOAL_QUEUE": "sqlite:///books.db", "SHOAL_WORKERS": "4"}
    assert project.entry("books").overrides == {"rate": "5/s"}


def test_of_two_project_files_in_a_folder_the_second_is_ignored_and_named(tmp_path, caplog):
    (tmp_path / "shoal.toml").write_text('queue = "sqlite:///toml.db"')
    (tmp_path / "shoal.yaml").write_text("queue: sqlite:///yaml.db\n")
    assert Project.find(tmp_path).file == tmp_path / "shoal.toml"
    assert f"Ignored {tmp_path / 'shoal.yaml'}: shoal.toml in the same folder is read instead" in caplog.text


def test_a_file_or_module_is_no_name_of_the_project(write):
    project = Project.find(write(FULL))
    assert project.entry("books.py") is None
    assert project.entry("package.module:books") is None


def test_without_a_project_file_nothing_is_said(tmp_path, write):
    project = Project.find(tmp_path)
    assert project.entry("books") is None and not project.variables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queu = 'x'", "shoal.toml: queu is not known. Did you mean 'queue'?"),
        ("[workers]\ncount = 0", "shoal.toml: workers.count must be a whole number from 1"),
        ("[workers]\ncont = 1", "shoal.toml: workers.cont is not known. Did you mean 'count'?"),
        ("workers = 3", "shoal.toml: workers must be a table"),
        ("queue = 5", "shoal.toml: queue must be text"),
        ("queue = ['redis://a', 'redis://b']", "shoal.toml: queue takes one address"),
        ("[scrapers.books]\nrate = 1", "shoal.toml: scrapers.books must have a module"),
        ("[storages]\nresults = 'x'", "shoal.toml: storages is not known. Did you mean 'storage'?"),
        ("[scrapers.b]\nmodule = 'b.py'\nseeds = 3", "shoal.toml: scrapers.b.seeds must be a table"),
        ("queue = ", "shoal.toml cannot be read"),
    ],
)
def test_a_mistake_is_named_with_its_file_and_key(write, text, said):
    with pytest.raises(InvalidInput) as caught:
        Project.find(write(text))
    assert said in str(caught.value)


def test_a_wrong_setting_of_a_scraper_is_named_with_its_file_and_key(write):
    folder = write(FULL.replace("rate", "rat"))
    with pytest.raises(InvalidSetting, match=r"shoal.toml: scrapers.books.rat is not a setting"):
        load_entry(Project.find(folder).entry("books"), folder)


def test_an_unknown_name_is_refused_with_the_nearest_one(write):
    with pytest.raises(InvalidInput, match="Did you mean 'books'"):
        Project.find(write(FULL)).entry("bookz")
