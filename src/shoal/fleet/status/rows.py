"""Rows of every report, under the field names that commands, API and Python share."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.core.errors import ShoalError
from shoal.core.model import (
    DeadLetter,
    ExpiredTask,
    Run,
    StoredItem,
    StoredReject,
    Task,
    TaskStatus,
)
from shoal.fleet.status.progress import counts_as_json, snapshot_of
from shoal.queue.contract import Queue, StoreSize
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings
from shoal.worker.failures.pages import FailedPage

if TYPE_CHECKING:  # above this package
    from shoal.fleet.project.file import ProjectScraper

MAX_LISTED_PAYLOAD = 2_000  # bytes of a payload that a list shows


async def read_run_row(queue: Queue, run: Run, *, at_work: bool = True) -> dict[str, Any]:
    """Return a run as in `shoal runs --json`; `at_work` is whether a live worker works on it."""
    snapshot = await snapshot_of(queue, run, await queue.stats(run.id), at_work=at_work)
    return {
        "run_id": run.id,
        "scraper": run.scraper,
        "state": snapshot.state,
        "reason": snapshot.reason or None,
        "started_at": run.started_at.isoformat(timespec="seconds"),
        **counts_as_json(snapshot.stats),
    }


def store_row(size: StoreSize) -> dict[str, Any]:
    """Return the size of a store as in `shoal status --json`."""
    return {"bytes": size.bytes, "text": size.text}


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as in `shoal dead list --json`."""
    return {
        "id": letter.id,
        "step": letter.task.step,
        "url": letter.task.url,
        "key": letter.task.key,
        "payload": short_payload(letter.task.payload),
        "priority": letter.task.priority,
        "attempts": letter.attempts,
        "error": letter.error,
        "buried_at": letter.buried_at.isoformat(timespec="seconds"),
    }


def short_payload(payload: Mapping[str, Any]) -> dict[str, Any] | str:
    """Return a payload for a list; a large one as its size in words."""
    size = len(msgspec.json.encode(dict(payload))) if payload else 0
    return dict(payload) if size <= MAX_LISTED_PAYLOAD else f"{size:,} bytes"


def whole_letter_row(letter: DeadLetter, page: "FailedPage | None") -> dict[str, Any]:
    """Return a dead letter as in `shoal dead show --json`: with its payload, page and attempts."""
    history = [
        {
            "attempt": entry.attempt,
            "worker_id": entry.worker_id,
            "ended_at": entry.ended_at.isoformat(),
            "error": entry.error,
            "traceback": entry.traceback or None,
        }
        for entry in letter.history
    ]
    return {
        **letter_row(letter),
        "payload": dict(letter.task.payload),
        "request": letter.task.request.words if letter.task.request else None,
        "traceback": letter.traceback or None,
        "page": page.as_json() if page else None,
        "history": history,
    }


def item_row(item: StoredItem | StoredReject) -> dict[str, Any]:
    """Return an item with where and when it was found."""
    return {
        "id": item.id,
        "url": item.url,
        "step": item.step,
        "task_id": item.task_id,
        "stored_at": item.stored_at.isoformat(timespec="seconds"),
        "data": item.data,
    }


def reject_row(reject: StoredReject) -> dict[str, Any]:
    """Return a reject with where and when it was found, and why it was rejected."""
    return {
        **item_row(reject),
        "reason": reject.reason,
    }


def task_row(status: TaskStatus) -> dict[str, Any]:
    """Return the current state of a task; some stores keep only the id of a completed one."""
    return {
        "task_id": status.id,
        "step": status.step,
        "state": str(status.state),
        "url": status.url,
        "worker_id": status.worker_id,
        "since": status.since.isoformat(timespec="seconds") if status.since else None,
        "attempt": status.attempt,
        "items": status.items,
        **_labels(status.task),
    }


def expired_row(expired: ExpiredTask) -> dict[str, Any]:
    """Return a task whose time to live ran out."""
    return {
        "task_id": expired.id,
        "step": expired.task.step,
        "url": expired.task.url,
        "expired_at": expired.expired_at.isoformat(timespec="seconds"),
        **_labels(expired.task),
    }


def scraper_row(entry: "ProjectScraper", folder: Path) -> dict[str, Any]:
    """Return a scraper of the project as in `shoal scrapers --json`; `says` is why it cannot be loaded."""
    row = dict.fromkeys(("name", "module", "mode", "steps", "says", "scraper", "settings", "seeded", "args"))
    row |= {"name": entry.name, "module": entry.module}
    try:
        scraper = entry.load(folder)
    except ShoalError as error:
        return row | {"says": str(error)}
    return row | {
        "mode": scraper.settings.mode,
        "steps": ", ".join(scraper.steps),
        "scraper": scraper.name,
        "settings": changed_settings(scraper.settings),
        "seeded": bool(entry.seeds) or scraper.has_seeds,
        "args": scraper.declared_args.names,
    }


def changed_settings(settings: "ScraperSettings") -> dict[str, Any]:
    """Return the settings that differ from the defaults, without those that may contain a secret."""
    default = type(settings)()
    found = {name: getattr(settings, name) for name, one in SETTINGS.items() if one.shown}
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in found.items()
        if value != getattr(default, name)
    }


def _labels(task: Task | None) -> Mapping[str, Any]:
    return {
        "key": task.key if task else None,
        "partition": task.partition if task else None,
        "priority": task.priority if task else None,
    }
