"""Judges a run when it has ended: reads its items once, compares them with earlier runs, stores the record.

Several processes may host workers of one run. A note with a time to live says which of them is judging; the
others wait for its record.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.model import MINUTE, NOTHING, Run, RunState, Stats
from shoal.core.redact import redacted
from shoal.core.run_outcome import EndedRun, Finding, judge
from shoal.core.tasks import first
from shoal.core.text import printable, shorten
from shoal.core.values import counted
from shoal.fleet.dead_workers import has_ended, new_worker_id
from shoal.fleet.quality.differences import differences
from shoal.fleet.quality.profile import FieldProfile, StepProfiler, profile_items
from shoal.fleet.quality.records import (
    QualityRecord,
    RunMark,
    RunProfile,
    baseline_of,
    read_record,
    read_records,
    write_record,
)
from shoal.fleet.quality.rules import broken_rules
from shoal.fleet.run.run_hooks import in_thread
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.hook_records import hook_records
from shoal.queue.contract import Queue, QueueReports
from shoal.queue.run_args import stored_args
from shoal.scrape.hooks import Hook
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.expect import Expectation
from shoal.worker.left_out import TEST, cuts_of, describe_cuts
from shoal.worker.process.procfs import pid_scope

TOPIC = "runs being judged"  # a note for each: who judges it
JUDGING_TTL = 10 * MINUTE
POLL_INTERVAL_SECONDS = 0.2
MAX_LETTERS = 1_000  # dead letters that are read, of which the share of blocked ones is taken
MANY_ITEMS = 200_000  # reading more takes seconds, which the user should know
EXPECT_TIMEOUT = MINUTE  # of a function of the user
MAX_TEXT = 500  # characters of what a function of the user says
MAX_SAID = 10  # findings of one function of the user


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, as functions with `@scraper.expect` get it."""

    id: str
    scraper: str
    state: str
    items: int
    profile: RunProfile  # its statistics
    earlier: Sequence[RunProfile]  # the last good runs, the newest first; none if there are too few
    args: Any

    def field(self, name: str, step: str | None = None) -> FieldProfile:
        """Return the statistics of a field; those of an empty one if no item has it."""
        for one in self.profile.steps.values() if step is None else [self.profile.steps[step]]:
            if name in one.fields:
                return one.fields[name]
        return FieldProfile(items=self.items, filled=0, types={}, distinct=0)


async def judged(
    queue: Queue,
    run_id: str,
    scraper: Scraper,
    say: Callable[[str], None],
    *,
    failure: str = "",
    timed_out: bool = False,
) -> QualityRecord | None:
    """Judge a run, and return its record, made here or elsewhere; None if it has not ended."""
    try:
        return await _Judgement(queue, run_id, scraper, say).conclude(failure, timed_out)
    except UnknownRun:  # deleted meanwhile, which others say
        return None
    except QueueError as error:
        say(f"The items of run {run_id} could not be checked: {error}")
        return None


