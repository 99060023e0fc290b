"""The audit log: actions taken through the pages and the API, stored in the queue for 30 days."""

import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shoal.fleet.status.rows.row import Row
from shoal.queue.contract import SharedNotes
from shoal.web.auth import Principal

TOPIC = "web actions"
AUDIT_TTL = timedelta(days=30)
MAX_BYTES = 1 << 20  # the oldest entries are deleted first


@dataclass(kw_only=True)
class Action(Row):
    """One entry of the audit log, as the API lists it."""

    id: str
    at: str  # to the second
    who: str
    role: str
    action: str
    target: str
    details: dict[str, Any] = field(default_factory=dict)


async def record_action(
    queue: SharedNotes, principal: Principal, action: str, target: str, **details: Any
) -> None:
    """Add an entry to the audit log."""
    now = datetime.now(UTC)
    # Keys sort by time; the suffix keeps two actions of the same microsecond apart.
    key = f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
    entry = Action(
        id=key,
        at=now.isoformat(timespec="seconds"),
        who=principal.name,
        role=principal.role,
        action=action,
        target=target,
        details=details,
    )
    await queue.write_notes(TOPIC, {key: msgspec.json.encode(entry)}, ttl=AUDIT_TTL)
    await queue.trim_notes(TOPIC, max_bytes=MAX_BYTES)


async def read_actions(queue: SharedNotes) -> list[Action]:
    """Return the entries of the audit log, newest first."""
    notes = await queue.notes(TOPIC)
    return [msgspec.json.decode(notes[key].value, type=Action) for key in sorted(notes, reverse=True)]
