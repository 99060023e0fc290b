"""Every error that Shoal raises, in one tree.

ShoalError
├── InvalidInput              what was handed in cannot be used; nothing was changed
│   ├── InvalidUrl
│   ├── InvalidTask
│   ├── InvalidItem
│   ├── InvalidNote
│   ├── InvalidSetting
│   └── UnknownScraper        the project names no such scraper
├── QueueError
│   ├── UnknownQueue          the address names no backend
│   ├── MissingDriver         the backend's extra is not installed
│   ├── UnknownRun
│   ├── UnknownLetter         the run has no such dead letter
│   ├── UnknownTask           the run has no such task
│   ├── RunConflict           the run exists, but not as asked for
│   ├── ScraperBusy           another process runs this scraper now
│   ├── SchemaTooNew          a newer Shoal has migrated this queue
│   ├── QueueUnavailable      the server cannot be reached; trying again later may help
│   ├── QueueRefused          the server refuses this user or password
│   ├── QueueReadOnly         the store cannot be written
│   ├── QueueFull             the store has no room left
│   └── SettleFailed          a worker could not store what became of its tasks
├── ExportFailed              the place that results go to failed: a full disk, a rule of a table
│   └── ExportUnavailable     its server cannot be reached; trying again later may help
├── CallFailed                a call on demand came to nothing
│   ├── NobodyListens         no worker listens for the scraper
│   └── NotAnswered           no answer came in time
├── DutyFailed                something that Shoal does in the background failed for an unknown reason
├── TaskDied                  a task that somebody waits for became a dead letter
├── TaskExpired               a task that somebody waits for expired, was dropped, or was left undone
├── StepTimeout               a step did not come to an end in time
├── LoginFailed               a login of the scraper's own did not work
├── BrowserMissing            a browser is to fetch, and there is none
├── NotNow                    a task cannot be tried at the moment; it costs no attempt
│   ├── ProxyTrouble          by this proxy it did not work; another is tried
│   ├── NoProxyLeft           every proxy is benched
│   ├── TokenSetAside         this API token was not accepted; another is tried
│   ├── TokensResting         no API token has a request left at the moment
│   ├── NoTokenLeft           every API token was refused
│   ├── NoTabFree             every tab of the worker's browser is taken
│   ├── BrowserDown           the worker's browser does not start
│   ├── BrowserLost           the worker's browser ended under several pages, and none is charged
│   ├── NeedsBrowser          the page is written by scripts, and is asked for again with a browser
│   ├── NoSession             no visitor is logged in, or well received
│   └── TorDown               the worker's Tor is not up
└── FetchError                a page did not come home
    ├── FetchTimeout
    ├── ConnectFailed
    │   ├── DnsFailed
    │   ├── TlsFailed
    │   └── ProxyFailed       the proxy is dead, or does not speak as it should
    │       └── ProxyRefused  the proxy is there, and will not do it
    ├── PageCrashed           the browser's tab, or the browser, ended under the page
    ├── BrokenAnswer          the answer broke off, or is not HTTP
    ├── HttpStatus
    │   └── Blocked           429, 403, 503 or a block page
    ├── TooLarge
    ├── RobotsDenied
    ├── RobotsUnavailable     robots.txt cannot be had at the moment
    ├── OutOfScope
    │   └── NotRecorded       a page that the record of a replay does not have
    └── ParseFailed
"""

from datetime import timedelta
from difflib import get_close_matches
from typing import Any


class ShoalError(Exception):
    """Something went wrong in Shoal."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or type(self).__name__).splitlines()[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # An error crosses processes as it is, not through an `__init__` that wants its facts again.
        return _revived, (type(self), self.args, self.__dict__)


class InvalidInput(ShoalError):
    """What was handed in cannot be used."""


class InvalidUrl(InvalidInput):
    """This is not a URL that can be fetched."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"Not a URL that can be fetched: {shorten(url)!r}: {reason}")


class InvalidTask(InvalidInput):
    """This task cannot be queued."""

    def __init__(self, task: Any, reason: str) -> None:
        self.task, self.reason = task, reason
        super().__init__(f"Not a task that can be queued: {reason}")


