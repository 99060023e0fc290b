"""Bringing a database to this Shoal's schema."""

from collections.abc import Iterator
from importlib.resources import files

from shoal.core.errors import SchemaTooNew
from shoal.queue.postgres.server import Connection, Server

_HOME = files("shoal.queue.postgres")
MIGRATIONS = sorted(
    (int(script.name[:4]), script)
    for script in (_HOME / "migrations").iterdir()
    if script.name.endswith(".sql")
)
NEWEST = MIGRATIONS[-1][0]


async def migrate(server: Server) -> int:
    """Bring the schema to the newest version, if it is not there; many may do so at once."""
    found = await version(server)
    if found < NEWEST:
        async with server.transaction() as connection:
            await _upgrade(connection)
    elif found > NEWEST:
        raise SchemaTooNew(found, NEWEST)
    return NEWEST


async def version(server: Server) -> int:
    """Return the version of the schema, 0 when there is none."""
    if await server.value("SELECT to_regclass('shoal.migration')") is None:
        return 0
    return int(await server.value("SELECT coalesce(max(version), 0) FROM shoal.migration"))


async def _upgrade(connection: Connection) -> None:
    # One at a time; whoever waited here finds the work done.
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('shoal.migrate', 0))")
    await connection.execute("CREATE SCHEMA IF NOT EXISTS shoal")
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS shoal.migration"
        " (version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    found = await connection.fetchval("SELECT coalesce(max(version), 0) FROM shoal.migration")
    if found >= NEWEST:
        return
    for number, script in MIGRATIONS:
        if number > found:
            await connection.execute(script.read_text())
            await connection.execute(f"INSERT INTO shoal.migration (version) VALUES ({number})")
    for function in _functions():
        await connection.execute(function)


def _functions() -> Iterator[str]:
    for script in sorted((_HOME / "functions").iterdir(), key=lambda script: script.name):
        if script.name.endswith(".sql"):
            yield script.read_text()
