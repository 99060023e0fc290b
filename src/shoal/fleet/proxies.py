"""The proxies of a run as its workers know them, and whether they can be reached from here."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from shoal.core.errors import ShoalError
from shoal.core.exchange import Way
from shoal.core.ways import ProxyRules, endpoint
from shoal.fetch.proxies.board import Deeds, Sentence, left_of, read_deeds, read_sentence, topic
from shoal.fetch.proxies.source import Source
from shoal.fetch.proxies.standing import Fault
from shoal.queue.contract import Queue

AT_ONCE = 50
PATIENCE = 5.0  # seconds


@dataclass(slots=True)
class ProxyStatus:
    """A proxy as the whole fleet knows it."""

    name: str
    pages: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    seconds: float | None = None  # that a page takes, on average
    last_fault: str | None = None
    benched: Sentence | None = None
    back_in: float | None = None  # seconds
    blocked_by: list[str] = field(default_factory=list)  # hosts for which it is benched

    @property
    def state(self) -> str:
        """The proxy's state in one word."""
        if self.benched:
            return "benched"
        if not self.pages and self.faults:
            return "blocked" if self.blocked_by else "failing"
        return "good" if self.pages else "untried"

    def add(self, deeds: Deeds) -> None:
        """Add what one worker has done."""
        pages = self.pages + deeds.pages
        if deeds.seconds is not None and pages:
            before = (self.seconds or 0.0) * self.pages
            self.seconds = (before + deeds.seconds * deeds.pages) / pages
        self.pages = pages
        for fault, count in deeds.faults.items():
            self.faults[fault] = self.faults.get(fault, 0) + count
        self.last_fault = deeds.last_fault or self.last_fault

    def as_json(self) -> dict[str, Any]:
        """Return the fields that `shoal proxies --json` promises."""
        return {
            "proxy": self.name,
            "state": self.state,
            "pages": self.pages,
            **{str(fault): self.faults.get(fault, 0) for fault in Fault},
            "seconds": round(self.seconds, 3) if self.seconds is not None else None,
            "last_fault": self.last_fault,
            "benched_for": self.benched.fault if self.benched else None,
            "back_in_seconds": round(self.back_in, 1) if self.back_in is not None else None,
            "blocked_by": sorted(self.blocked_by),
        }


async def proxies(queue: Queue, run_id: str) -> list[ProxyStatus]:
    """Return the proxies of a run by name, with what all its workers have done by each."""
    await queue.run(run_id)  # which raises UnknownRun
    found: dict[str, ProxyStatus] = {}
    for note in (await queue.notes(topic("deeds", run_id))).values():
        for name, deeds in read_deeds(note).items():
            found.setdefault(name, ProxyStatus(name)).add(deeds)
    notes = await queue.notes(topic("benched", run_id))
    for unit, seconds in left_of(notes).items():
        name, _, host = unit.partition(" ")
        status = found.setdefault(name, ProxyStatus(name))
        if host:
            status.blocked_by.append(host)
        else:
            status.benched, status.back_in = read_sentence(notes[unit]), seconds
    return [found[name] for name in sorted(found)]


async def reached(rules: ProxyRules) -> tuple[Sequence[Way], list[Way]]:
    """Return the proxies that the rules name, and those at which nobody answers; raises ShoalError."""
    ways = await Source(rules).read()
    gate = asyncio.Semaphore(AT_ONCE)
    answers = await asyncio.gather(*(_answers(way, gate) for way in ways))
    return ways, [way for way, answered in zip(ways, answers, strict=True) if not answered]


async def _answers(way: Way, gate: asyncio.Semaphore) -> bool:
    host, port = endpoint(way)
    with suppress(OSError):
        async with gate, asyncio.timeout(PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
            writer.transport.abort()
            return True
    return False


def bare_names(ways: Iterable[Way]) -> list[str]:
    """Return proxies by their addresses alone."""
    return [way.name.partition("#")[0] for way in ways]


async def look_at(rules: ProxyRules) -> tuple[bool, bool, str]:
    """Say whether proxies can be used, whether all of them can, and what a person should know."""
    try:
        ways, silent = await reached(rules)
    except ShoalError as error:
        return False, False, str(error)
    if not silent:
        return True, True, f"all {len(ways):,} can be reached"
    names = bare_names(silent)
    shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
    return len(silent) < len(ways), False, f"{len(silent):,} of {len(ways):,} cannot be reached: {shown}"
