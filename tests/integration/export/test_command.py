"""The `shoal export` command."""

import asyncio
import os
import signal

import pytest

from shoal.cli.exits import Exit
from shoal.queue.open import open_queue
from tests.integration.engine.shell import start as begin
from tests.integration.engine.shell import typed
from tests.integration.export.databases import Sqlite
from tests.integration.export.run_factory import settle, start

BOOKS = [{"isbn": "1", "title": "Dune"}, {"isbn": "2", "title": "Emma"}]


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
async def queue(folder):
    async with open_queue(f"sqlite:///{folder}/shoal.db") as queue:
        yield queue


@pytest.fixture
async def run(queue):
    """A finished run with items of two steps."""
    run = await start(queue, "listing", "book")
    await settle(queue, run, "listing", {"page": 1})
    await settle(queue, run, "book", *BOOKS)
    return run


async def export(folder, *words, **environment):
    return await typed("export", "r1", *words, folder=folder, **environment)


async def test_items_are_exported_to_a_table_repeatedly(folder, run):
    for _ in range(2):
        wrote = await export(
            folder, "--to", "sqlite:///shop.db?table=books", "--key", "isbn", "--step", "book", "--json"
        )
        assert wrote.code == Exit.OK, wrote.err
        assert wrote.row == {
            "run_id": "r1",
            "items": 2,
            "file": "sqlite:///shop.db?table=books",
            "steps": {"book": 2},
            "skipped": 0,
        }
    assert await Sqlite(folder / "shop.db").rows() == BOOKS


async def test_items_without_the_key_are_reported_with_an_exit_code(folder, run):
    wrote = await export(folder, "--to", "sqlite:///shop.db?table=books", "--key", "isbn")
    assert wrote.code == Exit.PARTIAL
    assert "Wrote 2 items to sqlite:///shop.db?table=books." in wrote.err
    assert "Skipped 1 item without the key isbn." in wrote.err


async def test_each_step_has_a_file_and_the_summary_counts_them(folder, run):
    wrote = await export(folder, "--to", "out.parquet", "--by-step", "--json")
    assert wrote.row["steps"] == {"listing": 1, "book": 2}
    assert wrote.row["files"] == {"listing": "out.listing.parquet", "book": "out.book.parquet"}
    assert {path.name for path in folder.glob("out*")} == {"out.listing.parquet", "out.book.parquet"}
    shown = await export(folder, "--to", "out.csv", "--by-step")
    assert "book: 2 in out.book.csv" in shown.err


async def test_only_items_stored_since_a_time_are_written(folder, run):
    for since, count in (("1h", 3), ("2026-01-01", 3), ("2999-01-01T00:00:00Z", 0)):
        wrote = await export(folder, "--to", "a.jsonl", "--overwrite", "--since", since, "--json")
        assert wrote.row["items"] == count
    wrong = await export(folder, "--to", "a.jsonl", "--since", "yesterday")
    assert wrong.code == Exit.USAGE and "2026-01-31 or a duration such as 7d" in wrong.err


async def test_an_existing_file_is_kept_unless_the_command_says_otherwise(folder, run):
    (folder / "a.jsonl").write_text('{"mine": 1}\n')
    refused = await export(folder, "--to", "a.jsonl", "--json")
    assert refused.code == Exit.USAGE and "--overwrite" in refused.row["message"]
    assert (await export(folder, "--to", "a.jsonl", "--append", "--json")).row["items"] == 3
    lines = await _lines(folder / "a.jsonl")
    assert len(lines) == 4 and lines[0] == '{"mine": 1}'


async def test_only_the_chosen_columns_are_written(folder, run):
    await export(folder, "--to", "a.csv", "--step", "book", "--columns", "title,isbn")
    assert (folder / "a.csv").read_text().split() == ["title,isbn", "Dune,1", "Emma,2"]


