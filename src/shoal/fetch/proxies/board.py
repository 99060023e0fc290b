"""What the fleet knows of its proxies: told and heard through notes, every few seconds and after a failure.

Three topics for each run: by what the requests of each worker have failed, how often in a row, which is added
up; what is benched, in notes that end with the bench; and what each worker has done by each proxy.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.model import MINUTE, Note
from shoal.fetch.notes import Notes
from shoal.fetch.proxies.pool import Pool
from shoal.fetch.proxies.standing import Fault, Standing

EVERY = 3.0  # seconds between two exchanges
LINGER = 0.03  # seconds in which failures gather
STALE = timedelta(seconds=15)  # a worker that has said nothing for so long is none
RECENT = timedelta(seconds=30)  # a proxy that served another worker since then is not dead for all
KEEP = timedelta(days=1)
MOST_SHOWN = 1_000  # proxies of which those that were never taken are told too
log = logging.getLogger("shoal.proxies")


class Deeds(msgspec.Struct, frozen=True, array_like=True):
    """What one worker has done by one proxy."""

    pages: int = 0
    faults: dict[str, int] = {}
    streak: int = 0
    seconds: float | None = None
    last_fault: str | None = None
    since_page: float | None = None  # seconds


class Sentence(msgspec.Struct, frozen=True, array_like=True):
    """Why something is benched, and for how many seconds."""

    fault: str
    seconds: float
    failures: int


def topic(what: str, run_id: str) -> str:
    """Return the topic of what is known of a run's proxies: "trouble", "benched" or "deeds"."""
    return f"proxies {what} {run_id}"


