"""Opens a run with the settings that it was made with; what is given again is changed for the run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from shoal.core.errors import InvalidSetting, RunConflict, UnknownRun
from shoal.core.errors.commands import shoal_command
from shoal.core.model import Run, RunState
from shoal.core.text import printable, shorten
from shoal.core.values import counted
from shoal.fleet.command_hints import command_to_resume
from shoal.fleet.job import Job
from shoal.fleet.run.args import bind_args, store_args
from shoal.fleet.run.launch import find_unfinished, open_run
from shoal.fleet.run.lifecycle import check_not_cancelled, check_steps
from shoal.fleet.sources.declared import run_being_seeded
from shoal.fleet.sources.recrawl import earlier_run
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import is_standing
from shoal.queue.contract import Queue
from shoal.scrape.settings.proxies import count_exits
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.page_limit import raise_page_limit
from shoal.worker.run_hooks.record import allow_calls
from shoal.worker.run_settings.stored import (
    LIVE,
    MAX_TRIES,
    PATH_SETTINGS,
    SettingsNote,
    StoredSettings,
    merged,
    read_note,
    storable,
    swap_settings,
    with_absolute_paths,
    write_settings,
)

# Why a setting of an existing run cannot change, not even when it is resumed.
FIXED: Mapping[str, str] = {
    "ttl": "counts from the moment a task is queued, and the run has queued tasks",
    "dedup": "applies to a task when it is queued, and the run has queued tasks",
    "again": "says which pages the run began with",
    "recrawl": "decides what is recorded of each page from the first one on",
    "replay": "is the recording that the run was made from",
}
NO_TASKS_LEFT = "It has no tasks left until you replay or add some."
FOLLOWED = "Its workers follow within two seconds."
MAX_SHOWN = 60  # characters of a value


@dataclass(frozen=True, slots=True)
class OpenedRun:
    """A run, and the job with the settings of the run."""

    run: Run
    job: Job
    is_new: bool
    notice: str = ""  # which settings of the run are used, and which were changed; empty if there are none


async def open_job(queue: Queue, job: Job, *, run_id: str | None = None, resume: bool = False) -> OpenedRun:
    """Create a run that remembers the job's settings, or find the one to resume and use the settings it has.

    Its arguments are those given for a new run, or those that it has stored. Raises RunConflict if it cannot
    be resumed, InvalidSetting if a setting or an argument is missing or cannot be changed.
    """
    run = await find_existing(queue, job, run_id, resume=resume)
    if run is not None:
        if resume and not job.joins and job.steps is None:
            await check_steps(queue, run, job.scraper)
        job, notice = await use_settings(queue, job, run)
        job = await bind_args(queue, job, run.id)
        if resume and not job.joins:
            await allow_calls(queue, run.id)
        run = await open_run(queue, job.scraper, run_id=run.id, resume=True)
        return OpenedRun(run, job, False, notice)
    if earlier := await earlier_run(queue, job.scraper, but=run_id):
        # By its id: when the run is resumed, another one is the newest.
        job = job.with_settings({**job.typed, "again": earlier.id})
    job = await bind_args(queue, job, None)  # an earlier run of this id may have left some behind
    run = await open_run(queue, job.scraper, run_id=run_id)
    await store_args(queue, run, job.scraper, is_new=True)
    await write_settings(queue, run.id, settings_of(job))
    return OpenedRun(run, job, True)


async def find_existing(queue: Queue, job: Job, run_id: str | None, *, resume: bool) -> Run | None:
    """Return the run to go on with; None if it is a new one. Raises UnknownRun, RunConflict."""
    if run_id is None and resume:
        run_id = await run_being_seeded(queue, job.scraper.name)
    if run_id is None:
        return await _find_unfinished(queue, job) if resume else None
    try:
        return await queue.run(run_id)
    except UnknownRun:
        if resume:
            raise
    return None


async def _find_unfinished(queue: Queue, job: Job) -> Run:
    """Return the newest unfinished run; if there are only some that ended at a limit, say how to go on."""
    try:
        return await find_unfinished(queue, job.scraper.name)
    except InvalidSetting:
        for run in await queue.runs():
            if run.scraper == job.scraper.name and run.state is RunState.PARTIAL:
                left = counted((await queue.stats(run.id)).remaining, "task")
                again = await command_to_resume(queue, job.queue_url, run)
                raise InvalidSetting(
                    "--resume",
                    f"found no run of {run.scraper!r} that was stopped. Run {run.id} ended, {run.reason}, "
                    f"with {left} left. To go on with it, run: {again}",
                ) from None
        raise


async def use_settings(queue: Queue, job: Job, run: Run) -> tuple[Job, str]:
    """Return a job with the settings of an existing run, and a line about them.

    What the job was given in addition is changed for the run. A job that joins changes what all workers
    follow while they work; the rest of its settings apply to its own workers.
    """
    if run.scraper != job.scraper.name:
        raise RunConflict.of_another(run.id, run.scraper, job.scraper.name)
    check_not_cancelled(run)
    if is_standing(run):
        listen = shoal_command(f"listen {job.reference}")
        raise RunConflict(run.id, f"is for calls, whose tasks only listening workers get. Run: {listen}")
    for _ in range(MAX_TRIES):
        note = await read_note(queue, run.id)
        used = _use(job, run, note)
        changed = settings_of(used.job, note.settings if job.joins else None)
        is_same = not used.given if job.joins else changed == note.settings
        # First the limits: if this is killed in between, the same change is made again next time.
        await _apply_limits(queue, run, used)
        if is_same or await swap_settings(queue, run.id, changed, note.stamp):
            return used.job, used.notice
    raise RunConflict(run.id, "is being changed by many at once. Try again")


def settings_of(job: Job, before: StoredSettings | None = None) -> StoredSettings:
    """Return the settings of a job as a run stores them."""
    values, withheld = storable(job.typed)
    base = (job.base or job.scraper).settings
    return StoredSettings(
        values=values,
        withheld=withheld,
        defaults=(before and before.defaults) or defaults_of(base),
        exits=count_exits(job.scraper.settings.proxies),
        scraper=job.name,
    )


def defaults_of(settings: ScraperSettings) -> dict[str, Any]:
    """Return the settings that can be changed while a run runs, as far as JSON can hold them."""
    return {
        "delay": settings.delay.total_seconds(),
        "per_host": settings.per_host,
        "retries": settings.retries,
        "max_pages": settings.max_pages,
        "max_depth": settings.max_depth,
        "scope": list(settings.scope.patterns) or settings.scope.rule,
        "skip": list(settings.skip.patterns) if settings.skip else None,
        "statuses": sorted(settings.statuses),
    }


async def next_step(queue: Queue, queue_url: str, run: Run, followed: str = FOLLOWED) -> str:
    """Return `followed` if workers are there, else what the run lacks, and the command to type."""
    if await has_workers(queue, run.id):
        return followed
    has_tasks = run.state.has_ended or (await queue.stats(run.id)).remaining
    if not has_tasks and await run_being_seeded(queue, run.scraper) != run.id:
        return NO_TASKS_LEFT
    return f"No worker works on the run. To start one, run: {await command_to_resume(queue, queue_url, run)}"


def shown(values: Mapping[str, Any]) -> str:
    """Return settings in one line, as `--set` takes them."""
    return ", ".join(f"{key}={shown_value(value)}" for key, value in values.items())


def shown_value(value: Any) -> str:
    """Return a setting's value as `--set` takes it, in characters that any terminal can show."""
    if isinstance(value, list) and not value:
        value = None
    elif isinstance(value, list) and len(value) == 1:
        value = value[0]
    text = (
        "none" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
    )
    return shorten(printable(text), MAX_SHOWN)


