"""Judges a run when it has ended: reads its items once, compares them with earlier runs, stores the record.

Several processes may host workers of one run. A note with a time to live says which of them is judging; the
others wait for its record.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, QueueError, UnknownRun
from shoal.core.failures import error_with_place
from shoal.core.model import MINUTE, NOTHING, Run, RunState, Stats
from shoal.core.procfs import pid_scope
from shoal.core.redact import redacted
from shoal.core.run_outcome import EndedRun, Finding, judge
from shoal.core.tasks import first, repeat
from shoal.core.text import printable, shorten
from shoal.core.values import counted
from shoal.fleet.dead_workers import has_ended, new_worker_id
from shoal.fleet.quality.differences import differences
from shoal.fleet.quality.profile import FieldProfile, StepProfiler, profile_items
from shoal.fleet.quality.records import (
    Baseline,
    QualityRecord,
    RunMark,
    RunProfile,
    baseline_of,
    read_judged,
    read_record,
    read_records,
    write_record,
)
from shoal.fleet.quality.rules import broken_rules
from shoal.fleet.run.run_hooks import in_thread
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import find_run
from shoal.fleet.status.hook_records import hook_records
from shoal.fleet.status.quality import ComparisonReport, compare
from shoal.queue.contract import Queue, QueueReports
from shoal.queue.run_args import stored_args
from shoal.scrape.hooks import Hook
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.expect import Expectation, spellings
from shoal.worker.background import run_beside
from shoal.worker.left_out import TEST, cuts_of, describe_cuts
from shoal.worker.run_settings import read_note

TOPIC = "runs being judged"  # a note for each: who judges it
JUDGING_TTL = 10 * MINUTE
POLL_INTERVAL_SECONDS = 0.2
MAX_LETTERS = 1_000  # dead letters that are read, of which the share of blocked ones is taken
MANY_ITEMS = 200_000  # reading more takes seconds, which the user should know
EXPECT_TIMEOUT = MINUTE  # of a function of the user
MAX_TEXT = 500  # characters of what a function of the user says
MAX_SAID = 10  # findings of one function of the user
MAX_EXAMPLES = 10  # findings with an item then and now
UNFINISHED = "tasks are left"  # in the statistics of a run that was stopped or cancelled

log = logging.getLogger(__name__)


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
        """Return the statistics of a field, also as STEP.FIELD; of an empty one if none has it."""
        for found, one in self.profile.steps.items():
            for local in spellings(name, found) if step in (None, found) else ():
                if local in one.fields:
                    return one.fields[local]
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
        self._me = f"{new_worker_id()} {pid_scope() or ''}".encode()

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
            if not await self._claim():
                await asyncio.sleep(POLL_INTERVAL_SECONDS)
                continue
            try:
                record = await read_record(self._queue, run)
                if record and record.mark == RunMark.of(run, stats):
                    return record  # another process has judged it since the first look
                async with run_beside("The claim of a judgement", self._renew_claim()):
                    return await self._judge(run, stats, ended)
            finally:
                await self._queue.write_notes(TOPIC, {run.id: None})

    async def _ended(self, run: Run, stats: Stats, failure: str, timed_out: bool) -> EndedRun:
        hooks = await hook_records(self._queue, run.id)
        failed = [f"the hook {one.hook} failed: {one.error}" for one in hooks.values() if one.has_failed]
        if (failure or timed_out) and stats.remaining and await has_workers(self._queue, run.id):
            failure, timed_out = "", False  # others go on
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
        stamp = note.stamp if note else None
        found = await self._queue.swap_note(TOPIC, self._run_id, self._me, stamp=stamp, ttl=JUDGING_TTL)
        return found is not None

    async def _renew_claim(self) -> None:
        async def renew() -> None:
            with suppress(QueueError):  # the next one may do
                await self._queue.write_notes(TOPIC, {self._run_id: self._me}, ttl=JUDGING_TTL)

        await repeat(renew, JUDGING_TTL / 5)

    async def _judge(self, run: Run, stats: Stats, ended: EndedRun) -> QualityRecord:
        if stats.items >= MANY_ITEMS:
            self._say(f"Checking {counted(stats.items, 'item')}.")
        cut = ended.reason or (UNFINISHED if stats.remaining else "")
        try:
            profile, baseline, findings = await self._check(run, stats, cut)
        except QueueError:
            raise
        except Exception as error:  # the run has ended well all the same
            log.exception("The items of run %s could not be checked", run.id)
            text = f"its items could not be checked: {redacted(error_with_place(error))}"
            profile, baseline = profile_without_items(run, stats, cut), Baseline()
            findings = [Finding(kind="error", text=text)]
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
            mark=RunMark.of(run, stats),
            verdict=verdict,
            findings=findings,
            profile=profile,
            compared_with=baseline.run_ids,
        )
        await write_record(self._queue, run, record)
        return record

    async def _check(self, run: Run, stats: Stats, cut: str) -> tuple[RunProfile, Baseline, list[Finding]]:
        """Return the statistics of the run, the runs with which it is compared, and what was found."""
        settings = self._scraper.settings
        expect, has_volume = settings.expect, settings.dedup is None  # with it a night may have nothing new
        profile, example = await read_profile(self._queue, run, stats, cut, expect.rules)
        baseline = baseline_of(await read_records(self._queue, run.scraper), profile)
        findings = broken_rules(expect.rules, profile, baseline, example)
        if expect.defaults == "off":
            baseline = Baseline()
        strict = expect.defaults == "strict"
        findings += differences(profile, baseline, example, strict=strict, has_volume=has_volume)
        findings += await self._call_functions(run, profile, baseline)
        few, more = findings[:MAX_EXAMPLES], findings[MAX_EXAMPLES:]
        return profile, baseline, [*few, *(msgspec.structs.replace(one, then=None, now=None) for one in more)]

    def _expects_items(self, profile: RunProfile, baseline: Baseline) -> bool:
        """Return whether a run without items is empty: earlier ones had some, or a step declares them."""
        if self._scraper.settings.dedup:
            return False
        declared = {name for name, step in self._scraper.steps.items() if step.check}
        return bool(baseline) or any(profile.steps[name].completed for name in declared & set(profile.steps))

    async def _call_functions(self, run: Run, profile: RunProfile, baseline: Baseline) -> list[Finding]:
        """Call the functions with `@scraper.expect`, and return what they say."""
        finished = FinishedRun(
            id=run.id,
            scraper=run.scraper,
            state=run.state,
            items=profile.items,
            profile=profile,
            earlier=baseline.last,
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
        try:
            return await in_thread(hook).call_async(finished)
        except SystemExit as error:  # which would end the event loop
            return f"{hook} failed: {error_with_place(error)}"

    try:
        said = await asyncio.wait_for(call(), EXPECT_TIMEOUT.total_seconds())
    except AssertionError as error:
        said = str(error) or False
    except TimeoutError:
        said = f"{hook} took longer than {EXPECT_TIMEOUT.total_seconds():g} s"
    except Exception as error:
        said = f"{hook} failed: {error_with_place(error)}"
    if said in (None, True, ""):
        return []
    if said is False:
        return [f"not as {hook} expects"]
    texts = [said] if isinstance(said, str) else said
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        kind = type(said).__name__
        texts = [f"{hook} returned a value of type {kind}; return a sentence, a list of them, or nothing"]
    return [printable(redacted(shorten(text, MAX_TEXT))) for text in texts]


async def read_profile(
    queue: Queue, run: Run, stats: Stats, cut: str = "", rules: Sequence[Expectation] = ()
) -> tuple[RunProfile, Callable[[str, str, str], Any]]:
    """Read all items of a run; return its statistics, and a function that finds an example among them."""
    found = await profile_items(queue.items(run.id), rules)
    args = await stored_args(queue, run.id)
    profile = msgspec.structs.replace(
        profile_without_items(run, stats, cut),
        args=msgspec.json.encode(dict(args or NOTHING), order="sorted").decode(),
        seeds=(await read_note(queue, run.id)).settings.seeds,
        blocked=await _count_blocked(queue, run.id, stats.dead),
        steps={
            name: found[name].profile(counts) if name in found else StepProfiler(name).profile(counts)
            for name, counts in stats.steps.items()
        },
    )

    def example(step: str, field: str, kind: str) -> Any:
        return found[step].example(field, kind) if step in found else None

    return profile, example


def profile_without_items(run: Run, stats: Stats, cut: str) -> RunProfile:
    """Return the statistics of a run without those of its fields."""
    return RunProfile(
        run_id=run.id,
        started_at=run.started_at,
        cut=cut,
        items=stats.items,
        completed=stats.completed,
        dead=stats.dead,
        rejected=stats.rejected,
    )


async def profile_of(queue: Queue, run: Run) -> RunProfile:
    """Return the statistics of a run: those of its record, or of its items so far."""
    stats, record = await queue.stats(run.id), await read_record(queue, run)
    if record and record.mark == RunMark.of(run, stats):
        return record.profile
    return (await read_profile(queue, run, stats))[0]


async def compare_runs(queue: Queue, before: str, after: Run) -> ComparisonReport:
    """Return a run beside an earlier one, of which only the statistics may be left; raises UnknownRun."""
    stats, now = await queue.stats(after.id), await profile_of(queue, after)
    judged = await read_judged(queue, after, stats)
    try:
        then = await profile_of(queue, await find_run(queue, before))
    except UnknownRun:
        records = await read_records(queue, after.scraper)
        if not (found := [one.profile for one in records if one.profile.run_id == before]):
            raise
        then = found[0]
    if then.run_id == now.run_id:
        raise InvalidInput(f"Both are run {now.run_id}. Name an earlier one; to list them: shoal runs")
    return compare(then, now, judged)


async def _count_blocked(queue: QueueReports, run_id: str, dead: int) -> int:
    """Return how many tasks failed because their host rejected the request, as far as the first ones show."""
    if not dead:
        return 0
    errors = [letter.error async for letter in first(queue.dead(run_id), MAX_LETTERS)]
    blocked = sum(error.startswith("Blocked") for error in errors)
    return round(dead * blocked / len(errors)) if errors else 0
