"""Server problems reach the caller as Shoal's own errors, which say what to do and reveal no secret."""

import asyncio
import shutil
import subprocess
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import timedelta

import asyncpg
import pytest

from shoal.core.errors import (
    InvalidSetting,
    QueueError,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueUnavailable,
    UnknownRun,
)
from shoal.core.model import MINUTE, SECOND, ZERO
from shoal.queue.postgres import server
from shoal.queue.postgres.queue import PostgresQueue
from tests.conformance.helpers import claim, claim_one, page, pages, start
from tests.conftest import or_skip
from tests.servers.postgres import PostgresServer
from tests.servers.process import free_port

PASSWORD = "correct-horse"
IMPATIENT = timedelta(milliseconds=300)
HBA = """\
local all all trust
host  all shoal 127.0.0.1/32 trust
host  all all 127.0.0.1/32 scram-sha-256
"""


@pytest.fixture(scope="module")
def guarded():
    """A server that requires a password from every user but its owner."""
    with or_skip(PostgresServer) as server:
        (server.folder / "data" / "pg_hba.conf").write_text(HBA)
        server.restart()
        server.sql(f"CREATE ROLE worker LOGIN PASSWORD '{PASSWORD}'")
        server.sql(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
        server.sql("ALTER ROLE reader SET default_transaction_read_only = on")
        server.sql("CREATE DATABASE books OWNER worker")
        yield server


def address(server, *, user="worker", password=PASSWORD, database="books", options=""):
    return f"postgresql://{user}:{password}@127.0.0.1:{server.port}/{database}{options}"


async def refusal(url, kind):
    """Return the message of opening this URL; it must be an error of this kind, and reveal no secret."""
    with pytest.raises(kind) as caught:
        await PostgresQueue.open(url, patience=IMPATIENT)
    error = caught.value
    assert PASSWORD not in f"{error} {error!r} {vars(error)}"
    return str(error)


# The address


async def test_a_wrong_password_is_refused_at_once_and_not_shown(guarded):
    said = await refusal(address(guarded, password=f"in{PASSWORD}"), QueueRefused)
    assert "worker:…@" in said
    assert "password authentication failed" in said


async def test_the_right_password_is_not_shown_either(guarded):
    async with await PostgresQueue.open(address(guarded)) as queue:
        with pytest.raises(UnknownRun):
            await queue.stats("none")
        assert PASSWORD not in queue._server.address


async def test_an_unknown_database_is_refused_by_name(guarded):
    assert '"bookz" does not exist' in await refusal(address(guarded, database="bookz"), QueueRefused)


async def test_a_user_without_rights_is_refused_by_name_of_what_it_may_not_do(guarded):
    assert "permission denied" in await refusal(address(guarded, database="postgres"), QueueRefused)


async def test_a_user_who_may_create_no_schema_works_in_one_that_was_made_for_it(guarded):
    guarded.sql('CREATE SCHEMA "shoal_a-b" AUTHORIZATION worker')
    url = f"{address(guarded, database='postgres')}?namespace=a-b"
    async with await PostgresQueue.open(url) as queue:
        await queue.start_run("books", run_id="daily")
    said = await refusal(f"{address(guarded, database='postgres')}?namespace=news", QueueRefused)
    assert "?namespace=news" in said
    assert PASSWORD not in said


async def test_a_port_where_nobody_listens_is_unavailable_once_patience_is_over():
    url = f"postgresql://worker:{PASSWORD}@127.0.0.1:{free_port()}/books"
    assert "Start the server or fix the URL" in await refusal(url, QueueUnavailable)


async def test_a_server_without_a_connection_left_is_waited_for_and_says_what_helps(guarded):
    guarded.sql(f"CREATE ROLE crowd LOGIN CONNECTION LIMIT 0 PASSWORD '{PASSWORD}'")
    said = await refusal(address(guarded, user="crowd"), QueueUnavailable)
    assert 'run: ALTER ROLE "crowd" CONNECTION LIMIT -1, or use PgBouncer' in said


def test_a_full_server_and_a_limit_of_a_role_or_database_have_each_its_own_remedy():
    full = asyncpg.TooManyConnectionsError("sorry, too many clients already")
    assert "raise its max_connections, or use PgBouncer" in server._reason(full)
    of_database = asyncpg.TooManyConnectionsError('too many connections for database "books"')
    assert 'ALTER DATABASE "books" CONNECTION LIMIT -1' in server._reason(of_database)


async def test_calls_take_turns_where_a_role_may_have_one_connection(guarded):
    guarded.sql(f"CREATE ROLE lonely LOGIN CONNECTION LIMIT 1 PASSWORD '{PASSWORD}'")
    guarded.sql("CREATE DATABASE lonely OWNER lonely")
    async with await PostgresQueue.open(address(guarded, user="lonely", database="lonely")) as queue:
        run = await start(queue, *pages(30))
        # More calls at once than it may have connections.
        found = await asyncio.gather(*(queue.stats(run.id) for _ in range(20)))
        assert {one.pending for one in found} == {30}


async def test_processes_share_the_few_connections_of_a_role(guarded):
    guarded.sql(f"CREATE ROLE few LOGIN CONNECTION LIMIT 8 PASSWORD '{PASSWORD}'")
    guarded.sql("CREATE DATABASE few OWNER few")
    url = address(guarded, user="few", database="few")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(await PostgresQueue.open(url))
        others = [await PostgresQueue.open(url, patience=SECOND) for _ in range(3)]
        queues = [first, *[await stack.enter_async_context(queue) for queue in others]]
        run = await start(first, *pages(30))
        calls = (queue.stats(run.id) for _ in range(50) for queue in queues)
        assert {found.pending for found in await asyncio.gather(*calls)} == {30}


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_of_an_encoding_that_cannot_hold_every_page_is_refused(guarded, encoding):
    name = encoding.lower()
    guarded.sql(
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    )
    url = address(guarded, user="worker", database=name)
    if encoding == "SQL_ASCII":  # it stores what it gets
        guarded.sql(f"GRANT CREATE ON DATABASE {name} TO worker")
        async with await PostgresQueue.open(url) as queue:
            run = await start(queue, page("ünï-日本"))
            assert (await claim_one(queue, run)).task.url
        return
    said = await refusal(url, QueueError)
    assert "has the encoding LATIN1" in said
    assert "createdb --encoding UTF8 --locale C.UTF-8 --template template0 latin1_utf8" in said


async def test_a_password_among_the_options_is_not_shown(guarded):
    url = f"postgresql://worker@127.0.0.1:{guarded.port}/bookz?password={PASSWORD}"
    await refusal(url, QueueRefused)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://worker:{PASSWORD}/@127.0.0.1/books",
        f"postgresql://worker:{PASSWORD}@127.0.0.1:port/books",
        f"postgresql://worker:{PASSWORD}@127.0.0.1/books?sslmode=perhaps",
    ],
)
async def test_an_address_that_cannot_be_read_is_invalid_at_once(url):
    said = await refusal(url, InvalidSetting)
    assert ("unknown sslmode" in said) is ("sslmode" in url)


