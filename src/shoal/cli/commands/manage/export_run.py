"""Carries out `shoal export`."""

import asyncio
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from shoal.cli.console import say
from shoal.core.model import StoredItem
from shoal.core.values import read_since
from shoal.export.contract import Writer
from shoal.export.follow import Report, export, follow, stored_since
from shoal.export.open import Existing, open_writer
from shoal.export.table import row
from shoal.export.tables.address import display_location, read_key
from shoal.fleet.status.progress import Snapshot
from shoal.queue.contract import Queue, QueueReports

SHOWN_COLUMNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """The export options as typed."""

    to: str
    key: list[str]
    step: str | None
    since: str | None
    by_step: bool
    follow: bool
    columns: list[str] | None
    envelope: bool
    raw: bool
    existing: Existing

    @property
    def place(self) -> str:
        """The target, without a password."""
        return display_location(self.to)

    @property
    def address_key(self) -> tuple[str, ...]:
        """The key fields, from the option and from the address."""
        return read_key(self.to, self.key)

    def open(self) -> Writer:
        """Open the writer of the target; raises InvalidSetting."""
        return open_writer(
            self.to,
            key=self.key,
            columns=self.columns,
            by_step=self.by_step,
            envelope=self.envelope,
            raw=self.raw,
            live=self.follow,
            overwrite=self.follow and self.existing != "append",
            existing=self.existing,
        )


async def carry_out(queue: Queue, run_id: str, request: ExportRequest) -> Report:
    """Run the export and return its report."""
    since = read_since("--since", request.since, datetime.now(UTC)) if request.since else None
    await queue.run(run_id)
    writer = request.open()
    if request.follow:
        return await _follow(queue, run_id, request, writer, since)
    wanted, seen = dict.fromkeys(request.columns or ()), set[str]()

    async def watched() -> AsyncIterator[StoredItem]:
        async for item in stored_since(queue.items(run_id, step=request.step), since):
            if wanted.keys() - seen:
                seen.update(row(item, envelope=request.envelope))
            yield item

    report = await export(watched, writer)
    if report.items and (missing := [name for name in wanted if name not in seen]):
        some = ", ".join(sorted(seen)[:SHOWN_COLUMNS])
        say(f"Warning: no item has the column {', '.join(missing)}. The items have: {some}")
    return report


async def _follow(
    queue: Queue, run_id: str, request: ExportRequest, writer: Writer, since: datetime | None
) -> Report:
    def behind(after: int) -> AsyncIterator[StoredItem]:
        return queue.items(run_id, step=request.step, after=after)

    async def ended() -> int | None:
        return await _total(queue, run_id, request.step)

    say(f"Following run {run_id} (Ctrl-C to stop; written items are kept)")
    return await follow(behind, writer, ended=ended, since=since, stop=_stop_on_signal())


async def _total(queue: QueueReports, run_id: str, step: str | None) -> int | None:
    """Return the total number of items once the run is over, None before."""
    run, stats = await queue.run(run_id), await queue.stats(run_id)
    if not Snapshot(run, stats, 0, 0.0, None).is_over:
        return None
    if step is None:
        return stats.items
    return stats.steps[step].items if step in stats.steps else 0


def _stop_on_signal() -> asyncio.Event:
    """Return an event that the first Ctrl-C or SIGTERM sets; the second ends the program at once."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def on_signal() -> None:
        stop.set()
        for number in numbers:
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    return stop
