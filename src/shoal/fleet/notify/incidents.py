"""Incidents: what happened, whether it is over, and which channels know.

Each is one note that is only swapped. So of many processes that see the same thing one opens the incident;
and a message whose process dies while it sends it is sent again by another, with the same id.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from shoal.core.errors import QueueError
from shoal.core.notifications import Notification
from shoal.queue.contract import SharedNotes

TOPIC = "incidents"
INCIDENT_TTL = timedelta(days=30)  # since it last changed: then an open one is told again
CLAIM = timedelta(seconds=60)  # for one attempt to send
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=5), timedelta(minutes=10)  # between attempts
GIVE_UP_AFTER = timedelta(days=3)
MAX_TRIES = 50


class ChannelDelivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one channel has got of an incident."""

    sent: int = 0  # messages: its begin, its end
    attempts: int = 0  # in a row that failed
    next_at: datetime | None = None  # until then another process may be sending, or the receiver is away
    error: str = ""


class Incident(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that needs attention until it is over."""

    messages: list[Notification]  # its begin, and its end; then the next begin, if a channel lacks that end
    deliveries: dict[str, ChannelDelivery]  # by channel
    progress: str = ""  # of a stalled run when it stalled
    subjects: list[str] = []  # what its messages are about, such as fields

    @property
    def is_open(self) -> bool:
        """Whether it is not over, nor something that has no end."""
        return self.messages[-1].state == "open"

    def left(self, channel: str, now: datetime) -> list[Notification]:
        """Return the messages that a channel has not got, without those given up and their ends."""
        found, has_begin = self.deliveries.get(channel), True
        left = list[Notification]()
        for message in self.messages[found.sent :] if found else []:
            is_kept = now - message.at <= GIVE_UP_AFTER
            if is_kept and (has_begin or message.state != "over"):
                left.append(message)
            has_begin = is_kept
        return left

    def pending(self, channel: str, now: datetime) -> Notification | None:
        """Return the message that a channel is to get now."""
        left, next_at = self.left(channel, now), self.deliveries.get(channel, ChannelDelivery()).next_at
        return left[0] if left and not (next_at and next_at > now) else None

    def place_of(self, message: Notification) -> int | None:
        """Return which message says the same already: this very one, or the begin while it is open."""
        places = [place for place, one in enumerate(self.messages) if one.id == message.id]
        return places[0] if places else len(self.messages) - 1 if self.is_open else None


Change = Callable[[Incident | None], Incident | None]


class Incidents:
    """The incidents of a queue."""

    def __init__(self, queue: SharedNotes) -> None:
        self._queue = queue

    async def all(self) -> dict[str, Incident]:
        """Return the incidents of the last weeks by key."""
        notes = await self._queue.notes(TOPIC)
        return {key: msgspec.json.decode(note.value, type=Incident) for key, note in notes.items()}

    async def open(
        self,
        key: str,
        message: Notification,
        channels: list[str],
        *,
        progress: str = "",
        subjects: Sequence[str] = (),
    ) -> None:
        """Open an incident unless it is open, or this very one was; other channels than before are added.

        One that is open is told again if it is about a new subject.
        """

        def change(found: Incident | None) -> Incident | None:
            known = found.subjects if found and found.is_open else []
            is_new = bool(known) and not set(subjects) <= set(known)
            if found and not is_new and (place := found.place_of(message)) is not None:
                added = dict.fromkeys(channels, ChannelDelivery(sent=place))
                return replace(found, deliveries=added | found.deliveries)
            is_pending = found and any(found.left(channel, message.at) for channel in found.deliveries)
            before = found.messages if found and is_pending else []
            deliveries = dict.fromkeys(channels, ChannelDelivery(sent=len(before)))
            if found and before:
                deliveries |= found.deliveries
            about = sorted({*known, *subjects})
            return Incident(
                messages=[*before, message], deliveries=deliveries, progress=progress, subjects=about
            )

        await self.update(key, change)

    async def close(self, key: str, end: Callable[[Notification], Notification]) -> None:
        """End an incident if it is open; `end` makes the message of its end from that of its begin."""

        def change(found: Incident | None) -> Incident | None:
            if found is None or not found.is_open:
                return found
            begin = found.messages[-1]
            last = replace(end(begin), id=f"{begin.id}-over", state="over", event=begin.event)
            return replace(found, messages=[*found.messages, last])

        await self.update(key, change)

    async def claim(self, key: str, channel: str, now: datetime) -> Notification | None:
        """Return the message to send, which no other process sends for a minute; None if none is due."""
        claimed: list[Notification | None] = []

        def change(found: Incident | None) -> Incident | None:
            message = found.pending(channel, now) if found else None
            claimed.append(message)
            if found is None or message is None:
                return found
            held = replace(found.deliveries[channel], next_at=now + CLAIM)
            return replace(found, deliveries={**found.deliveries, channel: held})

        await self.update(key, change)
        return claimed[-1]

    async def settle(
        self, key: str, channel: str, message: Notification, error: str, now: datetime
    ) -> ChannelDelivery:
        """Record how an attempt to send a message ended; an empty error means that it was received."""
        results: list[ChannelDelivery] = []

        def change(found: Incident | None) -> Incident | None:
            delivery = found.deliveries.get(channel, ChannelDelivery()) if found else ChannelDelivery()
            if found is None or message not in found.messages[delivery.sent :]:
                results.append(delivery)  # sent by another process meanwhile, or forgotten
                return found
            results.append(_after(delivery, found.messages.index(message), error, now))
            return replace(found, deliveries={**found.deliveries, channel: results[-1]})

        await self.update(key, change)
        return results[-1]

    async def update(self, key: str, change: Change) -> None:
        """Swap an incident for what `change` makes of it; another process may change it at the same time."""
        for _ in range(MAX_TRIES):
            note = (await self._queue.notes(TOPIC, [key])).get(key)
            found = msgspec.json.decode(note.value, type=Incident) if note else None
            changed = change(found)
            if changed is None or changed == found:
                return
            value, stamp = msgspec.json.encode(changed), note.stamp if note else None
            if await self._queue.swap_note(TOPIC, key, value, stamp=stamp, ttl=INCIDENT_TTL):
                return
        raise QueueError(f"The incident {key!r} is being changed by many at once")


def _after(delivery: ChannelDelivery, sent: int, error: str, now: datetime) -> ChannelDelivery:
    if not error:
        return ChannelDelivery(sent=sent + 1)
    delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(delivery.attempts, 20))
    return replace(delivery, attempts=delivery.attempts + 1, next_at=now + delay, error=error)


def event_id(*parts: object) -> str:
    """Return the id of an event: the same wherever it is seen."""
    return f"evt_{sha256(' '.join(map(str, parts)).encode()).hexdigest()[:24]}"
