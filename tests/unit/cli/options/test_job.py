"""A job is built from options, and turned back into a command to type."""

import pytest

from shoal.cli.options.workers import read_job
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


@pytest.mark.parametrize(
    ("partitions", "expected"), [('"auto"', ["auto"]), ('"exclusive"', ["exclusive"]), ('["CA"]', None)]
)
def test_a_sharing_mode_of_the_project_applies_and_partitions_of_its_machines_do_not(
    tmp_path, monkeypatch, partitions, expected
):
    project = PROJECT.partition("[scrapers.shop.partitions]")[0]
    (tmp_path / "shoal.toml").write_text(f"[workers]\npartitions = {partitions}\n{project}")
    monkeypatch.chdir(tmp_path)
    assert read_job("shop", queue=SECRET).partitions == expected
    assert read_job("shop", queue=SECRET, partitions=["NY"]).partitions == ["NY"]


@pytest.mark.parametrize(
    ("seeds", "allowed"),
    [
        ('url = ["http://127.0.0.1:8000/"]', ["127.0.0.1:8000"]),
        ('sitemap = ["http://127.0.0.1:8000/map.xml", "https://example.com"]', ["127.0.0.1:8000"]),
        ('combine = "http://127.0.0.1:8000/{state}"\naxis = ["state:CA"]', ["127.0.0.1:8000"]),
        ('combine = "http://{host}/"\naxis = ["host:127.0.0.1"]', []),
    ],
)
def test_a_private_host_that_seeds_write_out_is_allowed(tmp_path, monkeypatch, seeds, allowed):
    (tmp_path / "shoal.toml").write_text(f"{PROJECT}\n[scrapers.shop.seeds]\n{seeds}\n")
    monkeypatch.chdir(tmp_path)
    assert list(read_job("shop", queue=SECRET).scraper.settings.allow_private) == allowed
