"""Settle outcomes: one script call for each run and shard, with the fields of its outcomes as columns."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import msgspec

from shoal.core.model import ZERO, Done, Fate
from shoal.queue.encoding import micros, optional_micros
from shoal.queue.intake import MAX_KNOWN_LINKS, PreparedOutcome, QueuedTask, in_runs, outcome_fields, page_of
from shoal.queue.redis.records import PackedTask, columns, pack, pack_task
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.redis.shards import homes_of, shard_of_key, shard_of_lease

MAX_OUTCOMES = 1_000  # of one call
MAX_FOLLOW = 2_000  # follow-up tasks of one call, unless they are of one outcome
_ARRAY = struct.Struct(">BI").pack
_known_link = lru_cache(maxsize=MAX_KNOWN_LINKS)(pack_task)
Forward = Callable[[str, Sequence[int]], Awaitable[None]]  # delivers the outboxes of shards
Extras = tuple[int, str, int | None, int | None, bool | None]


class ResultArray(msgspec.Struct):
    """Results of outcomes, which are stored as one MessagePack array if all outcomes are accepted."""

    positions: list[int] = msgspec.field(default_factory=list)
    numbers: list[int] = msgspec.field(default_factory=list)
    blobs: list[bytes] = msgspec.field(default_factory=list)

    def add(self, position: int, number: int, blob: bytes) -> None:
        """Add the results of one outcome."""
        self.positions.append(position)
        self.numbers.append(number)
        self.blobs.append(blob)

    def columns(self) -> bytes:
        """Return the position of each outcome, how many results it has, and the length of its blob."""
        return pack((self.positions, self.numbers, list(map(len, self.blobs))))

    def joined(self) -> bytes:
        """Return the array."""
        return b"".join((_ARRAY(0xDD, len(self.blobs)), *self.blobs)) if self.blobs else b""


@dataclass(slots=True)
class ShardSettlement:
    """The outcomes of one run's leases in one shard, as the arguments of one call."""

    run_id: str
    shard: int
    shards: int
    positions: list[int] = field(default_factory=list)
    ids: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    extras: dict[int, Extras] = field(default_factory=dict)
    items: ResultArray = field(default_factory=ResultArray)
    rejects: ResultArray = field(default_factory=ResultArray)
    follow: list[tuple[int, PackedTask]] = field(default_factory=list)
    keys: set[bytes] = field(default_factory=set)
    sent: list[tuple[int, int]] = field(default_factory=list)
    sent_blobs: list[bytes] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the call is as long as it may be."""
        return len(self.positions) >= MAX_OUTCOMES or len(self.follow) >= MAX_FOLLOW

    @property
    def sends(self) -> bool:
        """Whether some of the follow-up tasks are for another shard."""
        homes = homes_of([one for _, one in self.follow], self.shards)
        return bool(self.sent) or any(home != self.shard for home in homes)

    def add(self, position: int, one: PreparedOutcome) -> None:
        """Add one outcome."""
        outcome = one.outcome
        lease = outcome.lease
        task_id = bytes.fromhex(lease.task_id)
        number, is_plain = len(self.positions) + 1, False
        if isinstance(outcome, Done):
            # Whether the outcome changes nothing of the host.
            is_plain = outcome.asked and outcome.pause_host is None and outcome.slow_host is None
            if one.items or one.rejects or one.follow:
                self._add_results(number, task_id, one)
        if is_plain:
            kind = "D"
        else:
            kind, after, error, pause, slow = outcome_fields(outcome)
            unused = None if outcome.asked else True
            self.extras[number] = (
                micros(after or ZERO),
                error or "",
                optional_micros(pause),
                optional_micros(slow),
                unused,
            )
        self.positions.append(position)
        self.ids.append(task_id)
        self.tokens.append(lease.token)
        self.kinds.append(kind)

    def _add_results(self, number: int, task_id: bytes, one: PreparedOutcome) -> None:
        task = one.outcome.lease.task
        url = page_of(task)
        if one.items:
            self.items.add(number, len(one.items), pack((task_id, url, task.step, one.items)))
        if one.rejects:
            data = [text for reject in one.rejects for text in reject]
            self.rejects.add(number, len(one.rejects), pack((task_id, url, task.step, data)))
        if one.follow:
            self._add_follow(number, one.follow)

    def _add_follow(self, number: int, follow: Sequence[QueuedTask]) -> None:
        elsewhere: dict[int, list[PackedTask]] = {}
        for one in map(_pack_follow_up, follow):
            shard = shard_of_key(one, self.shards)
            self.keys.add(one.element[2:18])
            if shard == self.shard:
                self.follow.append((number, one))
            else:
                elsewhere.setdefault(shard, []).append(one)
        for shard, tasks in elsewhere.items():
            self.sent.append((number, shard))
            self.sent_blobs.append(pack(tasks))

    def arguments(self) -> list[Argument]:
        """Return the arguments of `settle.lua`."""
        follow = [one for _, one in self.follow]
        return [
            self.run_id,
            b"".join(self.ids),
            pack(self.tokens),
            "".join(self.kinds),
            pack(self.extras),
            self.items.columns(),
            self.rejects.columns(),
            columns(follow, homes_of(follow, self.shards), [number for number, _ in self.follow]),
            pack(self.sent),
            self.items.joined(),
            self.rejects.joined(),
            *(one.element for one in follow),
            *self.sent_blobs,
        ]


def _pack_follow_up(entry: QueuedTask) -> PackedTask:
    """Pack a follow-up task; a link that many pages have is packed once."""
    # Not those with a payload, which may be large and occur once.
    return _known_link(entry) if entry.payload == "{}" else pack_task(entry)


def settlements(outcomes: Sequence[PreparedOutcome], shards: int) -> list[list[ShardSettlement]]:
    """Return the calls that apply these outcomes, in chains that may run in parallel."""
    in_order = [position for _, positions in in_runs(outcomes) for position in positions]
    chains: dict[int, list[ShardSettlement]] = {}
    for position in in_order:
        shard = shard_of_lease(outcomes[position].outcome.lease, shards)
        _add(chains.setdefault(shard, []), shard, shards, position, outcomes[position])
    if len(chains) < 2 or not _share_keys(chains.values()):
        return list(chains.values())
    # Several shards queue the same key, and the first must win: one call after the other.
    chain: list[ShardSettlement] = []
    for position in in_order:
        shard = shard_of_lease(outcomes[position].outcome.lease, shards)
        _add(chain, shard, shards, position, outcomes[position])
    return [chain]


def _add(
    chain: list[ShardSettlement],
    shard: int,
    shards: int,
    position: int,
    one: PreparedOutcome,
) -> None:
    """Put an outcome into the last call of a chain, or into a new one."""
    run_id = one.outcome.lease.run_id
    call = chain[-1] if chain else None
    if call is None or call.shard != shard or call.run_id != run_id or call.is_full:
        call = ShardSettlement(run_id, shard, shards)
        chain.append(call)
    call.add(position, one)


def _share_keys(chains: Iterable[list[ShardSettlement]]) -> bool:
    """Return whether two shards queue a task with the same key."""
    found: set[bytes] = set()
    for chain in chains:
        keys = {key for call in chain for key in call.keys}
        if found & keys:
            return True
        found |= keys
    return False


async def settle(
    server: RedisServer, outcomes: Sequence[PreparedOutcome], shards: int, forward: Forward
) -> list[Fate]:
    """Apply outcomes; of two for the same lease, the second is STALE."""
    fates = [Fate.STALE] * len(outcomes)

    async def apply(chain: Sequence[ShardSettlement]) -> None:
        """Make the calls of a chain one after the other."""
        for call in chain:
            reply = await server.once("settle", call.shard, *call.arguments())
            # The number of the accepted outcomes, if that is all of them; else their positions.
            for number in range(1, reply + 1) if isinstance(reply, int) else reply:
                fates[call.positions[number - 1]] = Fate.ACCEPTED
            if call.sends:
                await forward(call.run_id, [call.shard])

    await asyncio.gather(*map(apply, settlements(outcomes, shards)))
    return fates