async def test_a_column_that_no_item_has_is_named_with_those_that_there_are(folder, run):
    done = await export(folder, "--to", "a.csv", "--step", "book", "--columns", "title,isnb")
    assert done.code == Exit.OK
    assert "Warning: no item has the column isnb. The items have: isbn, title" in done.err
    assert "Warning" not in (await export(folder, "--to", "b.csv", "--columns", "title")).err


async def test_follow_writes_new_items_and_ends_with_the_run(folder, queue):
    run = await start(queue, "book", "book")
    await settle(queue, run, "book", BOOKS[0])
    words = ("export", "r1", "--to", "sqlite:///shop.db?table=books", "--key", "isbn", "--follow", "--json")
    follower = await begin(*words, folder=folder)
    await _until(lambda: _rows(folder), BOOKS[:1])
    await settle(queue, run, "book", BOOKS[1])
    out, err = await asyncio.wait_for(follower.communicate(), 30)
    assert follower.returncode == Exit.OK, err
    assert b'"items":2' in out
    assert await _rows(folder) == BOOKS


async def test_ctrl_c_stops_follow_and_keeps_what_is_written(folder, queue):
    run = await start(queue, "book", "book")
    await settle(queue, run, "book", BOOKS[0])
    follower = await begin("export", "r1", "--to", "live.jsonl", "--follow", folder=folder)
    await _until(lambda: _lines(folder / "live.jsonl"), ['{"isbn":"1","title":"Dune"}'])
    os.kill(follower.pid, signal.SIGINT)
    _, err = await asyncio.wait_for(follower.communicate(), 30)
    assert follower.returncode == Exit.PARTIAL
    assert "Stopped before the run finished" in err.decode() and "Wrote 1 item to live.jsonl" in err.decode()
    assert await _lines(folder / "live.jsonl") == ['{"isbn":"1","title":"Dune"}']


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--to", "a.csv", "--follow"], Exit.USAGE, "cannot be written live"),
        (["--to", "a.csv", "--key", "isbn"], Exit.USAGE, "is for tables"),
        (["--to", "-", "--by-step"], Exit.USAGE, "cannot be split by step"),
        (["--to", "sqlite:///shop.db"], Exit.USAGE, "Write: sqlite:///shop.db?table=items"),
        (["--to", "sqlite:///shoal.db?table=item"], Exit.USAGE, "is a Shoal queue"),
        (["--to", "mysql://me:hunter2@db/x?table=y"], Exit.USAGE, "mysql://… is not supported"),
        (["--to", "sqlite:///shop.db?table=b", "--key", "isbm"], Exit.USAGE, "Did you mean 'isbn'"),
        (["--to", "/dev/full", "--step", "x"], Exit.USAGE, "no known suffix"),
        (
            ["--to", "postgresql://me:hunter2@127.0.0.1:1/shop?table=books"],
            Exit.UNAVAILABLE,
            "postgresql://me:…@127.0.0.1:1/shop?table=books could not be written",
        ),
    ],
)
async def test_an_error_says_what_to_type_and_never_shows_a_password(folder, run, words, code, message):
    result = await export(folder, *words)
    assert result.code == code, result.err
    assert message in result.err
    assert "Traceback" not in result.err and "hunter2" not in result.err + result.out


async def test_a_password_is_not_in_the_report(folder, run, postgres, postgres_url):
    secret = postgres_url.replace("shoal@", "shoal:hunter2@")
    for words in ((), ("--json",)):
        wrote = await export(folder, "--to", f"{secret}?table=books", *words)
        assert wrote.code == Exit.OK, wrote.err
        assert "hunter2" not in wrote.out + wrote.err
        assert "shoal:…@127.0.0.1" in wrote.out + wrote.err


async def _rows(folder):
    database = Sqlite(folder / "shop.db")
    return await database.rows() if database.path.exists() and await database.has() else None


async def _lines(path):
    return path.read_text().splitlines() if path.exists() else None


async def _until(look, wanted):
    async with asyncio.timeout(30):
        while await look() != wanted:
            await asyncio.sleep(0.05)
