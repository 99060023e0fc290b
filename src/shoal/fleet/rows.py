"""What is in a queue, row by row, under the names that every report uses: commands, API and pages."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.core.errors import ShoalError
from shoal.core.model import (
    DeadLetter,
    ExpiredTask,
    Run,
    Stats,
    StoredItem,
    StoredReject,
    Task,
    TaskStatus,
)
from shoal.fleet.progress import Snapshot, counts_as_json

if TYPE_CHECKING:
    from shoal.fleet.project import Entry


def run_row(run: Run, stats: Stats) -> dict[str, Any]:
    """Return a run as `shoal runs --json` has it."""
    return {
        "run_id": run.id,
        "scraper": run.scraper,
        "state": Snapshot(run, stats, 0, 0.0, None).state,
        "reason": run.reason or None,
        "started_at": run.started_at.isoformat(timespec="seconds"),
        **counts_as_json(stats),
    }


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as `shoal dead list --json` has it."""
    return {
        "id": letter.id,
        "step": letter.task.step,
        "url": letter.task.url,
        "attempts": letter.attempts,
        "error": letter.error,
        "buried_at": letter.buried_at.isoformat(timespec="seconds"),
    }


def whole_letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as `shoal dead show --json` has it: with its payload and all its attempts."""
    history = [
        {
            "attempt": entry.attempt,
            "worker_id": entry.worker_id,
            "ended_at": entry.ended_at.isoformat(),
            "error": entry.error,
        }
        for entry in letter.history
    ]
    return {
        **letter_row(letter),
        "payload": dict(letter.task.payload),
        "ask": letter.task.ask.words if letter.task.ask else None,
        "history": history,
    }


def item_row(item: StoredItem) -> dict[str, Any]:
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
    """Return a reject with where and when it was found, and why it was refused."""
    return {
        "id": reject.id,
        "url": reject.url,
        "step": reject.step,
        "task_id": reject.task_id,
        "stored_at": reject.stored_at.isoformat(timespec="seconds"),
        "data": reject.data,
        "reason": reject.reason,
    }


def task_row(status: TaskStatus) -> dict[str, Any]:
    """Return a task as it is now; of a completed one some stores keep no more than its id."""
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


def scraper_row(entry: "Entry", folder: Path) -> dict[str, Any]:
    """Return a scraper of the project as `shoal scrapers --json` has it; `says` is why it cannot be used."""
    row = {"name": entry.name, "module": entry.module, "mode": None, "steps": None, "says": None}
    try:
        scraper = entry.load(folder)
        return row | {"mode": scraper.settings.mode, "steps": ", ".join(scraper.steps)}
    except ShoalError as error:
        return row | {"says": str(error)}


def _labels(task: Task | None) -> Mapping[str, Any]:
    return {
        "key": task.key if task else None,
        "partition": task.partition if task else None,
        "priority": task.priority if task else None,
    }