class InvalidItem(InvalidInput):
    """This item cannot be stored."""

    def __init__(self, item: Any, reason: str) -> None:
        self.item, self.reason = item, reason
        super().__init__(f"Not an item that can be stored: {reason}")


class InvalidNote(InvalidInput):
    """This note cannot be kept."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic, self.reason = topic, reason
        super().__init__(f"Not a note that can be kept in {shorten(topic)!r}: {reason}")


class InvalidSetting(InvalidInput):
    """This setting cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(f"{key} {reason}")


class UnknownScraper(InvalidInput):
    """The project names no such scraper."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"It names {', '.join(known) or 'none at all'}."
        super().__init__(f"The project names no scraper {shorten(name)!r}. {hint}")


class QueueError(ShoalError):
    """The queue could not do what was asked."""


class UnknownQueue(QueueError):
    """The address names no queue backend."""

    def __init__(self, scheme: str, known: list[str]) -> None:
        self.scheme = scheme
        close = get_close_matches(scheme, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(known)}."
        super().__init__(f"No queue is called {scheme!r}. {hint}")


class MissingDriver(QueueError):
    """The backend's driver is not installed."""

    def __init__(self, backend: str, extra: str) -> None:
        self.backend, self.extra = backend, extra
        super().__init__(f"The {backend} queue needs its driver. Run: pip install 'shoal[{extra}]'")


class UnknownRun(QueueError):
    """No such run is in this queue."""

    def __init__(self, run_id: str, known: list[str] | None = None) -> None:
        self.run_id = run_id
        close = get_close_matches(run_id, known or [], n=1)
        hint = f"Did you mean {close[0]!r}?" if close else "List the runs with: shoal runs"
        super().__init__(f"No run is called {run_id!r} in this queue. {hint}")


class UnknownLetter(QueueError):
    """The run has no such dead letter."""

    def __init__(self, run_id: str, letter_id: str) -> None:
        self.run_id, self.letter_id = run_id, letter_id
        super().__init__(
            f"Run {run_id} has no dead letter {letter_id!r}. List them with: shoal dead list {run_id}"
        )


class UnknownTask(QueueError):
    """The run has no such task; `task_ids` are all that it does not have."""

    def __init__(self, run_id: str, task_ids: list[str]) -> None:
        self.run_id, self.task_ids = run_id, task_ids
        more = f" and {len(task_ids) - 1:,} others" if len(task_ids) > 1 else ""
        super().__init__(
            f"Run {run_id} has no task {shorten(task_ids[0])!r}{more}. "
            "Check that the id is one of this run, as `run.ids` or `report.ids` of `run.enqueue` has it"
        )


class RunConflict(QueueError):
    """The run exists, but not as asked for."""

    def __init__(self, run_id: str, reason: str) -> None:
        self.run_id, self.reason = run_id, reason
        super().__init__(f"Run {run_id!r} {reason}")

    @classmethod
    def of_another(cls, run_id: str, owner: str, scraper: str) -> "RunConflict":
        """Return the error for a run that belongs to another scraper than the one named."""
        advice = "Name that scraper, or a run of this one. List them with: shoal runs"
        return cls(run_id, f"belongs to scraper {owner!r}, not {scraper!r}. {advice}")


class ScraperBusy(QueueError):
    """The scraper is at work already, and may not run twice at once."""

    def __init__(self, scraper: str, holder: str, run_id: str | None = None) -> None:
        self.scraper, self.holder, self.run_id = scraper, holder, run_id
        what = f"works on run {run_id}. Watch it with: shoal watch {run_id}" if run_id else "has just begun"
        super().__init__(f"Scraper {scraper!r} is already running: {holder} {what}")


class SchemaTooNew(QueueError):
    """A newer Shoal has migrated this queue."""

    def __init__(self, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(
            f"The queue's schema has version {found}, this Shoal knows {known}. "
            "Upgrade it: pip install --upgrade shoal"
        )


class QueueUnavailable(QueueError):
    """The queue's server cannot be reached."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} cannot be reached: {reason}. "
            "Nothing was lost; start the server or mend the address, then run the same command again."
        )


class QueueRefused(QueueError):
    """The queue's server refuses this user."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} refused: {reason}. "
            "Check the user, password, database and rights in the queue's address."
        )