# The store


async def test_a_read_only_server_is_read_only_to_every_verb_that_writes(guarded):
    async with await PostgresQueue.open(address(guarded)) as queue:
        run = await start(queue, page())
    guarded.sql("GRANT ALL ON SCHEMA shoal TO reader", database="books")
    guarded.sql("GRANT ALL ON ALL TABLES IN SCHEMA shoal TO reader", database="books")
    guarded.sql("GRANT ALL ON ALL SEQUENCES IN SCHEMA shoal TO reader", database="books")
    async with await PostgresQueue.open(address(guarded, user="reader"), patience=IMPATIENT) as queue:
        assert (await queue.stats(run.id)).pending == 1
        for call in (
            queue.start_run("books"),
            queue.enqueue(run.id, [page(2)]),
            queue.claim("worker-1", run_id=run.id),
            queue.reclaim(),
            queue.pause(run.id),
            queue.pause_host("a.example", MINUTE),
            queue.beat("worker-1", run_id=run.id),
            queue.purge(run.id),
        ):
            with pytest.raises(QueueReadOnly, match="cannot be written"):
                await call


async def test_after_a_failover_a_queue_finds_the_new_primary(postgres, postgres_database):
    async with await PostgresQueue.open(postgres.url(postgres_database)) as queue:
        run = await start(queue, page())
        # A session keeps the mode it began with, as a connection to a former primary does.
        postgres.sql(f"ALTER DATABASE {postgres_database} SET default_transaction_read_only = on")
        await queue._server._pool.expire_connections()
        claiming = asyncio.create_task(claim(queue, run))
        done, _ = await asyncio.wait([claiming], timeout=0.5)
        assert not done, "it waits for a server that takes writes"
        postgres.sql(f"ALTER DATABASE {postgres_database} RESET default_transaction_read_only")
        assert len(await claiming) == 1


async def test_a_server_that_goes_on_refusing_writes_is_named(postgres, postgres_database, monkeypatch):
    monkeypatch.setattr(server, "READ_ONLY_TIMEOUT_SECONDS", 0.2)
    async with await PostgresQueue.open(postgres.url(postgres_database)) as queue:
        run = await start(queue, page())
        postgres.sql(f"ALTER DATABASE {postgres_database} SET default_transaction_read_only = on")
        await queue._server._pool.expire_connections()
        with pytest.raises(QueueReadOnly, match="cannot be written"):
            await claim(queue, run)


