"""Prepares outcomes for the scripts, one call for each run and shard; and edits dead letters."""

import struct
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any, assert_never

from shoal.core.failures import failure_text
from shoal.core.model import Bury, Done, Lease, Outcome, Release, Retry, Task
from shoal.queue.contract import EditFate, LetterEdit
from shoal.queue.intake import MAX_KNOWN_LINKS, Intake, QueuedTask, encode_item
from shoal.queue.redis.read import RedisReader
from shoal.queue.redis.records import Parcel
from shoal.queue.redis.server import Argument
from shoal.queue.redis.wire import (
    columns,
    home_of,
    homes_of,
    key_of,
    micros,
    pack,
    pack_parcels,
    parcel,
    shard_of_host,
    shard_of_id,
    shard_of_key,
)
from shoal.queue.rules import page_of

MAX_OUTCOMES = 1_000  # of one call
MAX_FOLLOW = 2_000  # follow-up tasks of one call, unless they are of one outcome
_ARRAY = struct.Struct(">BI").pack
_known_parcel = lru_cache(maxsize=MAX_KNOWN_LINKS)(parcel)
Extras = tuple[int, str, int | None, int | None, bool | None]


@dataclass(slots=True)
class ResultArray:
    """Results of outcomes, which are stored as one MessagePack array if all outcomes are accepted."""

    positions: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)

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
    follow: list[tuple[int, Parcel]] = field(default_factory=list)
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

    def add(self, position: int, outcome: Outcome, intake: Intake) -> None:
        """Add one outcome; raises InvalidItem or InvalidTask."""
        lease = outcome.lease
        task_id = bytes.fromhex(lease.task_id)
        number, is_plain = len(self.positions) + 1, False
        if isinstance(outcome, Done):
            # Whether the outcome changes nothing of the host.
            is_plain = outcome.asked and outcome.pause_host is None and outcome.slow_host is None
            if outcome.items or outcome.rejects or outcome.follow:
                self._add_results(number, task_id, outcome, intake)
        if is_plain:
            kind = "D"
        else:
            kind, after, error = _kind(outcome)
            pause, slow = _host_limits(outcome)
            unused = None if outcome.asked else True
            self.extras[number] = (micros(after), error, _micros(pause), _micros(slow), unused)
        self.positions.append(position)
        self.ids.append(task_id)
        self.tokens.append(lease.token)
        self.kinds.append(kind)

    def _add_results(self, number: int, task_id: bytes, done: Done, intake: Intake) -> None:
        task = done.lease.task
        url = page_of(task)
        if done.items:
            data = [encode_item(item) for item in done.items]
            self.items.add(number, len(data), pack((task_id, url, task.step, data)))
        if done.rejects:
            data = [text for one in done.rejects for text in (encode_item(one.data), _storable(one.reason))]
            self.rejects.add(number, len(done.rejects), pack((task_id, url, task.step, data)))
        if done.follow:
            self._add_follow(number, done.follow, intake)

    def _add_follow(self, number: int, follow: Sequence[Task], intake: Intake) -> None:
        elsewhere: dict[int, list[Parcel]] = {}
        for one in (_pack_follow_up(intake.follow_up(child)) for child in follow):
            shard = shard_of_key(one, self.shards)
            self.keys.add(one.element[2:18])
            if shard == self.shard:
                self.follow.append((number, one))
            else:
                elsewhere.setdefault(shard, []).append(one)
        for shard, parcels in elsewhere.items():
            self.sent.append((number, shard))
            self.sent_blobs.append(pack_parcels(parcels))

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


def _pack_follow_up(entry: QueuedTask) -> Parcel:
    """Pack a follow-up task; a link that many pages have is packed once."""
    # Not those with a payload, which may be large and occur once.
    return _known_parcel(entry) if entry.payload == "{}" else parcel(entry)


def settlements(
    outcomes: Sequence[Outcome],
    cuts: Sequence[tuple[str, list[int]]],
    intakes: Mapping[str, Intake],
    shards: int,
) -> list[list[ShardSettlement]]:
    """Return the calls that apply these outcomes, in chains that may run in parallel.

    Raises InvalidItem or InvalidTask.
    """
    if shards == 1:
        return [_chain_of_one_shard(outcomes, cuts, intakes)]
    chains: dict[int, list[ShardSettlement]] = {}
    for position, outcome in _in_order(outcomes, cuts):
        shard = shard_of_lease(outcome.lease, shards)
        _add(chains.setdefault(shard, []), shard, shards, position, outcome, intakes)
    if not _share_keys(chains.values()):
        return list(chains.values())
    # Several shards queue the same key, and the first must win: one call after the other.
    chain: list[ShardSettlement] = []
    for position, outcome in _in_order(outcomes, cuts):
        shard = shard_of_lease(outcome.lease, shards)
        _add(chain, shard, shards, position, outcome, intakes)
    return [chain]