class QueueReadOnly(QueueError):
    """The queue's store cannot be written."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} cannot be written: {reason}. "
            "Give this user the right to write there, or name another place with --queue."
        )


class QueueFull(QueueError):
    """The queue's store has no room left."""

    def __init__(self, address: str, reason: str) -> None:
        self.address, self.reason = address, reason
        super().__init__(
            f"The queue at {address} has no room left: {reason}. "
            "What was stored is safe; free some space, or purge an old run, and go on."
        )


class SettleFailed(QueueError):
    """A worker could not store what became of its tasks."""

    def __init__(self, count: int, reason: str) -> None:
        self.count, self.reason = count, reason
        super().__init__(
            f"The worker could not settle {count:,} of its tasks, nor bury them: {reason}. "
            "They go back to the queue. When the cause is gone, run the same command again."
        )


class ExportFailed(ShoalError):
    """The place that results go to failed."""

    def __init__(self, place: str, reason: str, advice: str) -> None:
        self.place, self.reason, self.advice = place, reason, advice
        super().__init__(f"{place} could not be written: {reason}. {advice}")


class ExportUnavailable(ExportFailed):
    """The server that results go to cannot be reached."""


class FetchError(ShoalError):
    """A page did not come home."""


class FetchTimeout(FetchError):
    """The request did not finish before its deadline."""


class ConnectFailed(FetchError):
    """No connection to the host could be made."""


class DnsFailed(ConnectFailed):
    """The host's name could not be resolved."""


class TlsFailed(ConnectFailed):
    """The host's certificate or its TLS could not be trusted."""


class ProxyFailed(ConnectFailed):
    """The proxy could not be used; `is_sure` says that its target has no part in it."""

    def __init__(self, proxy: str, reason: str, *, is_sure: bool = True) -> None:
        self.proxy, self.reason, self.is_sure = proxy, reason, is_sure
        super().__init__(f"Proxy {proxy}: {reason}")


class ProxyRefused(ProxyFailed):
    """The proxy is there, and refuses to be used."""


class PageCrashed(FetchError):
    """The page crashed in the browser, or the browser with it."""


class BrokenAnswer(FetchError):
    """The host's answer broke off, or is not HTTP."""


class HttpStatus(FetchError):
    """The host answered with an error status."""

    def __init__(
        self, status: int, *, retry_after: timedelta | None = None, message: str | None = None
    ) -> None:
        self.status, self.retry_after = status, retry_after
        super().__init__(message or f"The host answered with status {status}")


class Blocked(HttpStatus):
    """The host asks to be left alone for a while."""


class TooLarge(FetchError):
    """The page is larger than the limit."""


class RobotsDenied(FetchError):
    """robots.txt does not allow this page."""


class RobotsUnavailable(FetchError):
    """robots.txt cannot be had at the moment, so nothing else may be asked."""


class OutOfScope(FetchError):
    """The page lies outside the scraper's scope."""


class NotRecorded(OutOfScope):
    """The page is not in the record that is replayed."""

    def __init__(self, url: str, record: str) -> None:
        self.url, self.record = url, record
        super().__init__(
            f"{shorten(url)} is not in {record}, and a replay asks nobody. "
            f"Record it: shoal run … --warc with a new file, without --replay"
        )


class ParseFailed(FetchError):
    """The page could not be parsed."""


class CallFailed(ShoalError):
    """A call on demand came to nothing."""


class NobodyListens(CallFailed):
    """No worker listens for the scraper."""

    def __init__(self, scraper: str) -> None:
        self.scraper = scraper
        super().__init__(
            f"No worker listens for scraper {scraper!r} in this queue. "
            "Start some with the same --queue: shoal listen FILE[:NAME] --workers 4"
        )


