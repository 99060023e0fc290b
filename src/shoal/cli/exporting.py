"""From the wishes of `shoal export` to its end."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from shoal.cli.console import say
from shoal.core.model import StoredItem
from shoal.core.values import read_since
from shoal.export.address import is_table, read_address, shown_place
from shoal.export.contract import Writer
from shoal.export.follow import follow
from shoal.export.open import open_writer
from shoal.export.report import Report
from shoal.export.stream import export, stored_since
from shoal.fleet.progress import Snapshot
from shoal.queue.contract import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be written where, as it was typed."""

    to: str
    key: list[str]
    step: str | None
    since: str | None
    by_step: bool
    follow: bool
    columns: list[str] | None
    envelope: bool
    raw: bool

    @property
    def place(self) -> str:
        """Where it goes, without a password."""
        return shown_place(self.to)

    @property
    def address_key(self) -> tuple[str, ...]:
        """The key, from the option and from the address."""
        return read_address(self.to, self.key).key if is_table(self.to) else ()

    def open(self) -> Writer:
        """Open what is to be written; raises InvalidSetting."""
        return open_writer(
            self.to,
            key=self.key,
            columns=self.columns,
            by_step=self.by_step,
            envelope=self.envelope,
            raw=self.raw,
            live=self.follow,
            anew=self.follow,
        )


async def carry_out(queue: Queue, run_id: str, wish: Wish) -> Report:
    """Write what is wished for, and return how it went."""
    since = read_since("--since", wish.since, datetime.now(UTC)) if wish.since else None
    await queue.run(run_id)
    writer = wish.open()
    if wish.follow:
        return await _follow(queue, run_id, wish, writer, since)
    return await export(lambda: stored_since(queue.items(run_id, step=wish.step), since), writer)


async def _follow(queue: Queue, run_id: str, wish: Wish, writer: Writer, since: datetime | None) -> Report:
    def behind(after: int) -> AsyncIterator[StoredItem]:
        return queue.items(run_id, step=wish.step, after=after)

    async def ended() -> int | None:
        return await _total(queue, run_id, wish.step)

    say(f"Following run {run_id}; Ctrl-C ends it, and what is written stays.")
    return await follow(behind, writer, ended=ended, since=since, stop=_stop_on_signal())


async def _total(queue: Queue, run_id: str, step: str | None) -> int | None:
    """Return how many items there are once no more will come."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    if not Snapshot(run, stats, 0, 0.0, None).is_over:
        return None
    if step is None:
        return stats.items
    return stats.steps[step].items if step in stats.steps else 0


def _stop_on_signal() -> asyncio.Event:
    """Return what is set by the first Ctrl-C or SIGTERM; the second ends the program at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def obey() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, obey)
    return stop