def _chain_of_one_shard(
    outcomes: Sequence[Outcome], cuts: Iterable[tuple[str, list[int]]], intakes: Mapping[str, Intake]
) -> list[ShardSettlement]:
    chain: list[ShardSettlement] = []
    for run_id, positions in cuts:
        call, intake = ShardSettlement(run_id, 0, 1), intakes[run_id]
        chain.append(call)
        for position in positions:
            if call.is_full:
                call = ShardSettlement(run_id, 0, 1)
                chain.append(call)
            call.add(position, outcomes[position], intake)
    return chain


def _in_order(
    outcomes: Sequence[Outcome], cuts: Iterable[tuple[str, list[int]]]
) -> Iterator[tuple[int, Outcome]]:
    for _, positions in cuts:
        for position in positions:
            yield position, outcomes[position]


def _add(
    chain: list[ShardSettlement],
    shard: int,
    shards: int,
    position: int,
    outcome: Outcome,
    intakes: Mapping[str, Intake],
) -> None:
    """Put an outcome into the last call of a chain, or into a new one."""
    run_id = outcome.lease.run_id
    call = chain[-1] if chain else None
    if call is None or call.shard != shard or call.run_id != run_id or call.is_full:
        call = ShardSettlement(run_id, shard, shards)
        chain.append(call)
    call.add(position, outcome, intakes[run_id])


def _share_keys(chains: Iterable[list[ShardSettlement]]) -> bool:
    """Return whether two shards queue a task with the same key."""
    found: set[bytes] = set()
    for chain in chains:
        keys = {key for call in chain for key in call.keys}
        if found & keys:
            return True
        found |= keys
    return False


def shard_of_lease(lease: Lease, shards: int) -> int:
    """Return the shard of a lease's task."""
    if shards == 1:
        return 0
    if lease.task.url is None:
        return int(lease.task_id[:8], 16) % shards
    return shard_of_host(lease.task.url.split("/", 3)[2], shards)


def _kind(outcome: Outcome) -> tuple[str, timedelta, str]:
    match outcome:
        case Done():
            return "D", timedelta(0), ""
        case Retry():
            return "R", outcome.after, failure_text(outcome)
        case Bury():
            return "B", timedelta(0), failure_text(outcome)
        case Release():
            return "F", outcome.after, ""
        case _:
            assert_never(outcome)


def _host_limits(outcome: Any) -> tuple[timedelta | None, timedelta | None]:
    return None if isinstance(outcome, Release) else outcome.pause_host, outcome.slow_host


def _micros(span: timedelta | None) -> int | None:
    return None if span is None else micros(span)


def _storable(text: str) -> str:
    return text.encode(errors="replace").decode()


# Edits of dead letters: one call, or on a cluster one for each part if they are in several shards.

EDIT_FATES = {1: EditFate.EDITED, 0: EditFate.DUPLICATE, -1: EditFate.CHANGED}
RunScript = Callable[..., Awaitable[Any]]  # script, shard, run id, arguments


async def edit_letter(
    run_script: RunScript,
    reader: RedisReader,
    number: int,
    run_id: str,
    edit: LetterEdit,
    entry: QueuedTask,
) -> EditFate:
    """Replace the task of a dead letter, unless it has changed or its new key is taken."""
    found = await reader.stored_letter(number, edit.letter)
    if found is None:
        return EditFate.CHANGED
    shard, order, stored = found
    shards = reader.shards
    old_id, new = bytes.fromhex(edit.letter.id), parcel(entry)
    fresh = [new.section, new.host, new.priority, key_of(old_id), new.key, edit.by, edit.note]
    arguments: list[Argument] = [stored, order, pack(fresh), new.element]

    async def call(parts: str, on: int) -> int:
        return int(await run_script("edit", on, run_id, parts, *arguments))

    moves_key, home = entry.id != old_id, home_of(new, shards)
    old_key, new_key = shard_of_id(old_id, shards), shard_of_id(entry.id, shards)
    if {shard, home, *((old_key, new_key) if moves_key else ())} == {shard}:
        return EDIT_FATES[await call("ktpf" if moves_key else "tp", shard)]
    if moves_key and not await call("k", new_key):
        return EditFate.DUPLICATE
    await call("p", home)
    is_taken = await call("t", shard) == 1
    if not is_taken:
        await call("u", home)
    if moves_key:
        await (call("f", old_key) if is_taken else call("g", new_key))
    return EditFate.EDITED if is_taken else EditFate.CHANGED
