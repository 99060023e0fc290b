"""Outcomes made ready for the scripts: checked first, then one call for each run and shard."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, assert_never

from shoal.core.model import Bury, Done, Lease, Outcome, Release, Retry, error_text
from shoal.queue.intake import NO_HOST, Intake, encode_item
from shoal.queue.redis.server import Argument
from shoal.queue.redis.wire import Parcel, columns, micros, pack, parcel, shard_of, shard_of_name

MOST, MOST_FOLLOW = 1_000, 2_000  # outcomes of one call, and follow-up tasks unless they are of one outcome
Brakes = tuple[int, str, int | None, int | None]


@dataclass(slots=True)
class Settlement:
    """The outcomes of one run's leases in one shard, as the arguments of one call."""

    run_id: str
    shard: int
    shards: int
    positions: list[int] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    extras: dict[int, Brakes] = field(default_factory=dict)
    items: list[tuple[int, int]] = field(default_factory=list)
    item_blobs: list[bytes] = field(default_factory=list)
    rejects: list[tuple[int, int]] = field(default_factory=list)
    reject_blobs: list[bytes] = field(default_factory=list)
    follow: list[tuple[int, Parcel]] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)
    sent_blobs: list[bytes] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether one more outcome would make the call long."""
        return len(self.positions) >= MOST or len(self.follow) >= MOST_FOLLOW

    def add(self, position: int, outcome: Outcome, intake: Intake) -> None:
        """Take in one outcome; raises InvalidItem or InvalidTask."""
        lease = outcome.lease
        place = len(self.positions) + 1
        if isinstance(outcome, Done) and (outcome.items or outcome.rejects or outcome.follow):
            self._carry(place, outcome, intake)
        kind, after, error = _kind(outcome)
        pause, slow = _brakes(outcome)
        if kind in "RB" or pause is not None or slow is not None:
            self.extras[place] = (micros(after), error, _micros(pause), _micros(slow))
        self.positions.append(position)
        self.ids.append(bytes.fromhex(lease.task_id))
        self.tokens.append(lease.token)
        self.kinds.append(kind)

    def _carry(self, place: int, done: Done, intake: Intake) -> None:
        task_id, task = bytes.fromhex(done.lease.task_id), done.lease.task
        if done.items:
            data = [encode_item(item) for item in done.items]
            self.items.append((place, len(data)))
            self.item_blobs.append(pack((task_id, task.url, task.step, data)))
        if done.rejects:
            data = [text for one in done.rejects for text in (encode_item(one.data), _storable(one.reason))]
            self.rejects.append((place, len(done.rejects)))
            self.reject_blobs.append(pack((task_id, task.url, task.step, data)))
        elsewhere: dict[int, list[Parcel]] = {}
        for one in (parcel(intake.entry(child)) for child in done.follow):
            shard = shard_of(one, self.shards)
            if shard == self.shard:
                self.follow.append((place, one))
            else:
                elsewhere.setdefault(shard, []).append(one)
        for shard, parcels in elsewhere.items():
            self.sent.append((place, shard))
            self.sent_blobs.append(pack(parcels))

    def arguments(self) -> list[Argument]:
        """Return what `settle.lua` reads."""
        return [
            self.run_id,
            b"".join(self.ids),
            pack(self.tokens),
            "".join(self.kinds),
            pack(self.extras),
            pack(self.items),
            pack(self.rejects),
            columns([one for _, one in self.follow], [place for place, _ in self.follow]),
            pack(self.sent),
            *self.item_blobs,
            *self.reject_blobs,
            *(one.element for _, one in self.follow),
            *self.sent_blobs,
        ]


def settlements(
    outcomes: Sequence[Outcome],
    cuts: Iterable[tuple[str, list[int]]],
    intakes: Mapping[str, Intake],
    shards: int,
) -> dict[int, list[Settlement]]:
    """Return the calls that obey these outcomes, shard by shard; raises InvalidItem or InvalidTask."""
    chains: dict[int, list[Settlement]] = {}
    for run_id, positions in cuts:
        for position in positions:
            outcome = outcomes[position]
            shard = shard_of_lease(outcome.lease, shards)
            chain = chains.setdefault(shard, [])
            if not chain or chain[-1].run_id != run_id or chain[-1].is_full:
                chain.append(Settlement(run_id, shard, shards))
            chain[-1].add(position, outcome, intakes[run_id])
    return chains


def shard_of_lease(lease: Lease, shards: int) -> int:
    """Return where the task of a lease lives."""
    if shards == 1:
        return 0
    url = lease.task.url
    host = url.split("/", 3)[2] if url is not None else NO_HOST
    if host != NO_HOST:
        return shard_of_name(host, shards)
    key = int.from_bytes(bytes.fromhex(lease.task_id)[8:], "big", signed=True)
    return shard_of_name(str(key), shards)


def _kind(outcome: Outcome) -> tuple[str, timedelta, str]:
    match outcome:
        case Done():
            return "D", timedelta(0), ""
        case Retry():
            return "R", outcome.after, error_text(outcome.error)
        case Bury():
            return "B", timedelta(0), error_text(outcome.error)
        case Release():
            return "F", timedelta(0), ""
        case _:
            assert_never(outcome)


def _brakes(outcome: Any) -> tuple[timedelta | None, timedelta | None]:
    return (None, None) if isinstance(outcome, Release) else (outcome.pause_host, outcome.slow_host)


def _micros(span: timedelta | None) -> int | None:
    return None if span is None else micros(span)


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()
