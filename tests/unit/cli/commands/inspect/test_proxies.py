"""What the output shows of proxies, and hides."""

import pytest

from shoal.cli.options.workers import read_job
from shoal.cli.tables import put_rows
from shoal.fetch.proxies.sync import ProxyBan, ProxyStats
from shoal.fleet.command_hints import command_for_job
from shoal.fleet.status.proxies import ProxyStatus
from shoal.fleet.status.rows.fetchers import ProxyRow

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
    job = read_job(file, queue="sqlite:///shoal.db", changes=[f"proxies={text}"])
    return job, command_for_job(job, "shoal", "run", file)


def test_the_resume_command_leaves_out_what_the_run_remembers(file):
    job, typed = again(file, "proxies.txt strategy=random")
    assert job.scraper.settings.proxies.strategy == "random"
    assert typed == "shoal run books.py", "the run remembers the file"


@pytest.mark.parametrize("text", ["http://me:s3cret@p.test:80", '["p.test:80:me:s3cret"]'])
def test_the_resume_command_hides_typed_proxies(file, text):
    job, typed = again(file, text)
    assert job.scraper.settings.proxies.listed
    assert "s3cret" not in typed and "proxies=…" in typed


def test_a_row_shows_the_known_values(capsys):
    status = ProxyStatus("http://p.test:80")
    status.add(ProxyStats(pages=3, faults={"slow": 2}, seconds=0.5, last_fault="slow"))
    status.benched, status.back_in = ProxyBan("slow", 3600.0, 10), 125.0
    status.blocked_by = [f"h{number}.test" for number in range(5)]
    put_rows([status.row()], ProxyRow.columns, as_json=False, nothing="")
    shown = capsys.readouterr().out
    for text in ("benched", "2 min 5 s", "0.50", "h0.test, h1.test, h2.test, …"):
        assert text in shown
    assert ProxyStatus("http://p.test:80").row().state == "untried"
