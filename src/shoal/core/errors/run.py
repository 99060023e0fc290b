"""Errors of runs: of calls, steps, seeds, logins, exports and background tasks."""

from datetime import timedelta
from typing import Any

from shoal.core.errors.base import ShoalError
from shoal.core.errors.commands import shoal_command
from shoal.core.text import shorten


class ExportFailed(ShoalError):
    """The results could not be written."""

    def __init__(self, place: str, reason: str, advice: str) -> None:
        self.place, self.reason, self.advice = place, reason, advice
        super().__init__(f"{place} could not be written: {reason}. {advice}")


class ExportUnavailable(ExportFailed):
    """The server of the export target cannot be reached."""


class StorageFailed(ShoalError):
    """A downloaded file could not be stored."""

    def __init__(self, place: str, reason: str, advice: str) -> None:
        self.place, self.reason, self.advice = place, reason, advice
        super().__init__(f"{place} could not be written: {reason}. {advice}")


class CallFailed(ShoalError):
    """The on-demand call failed."""


class NobodyListens(CallFailed):
    """No worker is listening for the scraper."""

    def __init__(self, scraper: str) -> None:
        self.scraper = scraper
        super().__init__(
            f"No worker is listening for scraper {scraper!r} in this queue. "
            f"Start some: {shoal_command('listen FILE[:NAME] --workers 4')}"
        )


class NotAnswered(CallFailed):
    """The call timed out. `busy_for` is the host's remaining delay, if that is the reason."""

    def __init__(
        self, run_id: str, waited: timedelta, reason: str, busy_for: timedelta | None = None
    ) -> None:
        self.run_id, self.waited, self.reason, self.busy_for = run_id, waited, reason, busy_for
        super().__init__(
            f"No result within {waited.total_seconds():g} s: {reason}. "
            f"Wait longer with --timeout, or check: {shoal_command(f'status {run_id}')}"
        )


class DutyFailed(ShoalError):
    """A background task of Shoal failed unexpectedly."""

    def __init__(self, duty: str, error: BaseException) -> None:
        super().__init__(f"{duty} failed: {type(error).__name__}: {shorten(str(error))}")
        self.duty, self.error = duty, error


class TaskDied(ShoalError):
    """An awaited task became a dead letter; `results` has those of the other tasks so far, by id."""

    def __init__(self, run_id: str, letter_id: str, url: str | None, error: str, traceback: str = "") -> None:
        self.run_id, self.letter_id, self.url, self.error = run_id, letter_id, url, error
        self.traceback = traceback  # of the step, empty if the page could not be fetched
        self.results: dict[str, list[Any]] = {}
        what = f"The task for {shorten(url)}" if url else "The task"
        details = shoal_command(f"dead show {run_id} {letter_id}")
        super().__init__(f"{what} failed: {error}. Details: {details}")
        if traceback:
            self.add_note(f"Traceback in the worker:\n{traceback}")


class TaskExpired(ShoalError):
    """An awaited task expired, was dropped or was never done; `results` has those of the others so far."""

    def __init__(self, run_id: str, task_id: str, state: str) -> None:
        self.run_id, self.task_id, self.state = run_id, task_id, state
        self.results: dict[str, list[Any]] = {}
        super().__init__(f"Task {task_id} of run {run_id} was {state} and has no result")


class SeedsFailed(ShoalError):
    """The function that yields the seeds of a scraper failed."""


class StepTimeout(ShoalError):
    """The step timed out."""

    def __init__(self, step: str, seconds: float, *, is_hook: bool = False) -> None:
        self.step, self.seconds = step, seconds
        super().__init__(f"{_named(step, is_hook)} timed out after {seconds:g} s")


class RetryLater(ShoalError):
    """The step wants another attempt: `after` this time, or after the usual delay if it is None."""

    def __init__(self, reason: str | None = None, *, after: Any = None) -> None:
        from shoal.core.values import read_duration  # which needs the errors above

        self.reason = reason or "the step asked for another attempt"
        self.after: timedelta | None = None if after is None else read_duration("after", after)
        super().__init__(self.reason)


class SkipTask(ShoalError):
    """The step has no use for its page: the task is completed without items, and counted by reason."""

    def __init__(self, reason: str = "") -> None:
        self.reason = str(reason) or "no reason given"
        super().__init__(self.reason)


class StepEnded(ShoalError):
    """A step raised an exception that is meant to end a program or a task, not to report an error."""

    def __init__(self, step: str, error: BaseException, *, is_hook: bool = False) -> None:
        name, what = type(error).__name__, _named(step, is_hook)
        is_end = isinstance(error, (SystemExit, GeneratorExit)) or name == "CancelledError"
        text = f"{what} raised {name}. Raise an error of another class, or return"
        super().__init__(text if is_end else f"{what} raised {name}: {_message(error)}".removesuffix(": "))
        self.step, self.error = step, error


class HookFailed(ShoalError):
    """A hook for the start or end of a worker or run failed."""

    def __init__(self, hook: str, reason: str) -> None:
        self.hook, self.reason = hook, reason
        super().__init__(f"The hook {hook} failed: {reason}")


class BreakpointRefused(ShoalError):
    """A step called breakpoint() in a worker, which has no terminal."""

    def __init__(self, step: str, command: str) -> None:
        self.step, self.command = step, command
        super().__init__(f"Step {step!r} called breakpoint(), and a worker has no terminal. Run: {command}")


class LoginFailed(ShoalError):
    """The login failed."""


class LoginBroken(LoginFailed):
    """The first logins of a worker all ended with an error of the scraper's own code; the worker stops."""

    def __init__(self, count: int, reason: str) -> None:
        self.count, self.reason = count, reason
        super().__init__(
            f"The login function failed {count} times and never succeeded: {reason}. "
            "Correct it, or set what it reads; the tasks stay queued"
        )


class BrowserMissing(ShoalError):
    """A browser is needed to fetch pages, but none is installed."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{reason}. Install one: apt-get install chromium-headless-shell; "
            "or set its path: SHOAL_CHROMIUM=/path/to/chrome"
        )


def _named(step: str, is_hook: bool) -> str:
    return f"The hook {step}" if is_hook else f"Step {step!r}"


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "its message cannot be read"
