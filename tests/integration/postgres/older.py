"""A database as an older Shoal left it: the changes of later migrations are undone."""

from typing import Any

# The statements that undo each version. The functions that its migration drops exist again by name.
_UNDO = {
    23: "SELECT",  # functions only
    22: "SELECT",
    21: "SELECT",
    20: """
        DROP FUNCTION shoal.claim;
        CREATE FUNCTION shoal.claim(
            uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[],
            text, bytea, bigint
        ) RETURNS TABLE (task bytea) LANGUAGE sql AS 'SELECT NULL::bytea';
    """,
    19: "SELECT",  # functions only
    18: """
        CREATE INDEX lane_due ON shoal.lane (section, band, due_at) WHERE due_at IS NOT NULL;
        DROP INDEX shoal.lane_ready, shoal.lane_idle;
        DROP FUNCTION shoal.close_lanes, shoal.first_check;
    """,
    17: """
        ALTER TABLE shoal.done RESET (toast_tuple_target);
        DROP FUNCTION shoal.complete;
        CREATE FUNCTION shoal.leave_receipt(uuid, boolean, bigint[]) RETURNS void LANGUAGE sql AS 'SELECT';
    """,
    16: "SELECT",  # it only stores the timeline
    15: "DROP TABLE shoal.timeline; DROP FUNCTION shoal.server_timeline, shoal.promoted_at",
    14: "DROP FUNCTION shoal.replay_after",
    13: "DROP TABLE shoal.purged; DROP FUNCTION shoal.edit_dead, shoal.purge_rest",
    12: """
        DROP TABLE shoal.known;
        ALTER TABLE shoal.run DROP COLUMN dedup, DROP COLUMN dedup_steps;
        DROP FUNCTION shoal.enqueue, shoal.settle;
        CREATE FUNCTION shoal.enqueue(
            uuid, boolean, text, text[], text[], text[], int[], bytea[], int[], int[], smallint[], int[],
            interval[], interval[], text[], text[], text[]
        ) RETURNS int LANGUAGE sql AS 'SELECT 0';
        CREATE FUNCTION shoal.settle(
            uuid, boolean, text, bytea[], bigint[], text[], interval[], text[], interval[], interval[],
            int[], int[], int[], bytea[], text[], int[], bytea[], text[], text[], int[], text[], text[],
            text[], int[], bytea[], int[], int[], smallint[], int[], interval[], interval[],
            text[], text[], text[], boolean[], int[], int[]
        ) RETURNS bigint[] LANGUAGE sql AS 'SELECT NULL::bigint[]';
    """,
    11: "DROP FUNCTION shoal.abandon_or_bury",
    10: "ALTER TABLE shoal.host DROP COLUMN slowdown",
    9: "ALTER TABLE shoal.run DROP COLUMN reason",
    8: """
        ALTER TABLE shoal.lane DROP COLUMN waits;
        DROP FUNCTION shoal.tidy, shoal.promote;
        CREATE FUNCTION shoal.tidy(int) RETURNS void LANGUAGE sql AS 'SELECT';
        CREATE FUNCTION shoal.promote(int, timestamptz, int, OUT timestamptz, OUT shoal.lanes)
            LANGUAGE sql AS 'SELECT NULL::timestamptz, NULL::shoal.lanes';
    """,
    7: "ALTER TABLE shoal.done DROP COLUMN items",
    6: "SELECT",  # functions only
    5: """
        ALTER TABLE shoal.host DROP COLUMN earlier_at, DROP COLUMN earlier_gap;
        DROP FUNCTION shoal.give_back, shoal.settle, shoal.finish;
        CREATE FUNCTION shoal.finish(
            shoal.run, bytea[], bigint[], text[], interval[], text[], interval[], interval[], int[], int[],
            OUT bigint[], OUT int[], OUT shoal.lanes
        ) LANGUAGE sql AS 'SELECT NULL::bigint[], NULL::int[], NULL::shoal.lanes';
        CREATE FUNCTION shoal.settle(
            uuid, boolean, text, bytea[], bigint[], text[], interval[], text[], interval[], interval[],
            int[], int[], int[], bytea[], text[], int[], bytea[], text[], text[], int[], text[], text[],
            text[], int[], bytea[], int[], int[], smallint[], int[], interval[], interval[],
            text[], text[], text[]
        ) RETURNS bigint[] LANGUAGE sql AS 'SELECT NULL::bigint[]';
    """,
    4: """
        DROP TABLE shoal.note, shoal.dropped;
        DROP FUNCTION shoal.claim;
        CREATE FUNCTION shoal.claim(
            uuid, boolean, text, text, int, interval, interval, text[], text[], bigint[], timestamptz[]
        ) RETURNS TABLE (task bytea) LANGUAGE sql AS 'SELECT NULL::bytea';
    """,
    3: "DROP FUNCTION shoal.abandon",
}


async def make_older(connection: Any, version: int) -> None:
    """Downgrade a migrated database to this version, with all its data."""
    newest = await connection.fetchval("SELECT max(version) FROM shoal.migration")
    for number in range(newest, version, -1):
        await connection.execute(_UNDO[number])
    await connection.execute("DELETE FROM shoal.migration WHERE version > $1", version)


async def columns(connection: Any) -> list[tuple[Any, ...]]:
    """Return the columns of all tables."""
    return [tuple(row) for row in await connection.fetch(_COLUMNS)]


async def functions(connection: Any, name: str) -> int:
    """Return the number of functions with this name."""
    return int(await connection.fetchval(_FUNCTIONS, name))


_COLUMNS = """
    SELECT table_name, column_name, udt_name, is_nullable, column_default FROM information_schema.columns
    WHERE table_schema = 'shoal' ORDER BY 1, 2
"""
_FUNCTIONS = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'shoal'::regnamespace AND proname = $1"