class Board:
    """Tells the fleet what this worker knows of its proxies, and the pool what the fleet knows."""

    def __init__(self, notes: Notes, run_id: str, me: str, pool: Pool) -> None:
        self._notes, self._run_id, self._me, self._pool = notes, run_id, me, pool
        self._told: bytes | None = None
        self._told_at = float("-inf")
        self._deeds_told: bytes | None = None
        self._deeds_at = float("-inf")

    async def run(self) -> None:
        """Exchange news until cancelled."""
        while True:
            with suppress(ShoalError):
                await self.exchange()
            with suppress(TimeoutError):
                async with asyncio.timeout(EVERY):
                    await self._pool.troubled.wait()
            await asyncio.sleep(LINGER)

    async def exchange(self) -> None:
        """Exchange news once."""
        pool = self._pool
        pool.troubled.clear()
        held, condemned, mine = pool.held(), pool.condemned(), pool.trouble()
        try:
            others = await self._tell_trouble(mine)
            total = Counter(mine)
            for theirs in others.values():
                total.update(theirs)
            guilty = {unit: pool.reason(unit) for unit in mine if total[unit] >= pool.rules.threshold}
            benched = await self._benched()
            new = {unit: fault for unit, fault in (guilty | condemned).items() if unit not in benched}
            if new:
                await self._bench(new, total, others)
                benched = await self._benched()
            pool.bench(benched)
            await self.tell_deeds()
        finally:
            pool.told(held)

    async def tell_deeds(self, *, now: bool = False) -> None:
        """Write down what was done, unless that was just done or is the same."""
        moment = time.monotonic()
        if not now and moment - self._deeds_at < EVERY:
            return
        written = msgspec.msgpack.encode(self._deeds())
        if written != self._deeds_told:
            await self._write("deeds", {self._me: written}, KEEP)
            self._deeds_told = written
        self._deeds_at = moment

    async def _tell_trouble(self, mine: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Say what has failed here, and return what has failed elsewhere."""
        written, now = msgspec.msgpack.encode(mine), time.monotonic()
        if written != self._told or now - self._told_at > STALE.total_seconds() / 3:
            await self._write("trouble", {self._me: written}, MINUTE)
            self._told, self._told_at = written, now
        found = await self._notes.notes(topic("trouble", self._run_id))
        alive = sorted({self._me, *(name for name, note in found.items() if note.age < STALE)})
        if self._pool.rules.share == "slice":
            self._pool.share(alive.index(self._me), len(alive))
        return {name: read_counts(found[name]) for name in alive if name != self._me and name in found}

    async def _benched(self) -> dict[str, float]:
        return left_of(await self._notes.notes(topic("benched", self._run_id)))

    async def _bench(
        self, units: Mapping[str, Fault], total: Counter[str], others: Mapping[str, Mapping[str, int]]
    ) -> None:
        """Bench units for the whole fleet; but a proxy that serves other workers, for this one alone."""
        duration = self._pool.rules.duration
        elsewhere = await self._served_elsewhere(units, others)
        for unit, fault in units.items():
            if unit in elsewhere:
                continue
            sentence = Sentence(fault, duration.total_seconds(), max(1, total[unit]))
            written = msgspec.msgpack.encode(sentence)
            where = topic("benched", self._run_id)
            if await self._notes.swap_note(where, unit, written, stamp=None, ttl=duration):
                log.info("Proxy %s is benched for %g s: %s", unit, sentence.seconds, fault)
        self._pool.bench({unit: duration.total_seconds() for unit in elsewhere})

    async def _served_elsewhere(
        self, units: Mapping[str, Fault], others: Mapping[str, Mapping[str, int]]
    ) -> set[str]:
        """Return the proxies by which other workers get pages: this machine alone may be locked out."""
        found = await self._notes.notes(topic("deeds", self._run_id), list(others)) if others else {}
        served: set[str] = set()
        for name, note in found.items():
            deeds = read_deeds(note)
            served |= {
                unit
                for unit in units
                if unit in deeds and unit not in others[name] and _is_recent(deeds[unit], note.age)
            }
        return served

    async def _write(self, what: str, values: Mapping[str, bytes | None], ttl: timedelta) -> None:
        await self._notes.write_notes(topic(what, self._run_id), values, ttl=ttl)

    def _deeds(self) -> dict[str, Deeds]:
        standings = list(self._pool.standings())
        shown = standings if len(standings) <= MOST_SHOWN else [one for one in standings if one.used]
        return {one.way.name: _deeds_of(one, time.monotonic()) for one in shown}


def read_deeds(note: Note) -> dict[str, Deeds]:
    """Read what one worker has done; nothing where that cannot be read."""
    found: dict[str, Deeds] = _read(note, dict[str, Deeds], {})
    return found


def read_counts(note: Note) -> dict[str, int]:
    """Read what has failed in one worker."""
    found: dict[str, int] = _read(note, dict[str, int], {})
    return found


def read_sentence(note: Note) -> Sentence | None:
    """Read why something is benched."""
    found: Sentence | None = _read(note, Sentence, None)
    return found


def left_of(notes: Mapping[str, Note]) -> dict[str, float]:
    """Return how many seconds everything stays benched."""
    found = {}
    for unit, note in notes.items():
        sentence = read_sentence(note)
        left = sentence.seconds - note.age.total_seconds() if sentence else 0.0
        if left > 0:
            found[unit] = left
    return found


def _deeds_of(standing: Standing, now: float) -> Deeds:
    since = None if standing.last_page is None else round(now - standing.last_page, 1)
    seconds = None if standing.seconds is None else round(standing.seconds, 4)
    return Deeds(
        standing.pages,
        {str(fault): count for fault, count in standing.faults.items()},
        standing.streak,
        seconds,
        standing.last_fault,
        since,
    )


def _is_recent(deeds: Deeds, age: timedelta) -> bool:
    if deeds.since_page is None or deeds.streak or age > STALE:
        return False
    return timedelta(seconds=deeds.since_page) + age < RECENT


def _read(note: Note, kind: Any, otherwise: Any) -> Any:
    try:
        return msgspec.msgpack.decode(note.value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return otherwise
