"""Migrate a database to the current schema."""

from functools import partial

from shoal.queue.postgres.server import Connection, PostgresServer
from shoal.queue.postgres.sql import in_schema, scripts
from shoal.queue.schema import must_migrate

MIGRATIONS = {int(name[:4]): script for name, script in scripts("migrations")}
NEWEST = max(MIGRATIONS)


async def migrate(server: PostgresServer) -> int:
    """Migrate the schema if necessary, and return its version; safe to run concurrently."""
    found = await version(server)
    if must_migrate(found, NEWEST):
        await server.in_transaction(partial(_upgrade, server.schema))
    return max(found, NEWEST)


async def version(server: PostgresServer) -> int:
    """Return the version of the schema, 0 if there is none."""
    if await server.value("SELECT to_regclass('shoal.migration')") is None:
        return 0
    return int(await server.value("SELECT coalesce(max(version), 0) FROM shoal.migration"))


async def _upgrade(schema: str, connection: Connection) -> None:
    async def execute(text: str) -> None:
        await connection.execute(in_schema(text, schema))

    # One client at a time; those that waited here find the work done.
    await execute("SELECT pg_advisory_xact_lock(hashtextextended('shoal.migrate', 0))")
    # IF NOT EXISTS would still require the privilege to create a schema.
    if await connection.fetchval("SELECT to_regnamespace($1::text)", schema) is None:
        await execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    await execute(
        "CREATE TABLE IF NOT EXISTS shoal.migration"
        " (version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    newest = in_schema("SELECT coalesce(max(version), 0) FROM shoal.migration", schema)
    found = await connection.fetchval(newest)
    if found >= NEWEST:
        return
    texts = []
    for number, script in MIGRATIONS.items():
        if number > found:
            texts += [script.read_text(), f"INSERT INTO shoal.migration (version) VALUES ({number})"]
    # The server would analyse every query of the functions, which takes three times as long as storing them.
    texts.append("SET LOCAL check_function_bodies = off")
    texts += [script.read_text() for _, script in scripts("functions")]
    # In one request: meanwhile the command imports what it needs, and the server does not wait for it.
    await execute("\n;\n".join(texts))
