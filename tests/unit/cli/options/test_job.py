"""A job is built from options, and turned back into a command to type."""

import pytest

from shoal.cli.options.job import read_job
from shoal.core.errors import InvalidSetting
from shoal.fleet.command_hints import command_for_job, queue_option

SCRAPER = "shoal.demo.scraper:shop"
SECRET = "postgresql://me:s3cret@db/shoal"


def test_a_command_to_type_names_the_queue_without_its_password():
    job = read_job(SCRAPER, queue=SECRET, changes=["rate=2/s"])
    command = command_for_job(job, "shoal", "run", job.name, "--resume", "r1")
    assert command == f'shoal run {SCRAPER} --resume r1 --queue "$SHOAL_QUEUE"'


def test_the_default_queue_is_not_named(monkeypatch):
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    assert queue_option("sqlite:///shoal.db") == []
    assert queue_option(SECRET) == ["--queue", "$SHOAL_QUEUE"]
    monkeypatch.setenv("SHOAL_QUEUE", SECRET)
    assert queue_option(SECRET) == []
    assert command_for_job(read_job(SCRAPER, queue=SECRET), "shoal", "runs") == "shoal runs"


PROJECT = """
[scrapers.shop]
module = "shoal.demo.scraper:shop"
rate = "2/s"

[scrapers.shop.partitions]
1 = ["CA", "NV"]
2 = ["NY"]
"""


def test_the_partition_table_of_the_project_applies_unless_partitions_are_typed(tmp_path, monkeypatch):
    (tmp_path / "shoal.toml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    job = read_job("shop", queue=SECRET)
    assert job.homes == {"CA": 1, "NV": 1, "NY": 2} and job.sharing
    assert read_job("shop", queue=SECRET, partitions=["exclusive"]).sharing.exclusive
    typed = read_job("shop", queue=SECRET, partitions=["TX"])
    assert (typed.partitions, typed.homes) == (["TX"], {})


def test_a_partition_that_two_workers_have_is_named_with_file_and_key(tmp_path, monkeypatch):
    (tmp_path / "shoal.toml").write_text(PROJECT.replace('["NY"]', '["NY", "CA"]'))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidSetting, match=r"shoal.toml: scrapers.shop.partitions.*CA"):
        read_job("shop", queue=SECRET)