@pytest.mark.parametrize("timeout", ["statement_timeout", "lock_timeout"])
async def test_a_statement_that_is_cancelled_for_want_of_a_lock_is_tried_again(
    postgres, postgres_database, timeout
):
    url = f"{postgres.url(postgres_database)}?{timeout}=100"
    async with await PostgresQueue.open(url) as queue, await PostgresQueue.open(url) as other:
        run = await start(queue, page())
        async with other._server._pool.acquire() as holder:
            held = holder.transaction()
            await held.start()
            await holder.execute("LOCK TABLE shoal.run IN ACCESS EXCLUSIVE MODE")
            claiming = asyncio.create_task(claim(queue, run))
            done, _ = await asyncio.wait([claiming], timeout=0.5)
            assert not done, "it was cancelled, and tried again"
            await held.rollback()
        async with asyncio.timeout(10):
            assert len(await claiming) == 1


async def test_an_empty_database_cannot_be_migrated_read_only(guarded):
    guarded.sql("CREATE DATABASE bare OWNER reader")
    assert "cannot be written" in await refusal(
        address(guarded, user="reader", database="bare"), QueueReadOnly
    )


async def test_a_full_disk_is_full_and_what_was_stored_is_safe_once_there_is_room(guarded):
    """A small disk in memory, or a trigger that simulates one if nothing may be mounted."""
    guarded.sql("CREATE DATABASE crammed OWNER worker")
    url = address(guarded, database="crammed")
    async with await PostgresQueue.open(url) as queue:
        run = await start(queue, *pages(10))
    with full_disk(guarded, "crammed") as make_room:
        async with await PostgresQueue.open(url) as queue:
            with pytest.raises(QueueFull, match="Free some space") as caught:
                await queue.enqueue(run.id, [page(n, payload={"text": "x" * 1000}) for n in range(1000)])
            assert PASSWORD not in str(caught.value)
            assert (await queue.stats(run.id)).pending == 10
            make_room()
            assert (await queue.enqueue(run.id, [page("new")])).added == 1
            assert len(await claim(queue, run)) == 11


@contextmanager
def full_disk(server, database):
    """Move the tasks to a small tablespace; yields a function that frees space."""
    disk = server.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield pretend_full(server, database)
        return
    try:
        ballast, place = disk / "ballast", disk / "tasks"
        place.mkdir()
        shutil.chown(place, server.user)
        server.sql(f"CREATE TABLESPACE small LOCATION '{place}'")
        server.sql("ALTER TABLE shoal.task SET TABLESPACE small", database=database)
        ballast.write_bytes(bytes(600_000))
        yield ballast.unlink
    finally:
        server.sql(f"DROP DATABASE {database} WITH (FORCE)", "DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", str(disk)], check=True)


def pretend_full(server, database):
    server.sql(
        "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100', MESSAGE = 'could not extend file'; END $$",
        "CREATE TRIGGER no_room BEFORE INSERT ON shoal.task EXECUTE FUNCTION no_room()",
        database=database,
    )
    return lambda: server.sql("DROP TRIGGER no_room ON shoal.task", database=database)


async def test_a_failure_that_nobody_foresaw_is_an_error_of_the_queue(queue, direct):
    run = await start(queue)
    await direct.execute("ALTER TABLE shoal.task ADD CHECK (url <> 'https://a.example/1')")
    with pytest.raises(QueueError, match=r"failed: .*violates check constraint"):
        await queue.enqueue(run.id, pages(3))
    assert (await queue.stats(run.id)).tasks == 0


# The run and the queue


async def test_a_run_that_another_has_purged_is_unknown_by_its_name(queue, postgres_url):
    run = await start(queue, page())
    async with await PostgresQueue.open(postgres_url) as other:
        await other.purge(run.id)
    with pytest.raises(UnknownRun, match=run.id):
        await queue.enqueue(run.id, [page(2)])


async def test_a_connection_that_the_server_ends_is_never_the_drivers_error(queue, direct, postgres_url):
    run = await start(queue, page())
    async with await PostgresQueue.open(postgres_url, patience=ZERO) as impatient:
        for _ in range(5):
            await direct.execute(END_ALL_OTHERS)
            with suppress(QueueUnavailable):
                await impatient.stats(run.id)
        assert (await queue.stats(run.id)).pending == 1


END_ALL_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND datname = current_database()
"""
