import re
import sys
from datetime import timedelta

import pytest

import shoal
from shoal.core.errors import InvalidSetting, MissingDriver, UnknownQueue
from shoal.core.version import VERSION
from shoal.queue.open import open_queue
from shoal.registry.extras import install_command


async def test_a_file_is_opened_and_closed_by_the_with_statement(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/deep/down/books.db") as queue:
        run = await queue.start_run("books")
    assert (tmp_path / "deep" / "down" / "books.db").exists()
    queue = await open_queue(f"sqlite:///{tmp_path}/deep/down/books.db")
    assert [found.id for found in await queue.runs()] == [run.id]
    await queue.close()


async def test_a_relative_path_is_relative_to_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with open_queue("sqlite:///books.db"):
        assert (tmp_path / "books.db").exists()


async def test_a_mistyped_backend_is_refused_with_the_nearest_one():
    with pytest.raises(UnknownQueue, match="Did you mean 'sqlite'"):
        await open_queue("sqlitee:///books.db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://host/f.db", "sqlite:///f.db?sync=1"])
async def test_an_address_without_a_file_says_what_to_write(url):
    with pytest.raises(InvalidSetting, match=r"sqlite:///|synchronous"):
        await open_queue(url)


@pytest.mark.parametrize("url", ["postgresql://localhost/x", "postgres://localhost/x"])
async def test_a_missing_driver_names_its_extra(url, monkeypatch):
    for module in [name for name in sys.modules if name.startswith(("asyncpg", "shoal.queue.postgres"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(MissingDriver, match=re.escape(install_command("postgres"))):
        await open_queue(url, patience=timedelta(seconds=1))


def test_the_root_exports_few_names_and_all_of_them_are_there():
    assert shoal.__all__ == [
        *("Blocked", "DeadFilter", "Page", "Reject", "RequestOptions", "RetryLater", "Scraper"),
        *("SkipTask", "Task", "combine", "connect", "new_circuit", "open_queue", "start_cluster"),
    ]
    assert all(hasattr(shoal, name) for name in shoal.__all__)


def test_the_package_shows_its_public_names_and_its_version():
    assert dir(shoal) == sorted([*shoal.__all__, "__version__"])
    assert shoal.__version__ == VERSION