class NotAnswered(CallFailed):
    """No answer came in time. `busy_for` is how long the host may not be asked, where that is why."""

    def __init__(
        self, run_id: str, waited: timedelta, reason: str, busy_for: timedelta | None = None
    ) -> None:
        self.run_id, self.waited, self.reason, self.busy_for = run_id, waited, reason, busy_for
        super().__init__(
            f"No answer came in {waited.total_seconds():g} s: {reason}. "
            f"Wait longer with --timeout, or look: shoal status {run_id}"
        )


class DutyFailed(ShoalError):
    """Something that Shoal does in the background failed for an unknown reason."""

    def __init__(self, duty: str, error: BaseException) -> None:
        super().__init__(f"{duty} failed: {type(error).__name__}: {shorten(str(error))}")
        self.duty, self.error = duty, error


class TaskDied(ShoalError):
    """A task that is waited for became a dead letter; `results` are those of the others so far, by id."""

    def __init__(self, run_id: str, letter_id: str, url: str | None, error: str) -> None:
        self.run_id, self.letter_id, self.url, self.error = run_id, letter_id, url, error
        self.results: dict[str, list[Any]] = {}
        what = f"The task for {shorten(url)}" if url else "The task"
        super().__init__(f"{what} died: {error}. All about it: shoal dead show {run_id} {letter_id}")


class TaskExpired(ShoalError):
    """A task that is waited for came to no end of its own; `results` are those of the others so far."""

    def __init__(self, run_id: str, task_id: str, state: str) -> None:
        self.run_id, self.task_id, self.state = run_id, task_id, state
        self.results: dict[str, list[Any]] = {}
        super().__init__(f"Task {task_id} of run {run_id} was {state}, and gave nothing")


class StepTimeout(ShoalError):
    """A step did not come to an end in time."""

    def __init__(self, step: str, seconds: float) -> None:
        self.step, self.seconds = step, seconds
        super().__init__(f"Step {step!r} did not come to an end in {seconds:g} s")


class BrowserMissing(ShoalError):
    """A browser is to fetch pages, and there is none."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"{reason}. Install one: apt-get install chromium-headless-shell; "
            "or say where it is: SHOAL_CHROMIUM=/path/to/chrome"
        )


class LoginFailed(ShoalError):
    """The login did not work."""


class NotNow(ShoalError):
    """A task cannot be tried at the moment, for no fault of its own or its host; try it `after` a while."""

    def __init__(self, reason: str, after: timedelta) -> None:
        self.reason, self.after = reason, after
        super().__init__(reason)


class ProxyTrouble(NotNow):
    """By this proxy it did not work, and that is not the task's fault: another is tried."""


class NoProxyLeft(NotNow):
    """Every proxy is benched, and a direct connection is not allowed."""


class TokenSetAside(NotNow):
    """This API token was not accepted, and that is not the task's fault: another is tried."""


class TokensResting(NotNow):
    """No API token has a request left at the moment."""


class NoTokenLeft(NotNow):
    """Every API token was refused, and is not tried again."""

    def __init__(self, count: int, advice: str, after: timedelta) -> None:
        self.count, self.advice = count, advice
        tokens = "The only token was" if count == 1 else f"All {count} tokens were"
        super().__init__(f"{tokens} refused by their host. {advice}", after)


class NoTabFree(NotNow):
    """Every tab of the worker's browser is taken, and others wait already."""


class BrowserDown(NotNow):
    """The worker's browser does not start."""


class BrowserLost(NotNow):
    """The worker's browser ended under several pages: nobody knows whose fault it is, and none is charged."""


class NeedsBrowser(NotNow):
    """The page is written by scripts; it is asked for once more, with a browser."""


class NoSession(NotNow):
    """No visitor can be sent: none is logged in, or all have been turned away."""


class TorDown(NotNow):
    """The worker's Tor is not up, and nothing is asked without it."""

    def __init__(self, why: str, after: timedelta) -> None:
        super().__init__(f"Tor is not up: {why}", after)


def shorten(text: str, most: int = 120) -> str:
    """Return `text`, or its beginning when it is too long for a message."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def printable(text: str) -> str:
    """Return `text` with a replacement sign for whatever could control a terminal or hide in a line."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "\ufffd" for char in text)


def _revived(kind: type[ShoalError], args: tuple[Any, ...], facts: dict[str, Any]) -> ShoalError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error
