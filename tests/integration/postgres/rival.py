"""A process with the claim that everybody writes first: one statement locks hosts and counts their leases.

The row is locked in its newest version, but the leases are counted as they were when the statement began.
"""

import asyncio

import asyncpg

from tests.integration.programs import Orders, Stage, main

SCHEMA = """
    CREATE SCHEMA rival;
    CREATE TABLE rival.host (host int PRIMARY KEY, claims int NOT NULL DEFAULT 0);
    CREATE TABLE rival.lease (host int NOT NULL, worker text NOT NULL);
    CREATE TABLE rival.violation (worker text NOT NULL);
    CREATE UNIQUE INDEX one_lease_per_host ON rival.lease (host);
"""
CLAIM = """
    WITH free AS (
        SELECT h.host FROM rival.host h
        WHERE (SELECT count(*) FROM rival.lease l WHERE l.host = h.host) < 1
        ORDER BY h.claims LIMIT 20
        FOR UPDATE SKIP LOCKED
    ), leased AS (
        INSERT INTO rival.lease SELECT host, $1 FROM free
    )
    UPDATE rival.host h SET claims = claims + 1 FROM free WHERE h.host = free.host
"""
PATIENCE = 30.0


async def work(orders: Orders, stage: Stage) -> dict[str, int]:
    connection = await asyncpg.connect(orders["url"])
    await stage.ready()
    claims = violations = 0
    try:
        async with asyncio.timeout(PATIENCE):
            while not await connection.fetchval("SELECT EXISTS (SELECT FROM rival.violation)"):
                claims += 1
                try:
                    await connection.execute(CLAIM, orders["name"])
                except asyncpg.UniqueViolationError:
                    violations += 1
                    await connection.execute("INSERT INTO rival.violation VALUES ($1)", orders["name"])
                await connection.execute("DELETE FROM rival.lease WHERE worker = $1", orders["name"])
    except TimeoutError:
        pass
    await connection.close()
    return {"claims": claims, "violations": violations}


if __name__ == "__main__":
    main(work)
