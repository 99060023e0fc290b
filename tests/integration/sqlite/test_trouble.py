"""Problems with files and disks: each gives a clear error, and afterwards the same queue works again."""

import asyncio
import os
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueReplaced, QueueUnavailable
from shoal.core.model import Done, Task
from shoal.queue.sqlite.queue import SqliteQueue

NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.db"


@pytest.fixture
async def queue(path):
    async with await SqliteQueue.open(path, patience=timedelta(milliseconds=50)) as queue:
        yield queue


@pytest.fixture
def public(tmp_path):
    """A folder that every user may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def without_privileges():
    """Drop root privileges for a while, because root may do anything."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def pages(count, first=0, **fields):
    return [Task(url=f"https://h{n % 10}.example/{n}", **fields) for n in range(first, first + count)]


async def test_missing_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "queue.db"
    async with await SqliteQueue.open(path) as queue:
        await queue.start_run("books")
    assert path.exists()


async def test_a_new_queue_is_for_its_owner_alone(path):
    before = os.umask(0o022)
    try:
        async with await SqliteQueue.open(path) as queue:
            await queue.start_run("books")
            modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"queue.db": 0o600, "queue.db-wal": 0o600, "queue.db-shm": 0o600}


async def test_a_new_queue_behind_a_link_is_for_its_owner_alone(path):
    link = path.with_name("link.db")
    link.symlink_to(path)
    await (await SqliteQueue.open(link)).close()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_a_file_that_is_there_keeps_its_mode(path):
    await (await SqliteQueue.open(path)).close()
    path.chmod(0o660)
    await (await SqliteQueue.open(path)).close()
    assert path.stat().st_mode & 0o777 == 0o660


async def test_a_closed_queue_leaves_one_file(path):
    async with await SqliteQueue.open(path) as queue:
        run = await queue.start_run("books")
        await queue.enqueue(run.id, pages(100))
    assert [file.name for file in path.parent.iterdir()] == ["queue.db"]


async def test_a_log_without_its_database_is_no_obstacle(path):
    async with await SqliteQueue.open(path) as queue:
        run = await queue.start_run("books")
        log = Path(f"{path}-wal").read_bytes()
        assert log
    path.unlink()
    Path(f"{path}-wal").write_bytes(log)
    async with await SqliteQueue.open(path) as queue:
        assert run.id not in {known.id for known in await queue.runs()}
        await queue.start_run("books")


