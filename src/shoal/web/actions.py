"""Who did what with the fleet by the web: kept in the queue for thirty days, the newest first."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from shoal.queue.contract import Queue
from shoal.web.guard import Guest

TOPIC = "web actions"
KEPT = timedelta(days=30)
MOST_BYTES = 1 << 20  # the oldest go first


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something that somebody did."""

    id: str
    at: datetime
    who: str
    role: str
    action: str
    target: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the fields that the API promises."""
        return {
            "id": self.id,
            "at": self.at.isoformat(timespec="seconds"),
            "who": self.who,
            "role": self.role,
            "action": self.action,
            "target": self.target,
            "details": dict(self.details),
        }


async def note(queue: Queue, guest: Guest, action: str, target: str, **details: Any) -> None:
    """Keep what a guest has done."""
    now = datetime.now(UTC)
    # Keys sort by time, and two of one moment do not meet.
    key = f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
    done = Action(
        id=key, at=now, who=guest.name, role=guest.role, action=action, target=target, details=details
    )
    await queue.write_notes(TOPIC, {key: msgspec.json.encode(done)}, ttl=KEPT)
    await queue.trim_notes(TOPIC, max_bytes=MOST_BYTES)


async def actions(queue: Queue) -> list[Action]:
    """Return what was done, the newest first."""
    notes = await queue.notes(TOPIC)
    return [msgspec.json.decode(notes[key].value, type=Action) for key in sorted(notes, reverse=True)]