@dataclass(frozen=True, slots=True)
class _Use:
    job: Job  # with the settings of the run and those given
    given: Mapping[str, Any]  # those that differ from the run's
    notice: str


def _use(job: Job, run: Run, note: SettingsNote) -> _Use:
    values = dict(note.settings.values)
    if job.joins:
        values.pop("mode", None)  # whether others may join is decided where the run was made
    if missing := [key for key in note.settings.withheld if key not in job.typed]:
        raise InvalidSetting(
            missing[0],
            f"of run {run.id} contains a secret, which is not stored. Give it again: --set {missing[0]}=…",
        )
    before = job.with_settings(values)
    after = job.with_settings(merged(values, job.typed))
    changed = [key for key in job.typed if _field(after, key) != _field(before, key)]
    for key in changed:
        if key in FIXED and note.stamp is not None:
            raise InvalidSetting(key, f"of run {run.id} cannot be changed: it {FIXED[key]}. Leave it out")
    own = [key for key in changed if job.joins and key not in LIVE]
    kept = [key for key in changed if key not in own]
    if own:  # stored are only those that all workers follow
        stored = job.with_settings(merged(values, {key: job.typed[key] for key in kept}))
        after = replace(after, typed=stored.typed)
    same = {key: value for key, value in values.items() if key not in changed}
    final = merged(values, job.typed)
    lines = [f"Settings of the run: {shown(same)}."] if same else []
    for words, keys in (("Changed for the run", kept), ("For these workers only", own)):
        lines += [f"{words}: {shown({key: final[key] for key in keys})}."] if keys else []
    return _Use(after, {key: job.typed[key] for key in kept}, " ".join(lines))


def _field(job: Job, key: str) -> Any:
    value = getattr(job.scraper.settings, "delay" if key == "rate" else key)
    # Stored are absolute paths, and the same folder may be typed again as it was.
    return with_absolute_paths(key, value) if key in PATH_SETTINGS else value


async def _apply_limits(queue: Queue, run: Run, used: _Use) -> None:
    """Give the queue the limits that follow from changed settings, and from a changed scraper file."""
    if used.job.joins and not used.given:
        return
    new, old = used.job.scraper.run_settings(), run.settings
    limits = (new.host_delay, new.per_host, new.max_attempts)
    if limits != (old.host_delay, old.per_host, old.max_attempts):
        await queue.change_run(
            run.id, host_delay=new.host_delay, per_host=new.per_host, max_attempts=new.max_attempts
        )
    if "max_pages" in used.given:
        await raise_page_limit(queue, run.id, used.job.scraper.settings.max_pages)