@pytest.mark.parametrize(
    "content", [b"This is a poem, not a database.\n" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
async def test_a_file_that_is_no_database_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(QueueError, match=r"--queue"):
        await SqliteQueue.open(path)
    assert path.read_bytes() == content


async def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(QueueUnavailable, match="it is a folder"):
        await SqliteQueue.open(tmp_path)


async def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(QueueUnavailable):
        await SqliteQueue.open(tmp_path / "file" / "queue.db")


async def test_a_read_only_file_is_refused(public):
    path = public / "queue.db"
    async with await SqliteQueue.open(path):
        pass
    path.chmod(0o444)
    with without_privileges(), pytest.raises(QueueReadOnly, match="write permission"):
        await SqliteQueue.open(path)


async def test_a_folder_that_cannot_be_written_is_refused(public):
    public.chmod(0o555)
    with without_privileges(), pytest.raises(QueueReadOnly, match="write permission"):
        await SqliteQueue.open(public / "queue.db")
    with without_privileges(), pytest.raises(QueueReadOnly, match="write permission"):
        await SqliteQueue.open(public / "deeper" / "queue.db")
    public.chmod(0o755)


async def limit_pages(queue, most):
    """Limit the file to this many pages, as a full disk would."""

    def limit(store):
        store.connection.pragma("max_page_count", most)

    await queue._writer.call(limit)


async def test_a_full_disk_loses_nothing_and_the_queue_goes_on_when_there_is_room(queue):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, pages(10))
    grant = await queue.claim("me", run_id=run.id, limit=1)
    before = await queue.stats(run.id)
    await limit_pages(queue, 1)
    with pytest.raises(QueueFull, match="Free some space"):
        await queue.enqueue(run.id, pages(5000, first=10, payload={"text": "x" * 500}))
    with pytest.raises(QueueFull):
        await queue.settle([Done(grant.leases[0], items=["x" * 100_000])])
    assert await queue.stats(run.id) == before
    await limit_pages(queue, 1 << 30)
    await queue.settle([Done(grant.leases[0], items=["x" * 100_000])])
    report = await queue.enqueue(run.id, pages(5000, first=10, payload={"text": "x" * 500}))
    assert report.added == 5000
    assert (await queue.stats(run.id)).completed == 1


async def test_on_a_full_disk_small_calls_beside_a_large_one_are_made(queue):
    run = await queue.start_run("books")
    await limit_pages(queue, 1)
    large = queue.enqueue(run.id, pages(2000, payload={"text": "x" * 1000}))
    answers = await asyncio.gather(
        large, *(queue.beat(f"worker-{n}", run_id=run.id) for n in range(3)), return_exceptions=True
    )
    assert isinstance(answers[0], QueueFull)
    assert answers[1:] == [None] * 3
    assert len(await queue.workers(run.id)) == 3


async def test_a_file_that_stays_locked_is_reported_and_can_be_used_again_afterwards(queue, path):
    run = await queue.start_run("books")
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(QueueUnavailable, match="another process has locked the file"):
        await queue.enqueue(run.id, pages(1))
    assert (await queue.stats(run.id)).tasks == 0  # reading needs no lock
    other.execute("ROLLBACK")
    other.close()
    assert (await queue.enqueue(run.id, pages(1))).added == 1


async def test_a_writer_that_is_only_slow_is_waited_for(path):
    async with await SqliteQueue.open(path) as queue:
        run = await queue.start_run("books")
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        adding = asyncio.create_task(queue.enqueue(run.id, pages(1)))
        await queue.stats(run.id)
        other.execute("ROLLBACK")
        other.close()
        assert (await adding).added == 1


async def test_a_stream_that_is_read_slowly_does_not_hold_up_the_writer(queue):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(payload={"n": n}) for n in range(1200)])
    grant = await queue.claim("me", run_id=run.id, limit=1200)
    await queue.settle([Done(lease, items=[lease.task.payload]) for lease in grant.leases[:1100]])
    seen = 0
    async for _ in queue.items(run.id):
        seen += 1
        if seen == 600:
            await queue.settle([Done(lease, items=["late"]) for lease in grant.leases[1100:]])
    assert seen == 1200


async def test_an_interrupted_purge_is_finished_by_a_reclaim(queue, path):
    run = await queue.start_run("books", run_id="old")
    await queue.enqueue(run.id, pages(100))

    def forget(store):
        store.run("purge_run", run=1)
        store.run("purge_mark", run=1)

    await queue._writer.call(forget)
    again = await queue.start_run("books", run_id="old")
    assert (await queue.enqueue(again.id, pages(100))).added == 100
    for _ in range(3):
        await queue.reclaim()
    connection = apsw.Connection(str(path))
    assert list(connection.execute("SELECT run, count(*) FROM task GROUP BY run")) == [(2, 100)]
    assert list(connection.execute("SELECT count(*) FROM purged")) == [(0,)]
    connection.close()
    assert len((await queue.claim("me", run_id=again.id, limit=100)).leases) == 10


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_file_that_was_removed_or_replaced_takes_and_tells_nothing_more(queue, path, is_replaced):
    run = await queue.start_run("shop")
    await queue.enqueue(run.id, [Task(url="https://a.test/1")])
    path.rename(path.with_name("moved.db"))
    if is_replaced:
        path.touch()
    with pytest.raises(QueueReplaced, match=r"queue\.db was removed or replaced"):
        await queue.enqueue(run.id, [Task(url="https://a.test/2")])
    with pytest.raises(QueueReplaced):
        await queue.stats(run.id)
    path.with_name("moved.db").rename(path)
    assert (await queue.stats(run.id)).remaining == 1
