"""Opens a run with the settings that it was made with; what is given again is changed for the run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, RunConflict
from shoal.core.model import Run
from shoal.core.text import printable, shorten
from shoal.fleet.command_hints import command_to_resume
from shoal.fleet.job import Job
from shoal.fleet.run.lifecycle import check_not_cancelled
from shoal.fleet.sources.declared import run_being_seeded
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import is_standing
from shoal.queue.contract import Queue
from shoal.scrape.scope import Scope
from shoal.scrape.settings.proxies import count_exits
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings
from shoal.worker.page_limit import raise_page_limit
from shoal.worker.run_settings import (
    LIVE,
    MAX_TRIES,
    SettingsNote,
    StoredSettings,
    merged,
    read_note,
    storable,
    swap_settings,
)

NO_TASKS_LEFT = "It has no tasks left until you replay or add some."
FOLLOWED = "Its workers follow within two seconds."
MAX_SHOWN = 60  # characters of a value


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
    found = {name: _as_json(getattr(settings, name)) for name in LIVE if SETTINGS[name].field == name}
    return {name: value for name, value in found.items() if value is not _NOT_JSON}


_NOT_JSON: Any = object()


def _as_json(value: Any) -> Any:
    match value:
        case timedelta():
            return value.total_seconds()
        case Scope():
            return list(value.patterns) or value.rule
        case tuple() | frozenset():
            return sorted(value)
        case None | int() | str():
            return value
        case _:
            return _NOT_JSON


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
        if (reason := SETTINGS[key].fixed) and note.stamp is not None:
            raise InvalidSetting(key, f"of run {run.id} cannot be changed: it {reason}. Leave it out")
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
    # Stored are absolute paths, and the same folder may be typed again as it was.
    return SETTINGS[key].absolute(getattr(job.scraper.settings, SETTINGS[key].field))


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
