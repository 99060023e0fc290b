"""`shoal check` in a project."""

import json
from textwrap import dedent

import pytest

from shoal.cli.exits import Exit
from tests.unit.cli.typed import typed

SCRAPER = """
    from shoal import Scraper

    pages = Scraper("pages")


    @pages.step
    def page(page):
        yield {}
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text(dedent(SCRAPER))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_scraper_is_found_by_its_name_in_the_project_and_checked_with_its_settings(project):
    (project / "shoal.toml").write_text(
        '[scrapers.news]\nmodule = "one.py"\nproxies = "http://127.0.0.1:1"\n'
    )
    done = typed("check", "news", "--json")
    found = {row["what"]: row for row in rows(done)}
    assert found["scraper"]["says"] == "pages has the steps page, starting with page"
    assert found["proxies"]["health"] == "bad"
    assert done.exit_code == Exit.FAILED


def test_without_a_name_every_scraper_of_the_project_is_checked(project):
    (project / "shoal.toml").write_text(
        '[scrapers.news]\nmodule = "one.py"\nproxies = "http://127.0.0.1:1"\n'
        '[scrapers.lost]\nmodule = "two.py"\n'
    )
    done = typed("check", "--json")
    scrapers = [row for row in rows(done) if row["what"] == "scraper"]
    assert [row["health"] for row in scrapers] == ["good", "bad"]
    assert "two.py" in scrapers[1]["says"]
    assert [row["health"] for row in rows(done) if row["what"] == "proxies of pages"] == ["bad"]
    assert done.exit_code == Exit.FAILED


def test_schedules_are_checked_and_whether_messages_can_be_sent(project, monkeypatch):
    monkeypatch.delenv("CHAT_URL", raising=False)
    file = project / "shoal.toml"
    text = (
        '[scrapers.news]\nmodule = "one.py"\n[schedules.nightly]\nscraper = "news"\ncron = "0 2 * * *"\n'
        '[notify.chat]\nkind = "slack"\nurl = "env:CHAT_URL"\n'
    )
    file.write_text(text)
    found = {row["what"]: row for row in rows(typed("check", "--json"))}
    assert found["schedule nightly"]["says"] == "cron 0 2 * * * UTC"
    assert found["notify chat"]["health"] == "poor" and "CHAT_URL" in found["notify chat"]["says"]
    monkeypatch.setenv("CHAT_URL", "https://chat.example/1")
    found = {row["what"]: row for row in rows(typed("check", "--json"))}
    assert (found["notify chat"]["health"], "notify test chat" in found["notify chat"]["says"]) == (
        "good",
        True,
    )
    file.write_text(text.replace("0 2 * * *", "0 2 * *"))
    done = typed("check", "--json")
    assert done.exit_code == Exit.FAILED and rows(done)[-1]["health"] == "bad"
    assert "schedules.nightly.cron" in rows(done)[-1]["says"]


def test_seeds_that_cannot_be_read_are_found(project):
    # As of a line that was added below the last table of the file.
    (project / "shoal.toml").write_text(
        '[scrapers.news]\nmodule = "one.py"\n[scrapers.news.seeds]\nqueue = "sqlite:///shoal.db"\n'
    )
    done = typed("check", "--json")
    (row,) = [row for row in rows(done) if row["what"] == "scraper"]
    assert (row["health"], done.exit_code) == ("bad", Exit.FAILED)
    assert "scrapers.news.seeds.queue is not known" in row["says"]


def test_a_route_to_a_step_of_another_scraper_is_no_finding(project):
    (project / "two.py").write_text(dedent(SCRAPER).replace("def page", "def live"))
    (project / "shoal.toml").write_text(
        '[scrapers.a]\nmodule = "one.py"\n[scrapers.b]\nmodule = "two.py"\n'
        '[[routes]]\nmatch = "*/live/*"\nstep = "live"\n[[routes]]\nmatch = "*/x/*"\nstep = "lost"\n'
    )
    done = typed("check", "--json")
    says = [row["says"] for row in rows(done) if row["what"] == "routes"]
    assert says == ["rule 2 leads to the step 'lost', which every scraper lacks: its URLs are skipped"]
    assert done.exit_code == Exit.OK


def test_proxies_need_a_scraper(project):
    done = typed("check", "--proxies", "http://127.0.0.1:1")
    assert "--proxies and --tokens need a scraper" in done.stderr
    assert done.exit_code == Exit.USAGE


TABLE = """
[scrapers.listings]
module = "one.py"

[scrapers.listings.seeds]
combine = "https://listings.example/{state}/{kind}"
axis = ["state:CA,NV,TX", "kind:cafe,bar"]
partition = "state"

[scrapers.listings.partitions]
1 = ["CA", "NV"]
"""


@pytest.mark.parametrize(
    ("more", "health", "says"),
    [
        ("", "bad", "gives 'TX' of the scraper 'pages' to no worker"),
        ('2 = ["TX"]', "good", "each of the 3 has a worker"),
        ('2 = ["TXX"]', "bad", "the scraper 'pages' has no such partition. Did you mean 'TX'"),
    ],
)
def test_a_partition_table_is_compared_with_the_declared_seeds(project, more, health, says):
    (project / "shoal.toml").write_text(TABLE + more)
    (row,) = [row for row in rows(typed("check", "listings", "--json")) if row["what"] == "partitions"]
    assert row["health"] == health and says in row["says"]


def test_a_typed_partition_table_replaces_that_of_the_project(project):
    (project / "shoal.toml").write_text(TABLE)
    for text, says in [('1 = ["CA", "NV", "TX"]', "each of the 3"), ('1 = ["CA"]\n2 = ["CA"]', "remove it")]:
        (project / "states.toml").write_text(text)
        found = rows(typed("check", "--partition-table", "states.toml", "--json"))
        assert [says in row["says"] for row in found if row["what"] == "partitions"] == [True]


@pytest.mark.parametrize(
    "seeds", ['sitemap = "http://127.0.0.1:1/s.xml"', 'urls_file = "-"', 'from_run = "newest"']
)
def test_a_partition_table_is_not_compared_with_seeds_that_need_more_than_this_machine(project, seeds):
    (project / "shoal.toml").write_text(
        f'[scrapers.a]\nmodule = "one.py"\npartitions = {{1 = ["CA"]}}\n[scrapers.a.seeds]\n{seeds}\n'
    )
    (row,) = [row for row in rows(typed("check", "--json")) if row["what"] == "partitions"]
    assert row["health"] == "good" and "when its tasks are enqueued" in row["says"]
