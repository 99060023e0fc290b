"""Claim tasks: the function `claim` of the schema leases them."""

import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from shoal.core.model import ZERO, Grant, Lease, Task
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.intake import StoredFields, read_payload
from shoal.queue.postgres.notes import fence_columns
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import ONCE, call
from shoal.queue.requests import ClaimRequest

FLOORS_TTL_SECONDS = 10.0
NOT_STORED = StoredFields()
Row = Any

# Of a claim, as `leases_from` reads them. To decode a duration takes a microsecond, and most are zero.
LEASE_COLUMNS = (
    *("task", "token", "attempt", "nullif(start_in, interval '0')", "nullif(slowdown, interval '0')"),
    *("url", "step", "key", "partition", "priority", "ttl", "delay", "depth", "payload"),
)
LEASE_WIDTH = len(LEASE_COLUMNS)
CLAIM = call(
    "claim",
    *ONCE,
    *("text", "int", "interval", "interval", "text[]", "text[]", "text[]::bigint[]", "text[]::timestamptz[]"),
    *("text", "bytea", "bigint", "interval"),
    columns=f"{', '.join(LEASE_COLUMNS)}, next_due, drained, claimed_at, outdated"
    ", floor_keys::text[] AS floor_keys, floors::text[] AS floors",
)


class ClaimFloors:
    """Times before which the claims of a run found nothing, so that the next one does not look there again.

    They are dropped after FLOORS_TTL_SECONDS: a transaction that commits late may add tasks below them.
    """

    def __init__(self) -> None:
        self._created_at = time.monotonic()
        self.known: dict[str, str] = {}  # as the server writes them: nobody else reads them

    @property
    def is_outdated(self) -> bool:
        """Whether to begin again without them."""
        return self._created_at + FLOORS_TTL_SECONDS < time.monotonic()


def find_floors(floors: dict[Any, ClaimFloors], request: ClaimRequest) -> ClaimFloors:
    """Return the floors of claims with the same run, steps and partitions."""
    names = (request.steps, request.partitions)
    key = (request.run_id, *(None if some is None else tuple(some) for some in names))
    found = floors.get(key)
    if found is None or found.is_outdated:
        found = floors[key] = ClaimFloors()
    return found


async def claim(server: PostgresServer, request: ClaimRequest, floors: ClaimFloors) -> Grant:
    """Lease tasks of a run to a worker; raises UnknownRun."""
    *rows, end = await server.once(
        CLAIM,
        request.run_id,
        request.worker_id,
        request.limit,
        request.lease,
        BURST_HORIZON,
        None if request.steps is None else list(request.steps),
        None if request.partitions is None else list(request.partitions),
        list(floors.known),
        list(floors.known.values()),
        *fence_columns(request.fence),
        request.lead,
    )
    if end["outdated"]:
        return Grant(outdated=True)
    floors.known = dict(zip(end["floor_keys"], end["floors"], strict=True)) if end["floors"] else {}
    return Grant(
        leases=leases_from(rows, request.run_id, request.lease, request.lead),
        next_due=end["next_due"],
        drained=end["drained"],
        claimed_at=end["claimed_at"],
    )


def leases_from(rows: Iterable[Row], run_id: str, lease: timedelta, lead: timedelta) -> list[Lease]:
    """Return the leases of the rows of a claim, which begin with `LEASE_COLUMNS`."""
    leases = []
    for row in rows:
        task_id, token, attempt, start_in, slowdown, *task_fields = row[:LEASE_WIDTH]
        url, step, key, partition, priority, ttl, delay, depth, stored = task_fields
        payload, request = NOT_STORED if stored is None else read_payload(stored)
        task = Task(
            url=url,
            step=step,
            payload=payload,
            key=key,
            partition=partition,
            priority=priority,
            ttl=ttl,
            delay=delay or ZERO,
            depth=depth,
            request=request,
        )
        start = (start_in or ZERO) + (ZERO if url is None else lead)  # a task without a host starts at once
        leases.append(
            Lease(
                run_id=run_id,
                task_id=task_id.hex(),
                token=token,
                task=task,
                attempt=attempt,
                start_in=start,
                deadline_in=start + lease,
                host_slowdown=slowdown or ZERO,
            )
        )
    return leases
