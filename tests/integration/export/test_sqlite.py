"""SQLite only: files that are something else, and one writer at a time."""

from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.errors import ExportFailed, InvalidSetting
from shoal.export.open import open_writer
from shoal.export.tables import sqlite as module
from shoal.queue.open import open_queue
from tests.unit.export.factories import items


def test_nothing_is_created_before_the_first_row(sqlite):
    open_writer(sqlite.to(), key=["n"]).discard()
    assert not sqlite.path.exists()


async def test_the_file_of_a_queue_is_rejected(sqlite):
    async with open_queue(sqlite.url):
        pass
    with pytest.raises(InvalidSetting, match="is a Shoal queue"):
        await sqlite.put({"n": 1}, table="item")


async def test_a_file_that_is_not_a_database_is_rejected_and_unchanged(sqlite):
    sqlite.path.write_text("not a database, " * 100)
    with pytest.raises(InvalidSetting, match="is not an SQLite database"):
        await sqlite.put({"n": 1})
    assert sqlite.path.read_text().startswith("not a database")


async def test_a_missing_folder_is_rejected_with_the_command_that_creates_it(tmp_path):
    with pytest.raises(InvalidSetting, match="mkdir -p"):
        open_writer(f"sqlite:///{tmp_path}/none/shop.db?table=books")


async def test_a_locked_file_is_not_waited_for_forever(sqlite, monkeypatch):
    monkeypatch.setattr(module, "BUSY_TIMEOUT_MS", 50)
    await sqlite.put({"n": 1}, key=["n"])
    holder = apsw.Connection(str(sqlite.path))
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(ExportFailed, match="Another program is writing to the file"):
            await sqlite.put({"n": 2}, key=["n"])
    finally:
        holder.close(True)


async def test_a_full_disk_is_reported_and_leaves_the_rows_unchanged(sqlite):
    await sqlite.put({"n": 1}, key=["n"])
    writer = open_writer(sqlite.to(), key=["n"])
    writer.write(items({"n": 2}))
    writer._table._link.connection.pragma("max_page_count", 1)
    with pytest.raises(ExportFailed, match=r"is full.*free disk space"):
        writer.write(items({"n": 3, "text": "x" * 100_000}))
    writer.discard()
    assert await sqlite.rows() == [{"n": 1}]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(), VALUES, max_size=5) | VALUES, min_size=1, max_size=5))
def test_any_items_can_be_written_repeatedly(data):
    with TemporaryDirectory() as folder:
        for _ in range(2):
            writer = open_writer(f"sqlite:///{folder}/shop.db?table=books")
            with writer:
                writer.survey(items(*data))
                writer.write(items(*data))
        connection = apsw.Connection(f"{folder}/shop.db")
        assert connection.execute("SELECT count(*) FROM books").fetchone() == (len(data),)
        connection.close()


async def test_leading_zeros_are_not_lost(sqlite):
    await sqlite.put({"isbn": "007"}, {"isbn": "7"}, key=["isbn"])
    assert [row["isbn"] for row in await sqlite.rows()] == ["007", "7"]
