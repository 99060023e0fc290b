"""The settings of a run: as it was made, as given when it is resumed, and as changed while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, InvalidSetting, RunConflict
from shoal.core.model import Run, RunState
from shoal.core.text import printable, shorten
from shoal.core.values import rate_of, spelled
from shoal.fleet.command_hints import command_to_resume, without_secrets
from shoal.fleet.job import Job
from shoal.fleet.run.lifecycle import check_not_cancelled
from shoal.fleet.sources.declared import run_being_seeded
from shoal.fleet.status.at_work import has_workers
from shoal.fleet.status.find import AUTO, NEWEST, is_standing
from shoal.queue.contract import Queue, RunLimits
from shoal.scrape.scope import Scope
from shoal.scrape.settings.proxies import count_exits
from shoal.scrape.settings.readers import StopWhen
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings, find_setting, same_names
from shoal.worker.page_limit import raise_page_limit
from shoal.worker.run_settings import (
    LIVE,
    MAX_TRIES,
    SettingsNote,
    StoredSettings,
    live_part,
    merged,
    read_note,
    replaced,
    storable,
    swap_settings,
)

NO_TASKS_LEFT = "It has no tasks left until you replay or add some."
FOLLOWED = "Its workers follow within two seconds."
MAX_SHOWN = 60  # characters of a value
_RATE = ("rate", "delay", "per_host")
_ATTEMPTS = ("retries", "retry")
AS_IN_SCRAPER = "as in the scraper"
NOW, AT_START, NEVER = "now", "when resumed", "never"


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
    if job.typed.get("again") in (NEWEST, AUTO):  # by now these may mean another run than when it began
        job = job.with_settings({key: value for key, value in job.typed.items() if key != "again"})
    for _ in range(MAX_TRIES):
        note = await read_note(queue, run.id)
        used = _use(job, run, note)
        changed = settings_of(used.job, note.settings if job.joins else None)
        changed = replace(changed, seeds=note.settings.seeds)
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
        case (timedelta() as shortest, timedelta() as longest):
            return f"{spelled(shortest)}-{spelled(longest)}"
        case Scope():
            return list(value.patterns) or value.rule
        case tuple() | frozenset():
            return sorted(value)
        case StopWhen():
            return str(value)
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


class _Use(msgspec.Struct, frozen=True):
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
    if "max_pages" in used.given or not used.job.joins:
        await raise_page_limit(queue, run.id, used.job.scraper.settings.max_pages)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting of a run, and when it may be changed, as `shoal set --json` lists it."""

    setting: str
    value: str
    source: str  # "run": given for the run; "scraper": as in its file
    change: str  # NOW, AT_START or NEVER


async def change_settings(queue: Queue, run_id: str, changes: Mapping[str, Any]) -> Run:
    """Change settings of a run; all its workers follow within two seconds.

    Raises InvalidSetting for one that cannot be changed while the run runs, RunConflict for a cancelled run.
    """
    if not changes:
        raise InvalidInput("No setting to change. Write, for example: rate=2/s")
    for key in changes:
        await _check_live(queue, run_id, key, changes[key])
    if "allow_private" in changes and not changes["allow_private"]:
        raise InvalidSetting("allow_private", f"of run {run_id} can only be extended: name a host to add")
    ScraperSettings.read(**changes)
    kept, withheld = storable(changes)
    if withheld:
        raise InvalidSetting(withheld[0], "contains a secret or a function, which a run does not store")
    for _ in range(MAX_TRIES):
        run, note = await queue.run(run_id), await read_note(queue, run_id)
        check_not_cancelled(run)
        settings = msgspec.structs.replace(note.settings, values=merged(note.settings.values, kept))
        # First the limits, then the note: a worker that sees the note finds the new limits.
        await _change_limits(queue, run, settings, changes)
        if await swap_settings(queue, run_id, settings, note.stamp):
            return await queue.run(run_id)
    raise RunConflict(run_id, "is being changed by many at once. Try again")


