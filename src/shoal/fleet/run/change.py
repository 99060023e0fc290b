"""Changes the settings of a run while it runs, and lists them: the scraper itself is not needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import Any

import msgspec

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, InvalidSetting, RunConflict
from shoal.core.model import Run, RunState
from shoal.core.values import rate_of, spelled
from shoal.fleet.command_hints import without_secrets
from shoal.fleet.run.lifecycle import check_not_cancelled
from shoal.fleet.run.settings import shown_value
from shoal.queue.contract import Queue, RunLimits
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings, find_setting, same_names
from shoal.worker.page_limit import raise_page_limit
from shoal.worker.run_settings import (
    LIVE,
    MAX_TRIES,
    StoredSettings,
    live_part,
    merged,
    read_note,
    replaced,
    storable,
    swap_settings,
)

_RATE = ("rate", "delay", "per_host")
_ATTEMPTS = ("retries", "retry")
AS_IN_SCRAPER = "as in the scraper"
NOW, AT_START, NEVER = "now", "when resumed", "never"


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
        SettingRow(key, shown_value(value), "run" if _is_given(key, values) else "scraper", NOW)
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
        await _change_max_pages(queue, run, settings.max_pages)


async def _change_max_pages(queue: Queue, run: Run, most: int | None) -> None:
    await raise_page_limit(queue, run.id, most)
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


def _is_given(key: str, values: Mapping[str, Any]) -> bool:
    return any(name in values for name in same_names(key))
