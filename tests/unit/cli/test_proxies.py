"""What people see of proxies, and never see."""

import pytest

from shoal.cli.job import read_job
from shoal.cli.options import setting
from shoal.cli.proxies import COLUMNS, row
from shoal.fetch.proxies.board import Deeds, Sentence
from shoal.fleet.proxies import ProxyStatus
from shoal.fleet.retyping import typed_again

SCRAPER = """
from shoal import Page, Scraper

books = Scraper("books")


@books.step
def listing(page: Page):
    return None
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proxies.txt").write_text("me:s3cret@p.test:80")
    (tmp_path / "books.py").write_text(SCRAPER)
    return "books.py"


def again(file, text):
    job = read_job(file, queue="sqlite:///shoal.db", changes=setting("proxies", text))
    return job, typed_again(job, "shoal", "run", file)


def test_the_command_that_goes_on_names_the_file(file):
    job, typed = again(file, "proxies.txt strategy=random")
    assert job.scraper.settings.proxies.strategy == "random"
    assert typed == "shoal run books.py --set 'proxies=proxies.txt strategy=random'"
    assert setting("proxies", None) == []


@pytest.mark.parametrize("text", ["http://me:s3cret@p.test:80", '["p.test:80:me:s3cret"]'])
def test_and_no_address_that_was_typed(file, text):
    job, typed = again(file, text)
    assert job.scraper.settings.proxies.listed
    assert "s3cret" not in typed and "proxies=…" in typed


def test_a_row_says_what_is_known():
    status = ProxyStatus("http://p.test:80")
    status.add(Deeds(pages=3, faults={"slow": 2}, seconds=0.5, last_fault="slow"))
    status.benched, status.back_in = Sentence("slow", 3600.0, 10), 125.0
    status.blocked_by = [f"h{number}.test" for number in range(5)]
    shown = row(status)
    assert set(COLUMNS) <= shown.keys()
    assert (shown["state"], shown["back_in"], shown["seconds"]) == ("benched", "2 min 5 s", "0.50")
    assert shown["blocked_by"] == "h0.test, h1.test, h2.test, …"
    assert row(ProxyStatus("http://p.test:80"))["state"] == "untried"
