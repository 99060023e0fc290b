"""Tells channels what happens: watches runs, hosts and schedules, and sends messages beside the work.

Every process that closes runs or watches them has a `Notifier`; without channels it does nothing. What it
finds goes into the queue first, as incidents, and is sent from there by whichever process comes first. So a
receiver that is slow or away holds up nothing, and a process that dies loses no message.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Self

from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import LOGIN_FAILED, QueueError, UnknownRun
from shoal.core.model import ZERO, Run, RunState, Stats
from shoal.core.notifications import Notification
from shoal.core.redact import redactor
from shoal.core.run_outcome import RunOutcome, Verdict
from shoal.core.tasks import first, repeat, restarted, start_in
from shoal.core.values import counted, spelled
from shoal.fleet.notify.channels import Channel, NotSent, read_channels
from shoal.fleet.notify.incidents import GIVE_UP_AFTER, Incident, Incidents, event_id
from shoal.fleet.project.file import Project
from shoal.fleet.schedule.plan import (
    GRACE,
    NEXT_WAS_DUE,
    WAS_PAUSED,
    Occurrence,
    OccurrenceState,
    ScheduleRecord,
)
from shoal.fleet.schedule.store import Schedules
from shoal.fleet.status.at_work import is_live
from shoal.fleet.status.find import is_standing
from shoal.fleet.status.overview import why_workers_wait
from shoal.fleet.status.progress import snapshot_of
from shoal.queue.contract import Queue

SEND_INTERVAL, WATCH_INTERVAL = timedelta(seconds=2), timedelta(seconds=30)
STALLED_AFTER = timedelta(minutes=15)  # without progress
WAITING_AFTER = timedelta(hours=1)  # the same where all tasks wait, as for an API token
LOGIN_AFTER = timedelta(minutes=2)  # the same where they wait for a login that fails
BLOCKED_FOR = timedelta(minutes=10)  # the pause of a host
FLUSH_TIMEOUT = timedelta(seconds=15)  # for messages that are left when the process ends
RARE = timedelta(hours=1)  # between occurrences: one that is skipped is missed, not one of every 5 minutes
MAX_RUNS, MAX_HOSTS = 50, 500  # that are watched
BAD = {
    RunOutcome.SUSPICIOUS: "suspicious",
    **dict.fromkeys(
        (RunOutcome.FAILED, RunOutcome.BLOCKED, RunOutcome.EMPTY, RunOutcome.TIMED_OUT), "failed"
    ),
}

WARNED = (RunOutcome.COMPLETE, RunOutcome.PARTIAL)  # of which warnings are told

log = logging.getLogger(__name__)


class Notifier:
    """Finds incidents and sends messages while its context is open; at the end it sends what is left."""

    def __init__(self, queue: Queue, project: Project, say: Callable[[str], object] = log.warning) -> None:
        self._queue, self._say = queue, say
        self.channels = read_channels(project, say)
        self._schedules, self._incidents = Schedules(queue, project), Incidents(queue)
        secrets = [secret for channel in self.channels for secret in channel.secrets]
        self._redact = redactor(secrets)
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending: dict[str, asyncio.Task[None]] = {}  # by channel
        self._seen: dict[str, tuple[str, float]] = {}  # of open runs: their progress, and since when
        self._gone = set[str]()  # incidents that the last watch did not see any more
        self._watched_at: datetime | None = None
        self._said = set[str]()

    async def __aenter__(self) -> Self:
        if self.channels:
            self._repeat("Sending messages", self.send_due, SEND_INTERVAL)
            self._repeat("Watching runs", self.watch, WATCH_INTERVAL)
        return self

    def _repeat(self, name: str, duty: Callable[[], Awaitable[object]], interval: timedelta) -> None:
        start_in(self._tasks, restarted(name, lambda: repeat(duty, interval, at_once=True), self._say))

    async def __aexit__(self, *exc: object) -> None:
        with suppress(TimeoutError, QueueError):
            async with asyncio.timeout(FLUSH_TIMEOUT.total_seconds()):
                await self.flush()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def run_ended(
        self, run_id: str, verdict: Verdict, *, scraper: str, schedule: str | None = None
    ) -> None:
        """Tell how a run ended; a good end closes what an earlier one of its schedule or scraper opened."""
        if not self.channels:
            return
        subject = f"schedule {schedule}" if schedule else f"scraper {scraper}"
        event, title = BAD.get(verdict.outcome), f"Run {run_id} of {scraper}: {verdict.outcome.words}"
        more = f"More: {shoal_command(f'status {run_id}')}"
        text, now = "\n".join(filter(None, [verdict.reason, *verdict.warnings])), await self._queue.now()

        try:
            dead = (await self._queue.stats(run_id)).dead
            await self._watch_dead(dead, now, state="once", scraper=scraper, run_id=run_id)
        except UnknownRun:  # it could not begin, or had no task
            if schedule:
                more = f"More: {shoal_command(f'schedule history {schedule}')}"

        def message(name: str, title: str, state: str) -> Notification:
            facts = {"scraper": scraper, "run_id": run_id, "schedule": schedule}
            body = f"{text}\n{more}".lstrip()
            return self._message(name, title, body, now, run_id, state=state, **facts)

        if event:
            await self._open(f"{event} {subject}", message(event, title, "open"))
        else:
            await self._open(f"finished {run_id}", message("finished", title, "once"))
        if verdict.outcome in WARNED and verdict.warnings:
            event = "warning"
            fields = [warning.partition(":")[0] for warning in verdict.warnings]
            warned = message(event, f"{title}, with warnings", "open")
            await self._open(f"{event} {subject}", warned, subjects=fields)
        if verdict.outcome is not RunOutcome.CANCELLED:
            for name in {"warning", *BAD.values()} - {event}:
                # A suspicious run has not failed; one that failed says nothing of its data.
                if event in (None, "warning") or name == "failed":
                    # What a run that was typed by hand has opened is over too.
                    for about in {subject, f"scraper {scraper}"}:
                        await self._close(f"{name} {about}", f"{title}\n{more}")

    async def watch(self) -> None:
        """Look once at the open runs, their hosts, and the schedules."""
        now = await self._queue.now()
        records = await self._schedules.all()
        before, self._seen = self._seen, {}
        runs = [run for run in await self._queue.runs() if not is_standing(run)]
        newest = [run for run in runs if not run.state.has_ended]
        if len(newest) > MAX_RUNS:
            self._say_once(f"Messages are about the newest {MAX_RUNS} open runs only; there are more.")
        watched = {run.id for run in newest[:MAX_RUNS]} | before.keys()
        runs = [run for run in runs if run.id in watched]
        standing = set[str]()
        scheduled = {one.run_id for record in records for one in record.occurrences}
        for run in runs:
            stats = await self._queue.stats(run.id)
            if run.state is RunState.RUNNING and stats.remaining:
                standing |= await self._watch_run(run, stats, before.get(run.id), now)
            elif run.id in before and run.id not in scheduled:  # the scheduler tells of those
                snapshot = await snapshot_of(self._queue, run, stats)
                if not snapshot.judged and run.state is not RunState.CANCELLED:
                    self._seen[run.id] = "ended", time.monotonic()  # look again when its items are judged
                elif verdict := snapshot.verdict:
                    await self.run_ended(run.id, verdict, scraper=run.scraper)
        since, self._watched_at = self._watched_at or now - 2 * GRACE, now
        for record in records:
            standing |= await self._watch_schedule(record, since, now)
        gone = {
            key: incident
            for key, incident in (await self._incidents.all()).items()
            if key not in standing and self._is_over(incident)
        }
        for key in self._gone & gone.keys():  # a host gets one request between two pauses
            await self._close(key)
        self._gone = {*gone} - self._gone

    async def _watch_run(
        self, run: Run, stats: Stats, seen: tuple[str, float] | None, now: datetime
    ) -> set[str]:
        """Open what is wrong with a run; return the keys of what is."""
        found = set[str]()
        facts = {"scraper": run.scraper, "run_id": run.id}
        paused, slowest = 0, run.settings.host_delay
        hosts = [host async for host in first(self._queue.hosts(run.id), MAX_HOSTS)]
        if len(hosts) == MAX_HOSTS:
            self._say_once(f"Messages are about the first {MAX_HOSTS} hosts of run {run.id} only.")
        for host in hosts:
            slowest = max(slowest, host.delay or ZERO)
            paused += host.counts.remaining if host.paused_for else 0
            if (host.paused_for or ZERO) >= BLOCKED_FOR and host.counts.remaining:
                found.add(key := f"blocked {host.host}")
                title = f"Host {host.host} gets no requests for {spelled(host.paused_for or ZERO)}"
                left = counted(host.counts.remaining, "task")
                text = f"It rejected requests, or was paused; {left} of run {run.id} wait."
                await self._open(
                    key, self._message("blocked", title, text, now, key, now, **facts, host=host.host)
                )
        progress, moment = f"{stats.completed} {stats.dead} {stats.expired} {stats.items}", time.monotonic()
        since = seen[1] if seen and seen[0] == progress else moment
        self._seen[run.id] = progress, since
        patience = max(STALLED_AFTER, 2 * slowest)
        is_waiting = stats.remaining <= paused or not stats.pending + stats.leased
        why = await self._why_it_waits(run) if is_waiting else ""
        if is_waiting:
            patience = LOGIN_AFTER if LOGIN_FAILED in why else max(patience, WAITING_AFTER)
        if moment - since > patience.total_seconds() and not (is_waiting and found):
            found.add(key := f"stalled {run.id}")
            title = f"Run {run.id} of {run.scraper} has stalled"
            left = counted(stats.remaining, "task")
            reason = f" {why}." if why else ""
            text = f"No task has ended for {spelled(patience)}; {left} left.{reason} More: {_status(run.id)}"
            message = self._message("stalled", title, text, now, run.id, progress, **facts)
            await self._open(key, message, progress=progress)
        return found | await self._watch_dead(stats.dead, now, **facts)

    async def _why_it_waits(self, run: Run) -> str:
        return why_workers_wait(one for one in await self._queue.workers(run.id) if is_live(one))

    async def _watch_dead(
        self, dead: int, now: datetime, *, scraper: str, run_id: str, state: str = "open"
    ) -> set[str]:
        """Open an incident for each limit of a channel that the dead letters of a run exceed."""
        limits = {channel.settings.dead_letters for channel in self.channels}
        keys = {f"dead {run_id} {limit}": limit for limit in limits if dead > limit}
        for key, limit in keys.items():
            title = f"Run {run_id} of {scraper} has {counted(dead, 'dead letter')}"
            text = f"More: {shoal_command(f'dead list {run_id}')}"
            facts = {"scraper": scraper, "run_id": run_id}
            message = self._message("dead", title, text, now, key, state=state, **facts)
            await self._open(key, message, limit=limit)
        return {*keys}

    async def _watch_schedule(self, record: ScheduleRecord, since: datetime, now: datetime) -> set[str]:
        """Open what was missed: by the newest occurrence, an open one, or one that has just ended."""
        key, occurrences = f"missed {record.name}", [one for one in record.occurrences if not one.is_manual]
        newest = occurrences[-1] if occurrences else None
        missed = [(one, what) for one in occurrences if (what := _missed(record, one, now))]
        current = [one for one, _ in missed if one is newest or one.state.is_open]
        for one, what in missed:
            if one not in current and not (one.ended_at and one.ended_at >= since):
                continue
            message = self._message(
                "missed",
                f"Schedule {record.name} missed {one.at:%Y-%m-%d %H:%M} UTC",
                f"{what}\nMore: {shoal_command(f'schedule history {record.name}')}",
                now,
                record.name,
                one.at,
                scraper=str(record.table["scraper"]),
                schedule=record.name,
            )
            await self._open(key, message)
        return {key} if current else set()

    def _is_over(self, incident: Incident) -> bool:
        """Return whether an incident that was not seen may be over: not if it is for others to see."""
        begin = incident.messages[-1]
        seen = self._seen.get(begin.run_id or "")
        has_stalled = begin.event == "stalled" and seen and seen[0] == incident.progress
        is_ours = any(channel.id in incident.deliveries for channel in self.channels)
        return incident.is_open and begin.event in WATCHED and is_ours and not has_stalled

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._say(text)

    def _message(
        self,
        event: str,
        title: str,
        text: str,
        now: datetime,
        *cause: object,
        state: str = "open",
        **facts: str | None,
    ) -> Notification:
        return Notification(
            id=event_id(event, *cause),
            event=event,
            state=state,
            title=self._redact(title),
            text=self._redact(text),
            at=now.replace(microsecond=0),
            **facts,
        )

    async def _open(
        self,
        key: str,
        message: Notification,
        *,
        progress: str = "",
        limit: int | None = None,
        subjects: Sequence[str] = (),
    ) -> None:
        channels = [channel.id for channel in self.channels if channel.wants(message, limit)]
        if channels:
            await self._incidents.open(key, message, channels, progress=progress, subjects=subjects)

    async def _close(self, key: str, text: str = "") -> None:
        """Tell that an incident is over, and by what."""
        at = (await self._queue.now()).replace(microsecond=0)
        await self._incidents.close(
            key, lambda begin: replace(begin, title=f"Over: {begin.title}", text=text, at=at)
        )

    async def send_due(self) -> None:
        """Begin to send what is due, on each channel one after the other; return at once."""
        incidents = await self._incidents.all()
        now = await self._queue.now()
        for channel in (one for one in self.channels if not one.missing):
            due = [key for key, one in incidents.items() if one.pending(channel.id, now)]
            if due and channel.id not in self._sending:
                task = start_in(self._tasks, self._send_all(channel, due))
                self._sending[channel.id] = task
                task.add_done_callback(lambda _, name=channel.id: self._sending.pop(name))  # type: ignore[misc]

    async def flush(self) -> None:
        """Try each message that is due once."""
        if self.channels:
            await self.send_due()
            while self._sending:
                await asyncio.wait(list(self._sending.values()))

    async def _send_all(self, channel: Channel, keys: Sequence[str]) -> None:
        with suppress(QueueError):  # the messages stay, and are due again
            for key in keys:
                while message := await self._incidents.claim(key, channel.id, await self._queue.now()):
                    if not await self._send(key, channel, message):
                        return  # the receiver is away: the next attempt is for all

    async def _send(self, key: str, channel: Channel, message: Notification) -> bool:
        error = ""
        try:
            await channel.send(message)
        except NotSent as failed:
            error = str(failed)
        now = await self._queue.now()
        delivery = await self._incidents.settle(key, channel.id, message, error, now)
        is_last = delivery.next_at is not None and delivery.next_at - message.at > GIVE_UP_AFTER
        if error and (delivery.attempts == 1 or is_last):
            ending = "It is given up" if is_last else "It is tried again"
            self._say(f"A message to {channel.name!r} could not be sent: {error}. {ending}.")
        return not error


WATCHED = ("stalled", "dead", "blocked", "missed")  # incidents that are over when nothing is seen of them


def _status(run_id: str) -> str:
    return shoal_command(f"status {run_id}")


def _missed(record: ScheduleRecord, one: Occurrence, now: datetime) -> str:
    """Return why an occurrence counts as missed; empty if it does not."""
    if one.state is OccurrenceState.MISSED:
        return one.reason
    if one.is_late:
        return "No coordinator was there at its time; one run makes up for what was missed."
    if one.state is OccurrenceState.DUE and now - record.schedule.due_at(record.name, one.at) > 2 * GRACE:
        return "Its run does not begin: it waits for the one before, or cannot start; the log says why."
    is_cancelled = one.state is OccurrenceState.ENDED and one.reason == NEXT_WAS_DUE
    if (one.state is OccurrenceState.SKIPPED and one.reason != WAS_PAUSED) or is_cancelled:
        upcoming = record.schedule.next_after(one.at)
        if upcoming is None or upcoming - one.at >= RARE:
            return f"It was {'cancelled' if is_cancelled else 'skipped'}: {one.reason}."
    return ""