async def list_settings(queue: Queue, run_id: str) -> list[SettingRow]:
    """Return the settings of a run: those that may change now, and the others that were given for it."""
    run, stored = await queue.run(run_id), (await read_note(queue, run_id)).settings
    values = dict(stored.values)
    delay = _delay(run, stored)
    found: dict[str, Any] = dict.fromkeys(LIVE, AS_IN_SCRAPER) | stored.defaults
    found |= live_part(values) | {"rate": rate_of(delay), "delay": spelled(delay)}
    found["per_host"] = run.settings.per_host // stored.exits
    rows = [
        SettingRow(key, shown_value(value), "run" if values.keys() & same_names(key) else "scraper", NOW)
        for key, value in found.items()
    ]
    rows += [
        SettingRow(key, shown_value(value), "run", NEVER if SETTINGS[key].fixed else AT_START)
        for key, value in values.items()
        if key not in LIVE
    ]
    rows += [SettingRow(key, "not stored: a secret", "run", AT_START) for key in stored.withheld]
    return rows


async def _check_live(queue: Queue, run_id: str, key: str, value: Any) -> None:
    """Raise InvalidSetting unless a setting exists and can be changed while a run runs."""
    if key in LIVE:
        return
    declared = find_setting(key)
    declared.read(key, value)
    if declared.fixed:
        raise InvalidSetting(key, f"of run {run_id} cannot be changed: it {declared.fixed}")
    run = await queue.run(run_id)
    scraper = (await read_note(queue, run_id)).settings.scraper or run.scraper
    change = quote(without_secrets(f"{key}={shown_value(value)}"))
    raise InvalidSetting(
        key,
        f"is read when a worker starts, so it cannot be changed while the run runs. "
        f"These can: {', '.join(LIVE)}. Stop the workers, then run: "
        f"{shoal_command(f'run {quote(scraper)} --resume {run_id} --set {change}')}",
    )


async def _change_limits(queue: Queue, run: Run, stored: StoredSettings, changes: Mapping[str, Any]) -> None:
    """Give the queue the limits that follow from the settings."""
    known = live_part(stored.values)
    known.pop("retry", None)  # its classes may be the scraper's own
    settings = ScraperSettings.read(**replaced(stored.defaults, known))
    limits = settings.run_settings(exits=stored.exits)
    if any(key in changes for key in _RATE):
        changed: RunLimits = {}
        if "rate" in changes or "delay" in changes:
            changed["host_delay"] = limits.host_delay
        if "per_host" in changes or stored.defaults:
            changed["per_host"] = limits.per_host
        await queue.change_run(run.id, **changed)
    if any(key in changes for key in _ATTEMPTS):
        attempts = ScraperSettings.read(
            **{key: value for key, value in changes.items() if key in _ATTEMPTS}
        ).run_settings()
        # The workers bury a task after its step's own attempts; this is the limit of all steps.
        await queue.change_run(run.id, max_attempts=max(run.settings.max_attempts, attempts.max_attempts))
    if "max_pages" in changes:
        await _change_max_pages(queue, run.id, settings.max_pages)


async def _change_max_pages(queue: Queue, run_id: str, most: int | None) -> None:
    await raise_page_limit(queue, run_id, most)
    run = await queue.run(run_id)  # now, because it may just have ended at the limit of before
    if run.state is RunState.PARTIAL and run.reason.startswith("max_pages"):
        stats = await queue.stats(run.id)
        if most is None or stats.completed + stats.dead < most:
            await queue.resume(run.id)


def _delay(run: Run, stored: StoredSettings) -> timedelta:
    """Return the time between two requests to a host, as it was set."""
    if known := {key: value for key, value in stored.values.items() if key in same_names("delay")}:
        return ScraperSettings.read(**known).delay
    own = stored.defaults.get("delay")
    return run.settings.host_delay * stored.exits if own is None else timedelta(seconds=own)
