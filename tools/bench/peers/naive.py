"""The loop that everybody writes first: one row, locked until it is done. A yardstick, not a queue."""

import time
from typing import Any

import asyncpg

from tools.bench.child import Gate
from tools.bench.pages import HOSTS, url

TABLE = "CREATE TABLE job (id bigserial PRIMARY KEY, url text NOT NULL, done boolean NOT NULL DEFAULT false)"
INDEX = "CREATE INDEX job_waiting ON job (id) WHERE NOT done"
INSERT = "INSERT INTO job (url) SELECT unnest($1::text[])"
TAKE = "SELECT id, url FROM job WHERE NOT done ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
DONE = "UPDATE job SET done = true WHERE id = $1"


async def load(gate: Gate, *, number: int, address: str, jobs: int) -> dict[str, Any]:
    """Make the jobs."""
    connection = await asyncpg.connect(address)
    await connection.execute(TABLE)
    await connection.execute(INDEX)
    await gate()
    began = time.monotonic()
    for first in range(0, jobs, 1_000):
        await connection.execute(INSERT, [url(n, HOSTS) for n in range(first, min(first + 1_000, jobs))])
    seconds = time.monotonic() - began
    await connection.close()
    return {"seconds": seconds}


async def work(gate: Gate, *, number: int, address: str) -> dict[str, Any]:
    """Do jobs until none is left."""
    connection = await asyncpg.connect(address)
    await gate()
    tasks = 0
    began = ended = time.monotonic()
    while await _one(connection):
        tasks += 1
        ended = time.monotonic()
    await connection.close()
    return {"tasks": tasks, "began": began, "ended": ended}


async def _one(connection: Any) -> bool:
    async with connection.transaction():
        job = await connection.fetchrow(TAKE)
        if job is not None:
            await connection.execute(DONE, job["id"])
    return job is not None