class _Judgement:
    def __init__(self, queue: Queue, run_id: str, scraper: Scraper, say: Callable[[str], None]) -> None:
        self._queue, self._run_id, self._scraper, self._say = queue, run_id, scraper, say

    async def conclude(self, failure: str, timed_out: bool) -> QualityRecord | None:
        """Return the record of the run as it is now."""
        while True:
            run, stats = await self._queue.run(self._run_id), await self._queue.stats(self._run_id)
            record = await read_record(self._queue, run)
            if record and record.mark == RunMark.of(run, stats):
                return record
            ended = await self._ended(run, stats, failure, timed_out)
            if not stats.tasks or judge(ended) is None:
                return None
            if TEST in await cuts_of(self._queue, run.id):
                return None  # the few items of a test are typical of no other run
            if await self._claim():
                return await self._judge(run, stats, ended)
            await asyncio.sleep(POLL_INTERVAL_SECONDS)

    async def _ended(self, run: Run, stats: Stats, failure: str, timed_out: bool) -> EndedRun:
        hooks = await hook_records(self._queue, run.id)
        failed = [f"the hook {one.hook} failed: {one.error}" for one in hooks.values() if one.has_failed]
        if failure and stats.remaining and await has_workers(self._queue, run.id):
            failure = ""  # others go on
        cuts = await cuts_of(self._queue, run.id) if run.state is RunState.RUNNING else ()
        return EndedRun(
            state=run.state,
            counts=stats,
            reason=run.reason or describe_cuts(cuts),
            lost=stats.lost,
            is_cut=bool(cuts),
            failure=failure or next(iter(failed), ""),
            timed_out=timed_out,
        )

    async def _claim(self) -> bool:
        """Return whether this process judges the run; another one may do so now, until it ends."""
        note = (await self._queue.notes(TOPIC, [self._run_id])).get(self._run_id)
        if note:
            process, _, scope = note.value.decode().partition(" ")
            if not has_ended(process, scope or None, note.age):
                return False
        value = f"{new_worker_id()} {pid_scope() or ''}".encode()
        stamp = note.stamp if note else None
        found = await self._queue.swap_note(TOPIC, self._run_id, value, stamp=stamp, ttl=JUDGING_TTL)
        return found is not None

    async def _judge(self, run: Run, stats: Stats, ended: EndedRun) -> QualityRecord:
        try:
            if stats.items >= MANY_ITEMS:
                self._say(f"Checking {counted(stats.items, 'item')}.")
            expect = self._scraper.settings.expect
            profile, example = await read_profile(self._queue, run, stats, ended.reason, expect.rules)
            records = await read_records(self._queue, run.scraper)
            baseline = baseline_of(records, profile)
            findings = broken_rules(expect.rules, profile, baseline, example)
            if expect.defaults != "off":
                has_volume = self._scraper.settings.dedup is None  # else a night may have nothing new
                changed = differences(
                    profile, baseline, example, strict=expect.defaults == "strict", has_volume=has_volume
                )
                findings += changed
            findings += await self._call_functions(run, profile, baseline)
            verdict = judge(
                msgspec.structs.replace(
                    ended,
                    blocked=profile.blocked,
                    expects_items=self._expects_items(profile, baseline),
                    findings=findings,
                )
            )
            assert verdict is not None  # the run has ended
            record = QualityRecord(
                mark=RunMark.of(run, stats), verdict=verdict, findings=findings, profile=profile
            )
            await write_record(self._queue, run, record)
            return record
        finally:
            await self._queue.write_notes(TOPIC, {run.id: None})

    def _expects_items(self, profile: RunProfile, baseline: Sequence[RunProfile]) -> bool:
        """Return whether a run without items is empty: earlier ones had some, or a step declares them."""
        if self._scraper.settings.dedup or profile.rejected:
            return False
        declared = {name for name, step in self._scraper.steps.items() if step.check}
        return bool(baseline) or any(profile.steps[name].completed for name in declared & set(profile.steps))

    async def _call_functions(
        self, run: Run, profile: RunProfile, baseline: Sequence[RunProfile]
    ) -> list[Finding]:
        """Call the functions with `@scraper.expect`, and return what they say."""
        finished = FinishedRun(
            id=run.id,
            scraper=run.scraper,
            state=run.state,
            items=profile.items,
            profile=profile,
            earlier=baseline,
            args=self._scraper.args,
        )
        return [
            Finding(kind="function", text=text, strict=True)
            for hook in self._scraper.hooks.expect
            for text in (await _call(hook, finished))[:MAX_SAID]
        ]


async def _call(hook: Hook, finished: FinishedRun) -> list[str]:
    """Return what a function of the user says is not as expected."""

    async def call() -> Any:
        return await in_thread(hook).call_async(finished)

    try:
        said = await asyncio.wait_for(call(), EXPECT_TIMEOUT.total_seconds())
    except AssertionError as error:
        said = str(error) or False
    except TimeoutError:
        said = f"{hook} took longer than {EXPECT_TIMEOUT.total_seconds():g} s"
    except Exception as error:
        said = f"{hook} failed: {type(error).__name__}: {error}"
    if said is None or said is True:
        return []
    if said is False:
        return [f"not as {hook} expects"]
    return [
        printable(redacted(shorten(str(one), MAX_TEXT)))
        for one in ([said] if isinstance(said, str) else said)
    ]


async def read_profile(
    queue: Queue, run: Run, stats: Stats, cut: str = "", rules: Sequence[Expectation] = ()
) -> tuple[RunProfile, Callable[[str, str, str], Any]]:
    """Read all items of a run; return its statistics, and a function that finds an example among them."""
    found = await profile_items(queue.items(run.id), rules)
    args = await stored_args(queue, run.id)
    steps = {
        name: found[name].profile(counts) if name in found else StepProfiler(name).profile(counts)
        for name, counts in stats.steps.items()
    }
    profile = RunProfile(
        run_id=run.id,
        started_at=run.started_at,
        args=msgspec.json.encode(dict(args or NOTHING), order="sorted").decode(),
        cut=cut,
        items=stats.items,
        completed=stats.completed,
        dead=stats.dead,
        rejected=stats.rejected,
        blocked=await _count_blocked(queue, run.id, stats.dead),
        steps=steps,
    )

    def example(step: str, field: str, kind: str) -> Any:
        return found[step].example(field, kind) if step in found else None

    return profile, example


async def profile_of(queue: Queue, run: Run) -> RunProfile:
    """Return the statistics of a run: those of its record, or of its items so far."""
    stats, record = await queue.stats(run.id), await read_record(queue, run)
    if record and record.mark == RunMark.of(run, stats):
        return record.profile
    return (await read_profile(queue, run, stats))[0]


async def _count_blocked(queue: QueueReports, run_id: str, dead: int) -> int:
    """Return how many tasks failed because their host rejected the request, as far as the first ones show."""
    if not dead:
        return 0
    errors = [letter.error async for letter in first(queue.dead(run_id), MAX_LETTERS)]
    blocked = sum(error.startswith("Blocked") for error in errors)
    return round(dead * blocked / len(errors)) if errors else 0
