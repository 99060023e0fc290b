"""What a process that closes the queue leaves to the last one."""

from pathlib import Path

from shoal.core.model import Task
from shoal.queue.sqlite import connection
from shoal.queue.sqlite.queue import SqliteQueue


async def log_size_after_closing_one_of_two(path):
    """Write with one of two queues on a file and close it; return the size of the log that is left."""
    async with await SqliteQueue.open(path) as last:
        async with await SqliteQueue.open(path) as first:
            run = await first.start_run("books")
            await first.enqueue(run.id, [Task(url="https://a.example/")])
        size = Path(f"{path}-wal").stat().st_size
        assert (await last.stats(run.id)).pending == 1
    assert not Path(f"{path}-wal").exists(), "the last one writes the log into the file"
    async with await SqliteQueue.open(path) as again:
        assert (await again.stats(run.id)).pending == 1
    return size


async def test_a_short_log_is_left_to_the_last_process_that_closes(tmp_path):
    assert await log_size_after_closing_one_of_two(tmp_path / "queue.db") > 0


async def test_a_long_log_is_written_into_the_file_by_every_process_that_closes(tmp_path, monkeypatch):
    monkeypatch.setattr(connection, "SHORT_LOG_BYTES", 0)
    assert await log_size_after_closing_one_of_two(tmp_path / "queue.db") == 0
