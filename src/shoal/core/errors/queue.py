"""Errors of the queue and its store."""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from shoal.core.errors.base import ShoalError
from shoal.core.errors.commands import shoal_command
from shoal.core.text import shorten

if TYPE_CHECKING:
    pass


class QueueError(ShoalError):
    """The queue operation failed."""


class UnknownQueue(QueueError):
    """The URL scheme belongs to no queue backend."""

    def __init__(self, scheme: str, known: list[str]) -> None:
        self.scheme = scheme
        close = get_close_matches(scheme, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(known)}."
        if scheme.endswith((".db", ".sqlite", ".sqlite3")):
            hint = f"For a file, write: sqlite:///{scheme}"
        super().__init__(f"No queue is called {scheme!r}. {hint}")


class MissingDriver(QueueError):
    """The backend's driver is not installed."""

    def __init__(self, backend: str, extra: str, command: str) -> None:
        self.backend, self.extra, self.command = backend, extra, command
        super().__init__(f"The {backend} queue needs its driver. Run: {command}")


class UnknownRun(QueueError):
    """This queue has no such run."""

    def __init__(self, run_id: str, known: list[str] | None = None, *, meant: str = "") -> None:
        self.run_id = run_id
        close = [meant] if meant else get_close_matches(run_id, known or [], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"List the runs with: {shoal_command('runs')}"
        super().__init__(f"No run is called {run_id!r} in this queue. {hint}")


class RunGone(QueueError):
    """The run was there, and was deleted while it was worked on."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"Run {run_id} is no longer in the queue: somebody purged it, or deleted the data of the queue's "
            "store (FLUSHALL, DROP). Its tasks are gone, and so are its items, except those that were "
            "exported. Start a new run"
        )


class UnknownLetter(QueueError):
    """The run has no such dead letter."""

    def __init__(self, run_id: str, letter_id: str) -> None:
        self.run_id, self.letter_id = run_id, letter_id
        super().__init__(
            f"Run {run_id} has no dead letter {letter_id!r}. "
            f"List them with: {shoal_command(f'dead list {run_id}')}"
        )


class UnknownTask(QueueError):
    """The run has no such task; `task_ids` lists every missing one."""

    def __init__(self, run_id: str, task_ids: list[str]) -> None:
        self.run_id, self.task_ids = run_id, task_ids
        more = f" and {len(task_ids) - 1:,} others" if len(task_ids) > 1 else ""
        super().__init__(
            f"Run {run_id} has no task {shorten(task_ids[0])!r}{more}. "
            "Check that the id belongs to this run: see `run.ids`, or `report.ids` of `run.enqueue`"
        )


class RunConflict(QueueError):
    """The run exists, but does not fit the request."""

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id, self.reason = run_id, reason
        super().__init__(f"Run {run_id!r} {reason}")

    @classmethod
    def of_another(cls, run_id: str, owner: str, scraper: str) -> "RunConflict":
        """Return the error for a run that belongs to another scraper."""
        advice = f"Use that scraper, or a run of this one. List runs with: {shoal_command('runs')}"
        return cls(run_id, f"belongs to scraper {owner!r}, not {scraper!r}. {advice}")


class ScraperBusy(QueueError):
    """The scraper is already running, and may run only once at a time."""

    def __init__(self, scraper: str, holder: str, run_id: str | None = None) -> None:
        self.scraper, self.holder, self.run_id = scraper, holder, run_id
        what = "has just started"
        if run_id:
            what = f"is working on run {run_id}. Watch it: {shoal_command(f'watch {run_id}')}"
        super().__init__(f"Scraper {scraper!r} is already running: {holder} {what}")


class SchemaTooNew(QueueError):
    """A newer Shoal has migrated this queue."""

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"The queue has schema version {found}, but this Shoal supports up to {known}. "
            "Upgrade Shoal: pip install --upgrade shoal, or in its checkout git pull"
        )


class QueueUnavailable(QueueError):
    """The queue's server cannot be reached."""

    def __init__(self, address: str, reason: str, advice: str = "") -> None:
        self.address, self.reason, self.advice = address, reason, advice
        self.fact = f"The queue at {address} cannot be reached: {reason.rstrip('.')}."
        usual = "Nothing was lost. Start the server or fix the URL, then run the same command again"
        super().__init__(f"{self.fact} {advice or usual}.")


class QueueRefused(QueueError):
    """The queue's server rejects this user."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} rejected the connection: {reason}. "
            "Check the user, password and database in the queue's URL, and the user's permissions."
        )


class HandshakeFailed(QueueRefused):
    """No encrypted connection to the queue's server is possible with this URL."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        QueueError.__init__(
            self,
            f"The queue at {address} cannot be used over TLS: {reason}. "
            "Check the scheme, the host name and the certificate files in the queue's URL.",
        )


class QueueReadOnly(QueueError):
    """The queue's store cannot be written to."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} cannot be written to: {reason}. "
            "Give this user write permission, or choose another queue with --queue."
        )


class QueueFull(QueueError):
    """The queue's store is full."""

    def __init__(
        self, address: str, reason: str, advice: str = "Free some space there, or purge an old run"
    ) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} is full: {reason}. Stored data is safe. {advice}. "
            "Workers that wait for it then continue by themselves; resume a run that has stopped."
        )


class QueueReplaced(QueueError):
    """The file of the queue was removed or replaced while it was open."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(
            f"The queue at {address} was removed or replaced while it was open: it takes nothing more. "
            "End all programs that use it, put the file in its place, then resume the run."
        )


class ItemsLost(QueueError):
    """The store has lost items that were written to an output already."""

    def __init__(self, item_id: int) -> None:
        self.item_id = item_id
        super().__init__(
            f"The queue no longer has item {item_id}, which was written: it was restored from a backup, or "
            "has lost its last writes. An export of the whole run replaces what was written."
        )


class SettleFailed(QueueError):
    """A worker could not store the outcomes of its tasks."""

    def __init__(self, count: int, reason: str) -> None:
        self.count, self.reason = count, reason
        super().__init__(
            f"The worker could not settle or bury {count:,} of its tasks: {reason}. "
            "They return to the queue. Fix the cause, then run the same command again."
        )
