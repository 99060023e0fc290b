"""The list of a queue's servers, stored on each of them; and the list that each run was made on."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from secrets import token_hex
from typing import NamedTuple

import msgspec

from shoal.core.errors import QueueError, QueueUnavailable, ServersChanged, WrongServer
from shoal.core.model import MINUTE, RunState
from shoal.queue.contract import Queue
from shoal.queue.sharded.members import Member, Members, gather

TOPIC, LIST, NAME = "servers", "list", "name"
PROBE_TOPIC = "servers apart"
RUN_TOPIC = "servers of runs"
RUN_TTL = timedelta(days=3_650)  # longer than any run
UNFINISHED = (RunState.RUNNING, RunState.PAUSED)

_decode = msgspec.json.Decoder(list[str]).decode


class _ServerNotes(NamedTuple):
    """What a server knows about its queue: the names of all servers, and its own."""

    names: Sequence[str]
    name: str | None


async def agree(members: Sequence[Member]) -> Members:
    """Return the servers in their stored order, and store the list if it is new or has changed.

    Raises ServersChanged if it has changed and a run is not finished, WrongServer if an address leads to
    another server of the list, and QueueUnavailable if a server whose list is needed cannot be reached.
    """
    by_name = {member.name: member for member in members}
    stored, away = await _read_stored(members)
    order = _known_order(stored, by_name)
    if order is None and away:
        stored |= await _read_late(away)
        away, order = {}, _known_order(stored, by_name)
    if order is None:
        known = [one.names for one in stored.values() if one.names]
        await _check_finished(members, known)
        old = next((names for names in known), [])
        order = [*(name for name in old if name in by_name), *(name for name in by_name if name not in old)]
        await _store(members, order)
    elif not away and not all(one.names and one.name for one in stored.values()):
        # The process that wrote it was interrupted, or did not store names.
        await _store(members, order)
    return Members([by_name[name] for name in order])


async def _read(queue: Queue) -> _ServerNotes:
    notes = await queue.notes(TOPIC, [LIST, NAME])
    names, name = notes.get(LIST), notes.get(NAME)
    return _ServerNotes(_decode(names.value) if names else [], name.value.decode() if name else None)


async def _read_stored(
    members: Sequence[Member],
) -> tuple[dict[Member, _ServerNotes], dict[Member, QueueError]]:
    """Return what each server has stored, and the errors of those that cannot be reached."""
    replies = await Members(members).call_reachable(dict.fromkeys(members, _read))
    away = {
        one: replies.error or QueueUnavailable(one.name, "it does not respond") for one in replies.missing
    }
    return dict(replies.given), away


async def _read_late(away: Mapping[Member, QueueError]) -> dict[Member, _ServerNotes]:
    """Return what servers have stored that were only slow; raises the error of one that failed.

    One that migrates its tables replies seconds after the others, and no list can be made without it.
    """
    for member, error in away.items():
        if not member.stalled:
            raise error
    return dict(zip(away, await gather(member.call(_read) for member in away), strict=True))


def _known_order(stored: Mapping[Member, _ServerNotes], named: Collection[str]) -> Sequence[str] | None:
    """Return the stored order of the servers, None if no server has stored exactly these."""
    _check_names(stored, named)
    known = [one.names for one in stored.values() if one.names]
    return known[0] if known and all(set(names) == set(named) for names in known) else None


def _check_names(stored: Mapping[Member, _ServerNotes], named: Collection[str]) -> None:
    """Raise WrongServer if an address leads to the server that has another name of the list."""
    for member, (_, name) in stored.items():
        if name is not None and name != member.name and name in named:
            raise WrongServer(member.name, name)


async def _check_apart(members: Sequence[Member]) -> None:
    """Raise WrongServer if two addresses lead to one server: everything on it would be counted twice."""
    opening = token_hex(8)  # other processes may open the queue at the same time
    keys = {f"{opening} {member.number}": member for member in members}

    async def write(key: str, queue: Queue) -> None:
        await queue.write_notes(PROBE_TOPIC, {key: b""}, ttl=MINUTE)

    async def read(queue: Queue) -> Collection[str]:
        return await queue.notes(PROBE_TOPIC, list(keys))

    await gather(member.call(partial(write, key)) for key, member in keys.items())
    found = await gather(member.call(read) for member in members)
    for member, written in zip(members, found, strict=True):
        for key in written:
            if keys[key] is not member:
                raise WrongServer(member.name, keys[key].name)


async def _store(members: Sequence[Member], order: Sequence[str]) -> None:
    await _check_apart(members)

    async def write(name: str, queue: Queue) -> None:
        await queue.write_notes(TOPIC, {LIST: msgspec.json.encode(order), NAME: name.encode()})

    await gather(member.call(partial(write, member.name)) for member in members)


async def _check_finished(members: Sequence[Member], known: Sequence[Sequence[str]]) -> None:
    """Raise ServersChanged if a server has a run with tasks left: its hosts would get a second owner."""

    async def unfinished(queue: Queue) -> str | None:
        for run in await queue.runs():
            if run.state in UNFINISHED and (await queue.stats(run.id)).remaining:
                return run.id
        return None

    for member in members:
        run_id = await member.call(unfinished)
        if run_id is not None:
            had = next((names for names in known), [member.name])
            raise ServersChanged(run_id, had, [one.name for one in members])


class RunServers:
    """Checks that a run was made on the servers that this process works with."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self._checked: set[str] = set()

    async def store(self, run_id: str) -> None:
        """Store the list of servers for a new run."""
        value = {run_id: msgspec.json.encode(self._members.names)}
        await self._members.call_all(lambda queue: queue.write_notes(RUN_TOPIC, value, ttl=RUN_TTL))
        self._checked.add(run_id)

    async def drop(self, run_id: str) -> None:
        """Forget a run that was deleted."""
        self._checked.discard(run_id)
        await self._members.call_all(lambda queue: queue.write_notes(RUN_TOPIC, {run_id: None}))

    async def check(self, run_id: str) -> None:
        """Raise ServersChanged if the run was made on other servers."""
        if run_id in self._checked:
            return
        names = await self._read(run_id)
        if names is None:
            await self._adopt(run_id)
        elif set(names) == set(self._members.names):
            self._checked.add(run_id)
        else:
            raise ServersChanged(run_id, names, self._members.names)

    async def _read(self, run_id: str) -> list[str] | None:
        async def read(queue: Queue) -> list[str] | None:
            note = (await queue.notes(RUN_TOPIC, [run_id])).get(run_id)
            return _decode(note.value) if note else None

        replies = await self._members.call_reachable(dict.fromkeys(self._members, read))
        return next((names for names in replies.given.values() if names is not None), None)

    async def _adopt(self, run_id: str) -> None:
        """Take over a run whose creation was interrupted; one with tasks is of a queue on one server."""

        async def is_filled(queue: Queue) -> bool | None:
            if run_id not in {run.id for run in await queue.runs()}:
                return None
            return (await queue.stats(run_id)).tasks > 0

        filled = dict(zip(self._members, await self._members.call_all(is_filled), strict=True))
        if had := [member.name for member, found in filled.items() if found]:
            raise ServersChanged(run_id, had, self._members.names)
        if any(found is not None for found in filled.values()):
            await self.store(run_id)
