"""Every error that Shoal raises, in one tree.

ShoalError
├── InvalidInput              the input cannot be used; nothing was changed
│   ├── InvalidUrl
│   ├── InvalidTask
│   ├── InvalidItem
│   ├── InvalidNote
│   ├── InvalidSetting
│   ├── UnknownSchedule       no schedule has this name
│   ├── UnknownScraper        the project has no such scraper
│   └── PluginFailed          a plugin cannot be imported, or its name is taken
├── QueueError
│   ├── UnknownQueue          the URL scheme belongs to no backend
│   ├── MissingDriver         the backend's extra is not installed
│   ├── UnknownRun
│   ├── RunGone               the run was deleted while it was worked on
│   ├── UnknownLetter         the run has no such dead letter
│   ├── UnknownTask           the run has no such task
│   ├── RunConflict           the run exists, but does not fit the request
│   ├── ScraperBusy           another process is running this scraper
│   │   └── NoPlaceLeft       the cluster has as many workers as it may
│   ├── SchemaTooNew          a newer Shoal has migrated this queue
│   ├── QueueUnavailable      the server cannot be reached; a later retry may help
│   ├── QueueRefused          the server rejects this user or password
│   │   └── HandshakeFailed   no encrypted connection is possible with these certificates
│   ├── QueueReadOnly         the store cannot be written to
│   ├── QueueFull             the store is full
│   ├── QueueReplaced         the file of the queue was removed or replaced while it was open
│   └── SettleFailed          a worker could not store the outcomes of its tasks
├── ExportFailed              results could not be written: a full disk, a table constraint
│   └── ExportUnavailable     the target's server cannot be reached; a later retry may help
├── StorageFailed             a downloaded file could not be stored: a full disk, no permission
├── CallFailed                an on-demand call failed
│   ├── NobodyListens         no worker is listening for the scraper
│   └── NotAnswered           the call timed out
├── DutyFailed                a background task of Shoal failed unexpectedly
├── TaskDied                  an awaited task became a dead letter
├── TaskExpired               an awaited task expired, was dropped, or was never done
├── StepTimeout               a step timed out
├── StepEnded                 a step raised SystemExit or CancelledError
├── RetryLater                a step wants another attempt, after a time
├── SkipTask                  a step has no use for its page
├── HookFailed                a function for the start or end of a worker or run failed
├── BreakpointRefused         a step called breakpoint() in a worker, which has no terminal
├── LoginFailed               the scraper's login failed
│   └── LoginBroken           its code has an error; the worker stops
├── BrowserMissing            a browser is needed, but none is installed
├── NotNow                    a task cannot be tried now; it is postponed and uses no attempt
│   ├── ProxyTrouble          this proxy failed; another one is tried
│   ├── NoProxyLeft           every proxy is benched
│   ├── TokensResting         this API token was rejected, or all have used their quota for now
│   ├── NoTokenLeft           every API token was rejected
│   ├── NoFilesLeft           the worker may open no further file or connection
│   ├── NoTabFree             every tab of the worker's browser is in use
│   ├── BrowserDown           the worker's browser does not start
│   ├── BrowserLost           the worker's browser crashed with several pages open; none is charged
│   ├── NeedsBrowser          the page needs JavaScript, and is fetched again with a browser
│   ├── NoSession             no session is logged in and accepted
│   └── TorDown               the worker's Tor is not running
└── FetchError                the page could not be fetched
    ├── FetchTimeout
    ├── ConnectFailed
    │   ├── DnsFailed
    │   │   └── NoSuchHost    the name does not exist
    │   ├── TlsFailed
    │   └── ProxyFailed       the proxy is down or violates its protocol
    │       └── ProxyRefused  the proxy is up, but rejects the request
    ├── PageCrashed           the page's tab, or the whole browser, crashed
    ├── BrokenAnswer          the response was cut off, or is not HTTP
    ├── HttpStatus
    │   └── Blocked           429, 403, 503 or a block page
    ├── TooLarge
    ├── WrongFileType         the file has a type that the download does not accept
    │   └── NotAPage          the response is not HTML, XML, JSON or text
    ├── RobotsDenied
    ├── RobotsUnavailable     robots.txt cannot be fetched at the moment
    ├── OutOfScope
    │   ├── PrivateAddress    the host is private, and not allowed
    │   └── NotRecorded       the page is missing from the recording
    └── ParseFailed
"""

from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from shoal.core.commands import shoal_command
from shoal.core.text import shorten


class ShoalError(Exception):
    """Something went wrong in Shoal."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or type(self).__name__).splitlines()[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as it is: an `__init__` with required arguments could not be called again.
        return _unpickle, (type(self), self.args, self.__dict__)


def _unpickle(kind: type[ShoalError], args: tuple[Any, ...], facts: dict[str, Any]) -> ShoalError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error


class InvalidInput(ShoalError):
    """The input cannot be used."""


class InvalidUrl(InvalidInput):
    """This URL cannot be fetched."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"Cannot fetch URL {shorten(url)!r}: {reason}")


class InvalidTask(InvalidInput):
    """This task cannot be queued."""

    def __init__(self, task: Any, reason: str) -> None:
        self.task, self.reason = task, reason
        super().__init__(f"Invalid task: {reason}")


class InvalidItem(InvalidInput):
    """This item cannot be stored."""

    def __init__(self, item: Any, reason: str) -> None:
        self.item, self.reason = item, reason
        super().__init__(f"Invalid item: {reason}")


class InvalidNote(InvalidInput):
    """This note cannot be stored."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic, self.reason = topic, reason
        super().__init__(f"Invalid note in {shorten(topic)!r}: {reason}")


class InvalidSetting(InvalidInput):
    """This setting cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(f"{key} {reason}")


class UnknownSchedule(InvalidInput):
    """No schedule has this name."""


class UnknownScraper(InvalidInput):
    """The project has no such scraper."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        close = get_close_matches(name, known, n=1)
        if close:
            hint = f"Did you mean {close[0]!r}?"
        elif known:
            hint = f"It has: {', '.join(known)}."
        else:
            hint = "It names none; add to shoal.toml: [scrapers.NAME] and module = 'FILE.py'"
        super().__init__(f"The project has no scraper {shorten(name)!r}. {hint}")


class PluginFailed(InvalidInput):
    """A plugin cannot be used."""

    def __init__(self, kind: str, name: str, package: str, reason: str) -> None:
        self.kind, self.name, self.package, self.reason = kind, name, package, reason
        super().__init__(
            f"The {kind} {name!r} of the package {package} cannot be used: {reason}. "
            "List all plugins with: shoal plugins"
        )


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


class NoPlaceLeft(ScraperBusy):
    """As many workers as the project file allows in the whole cluster are at work on a scraper."""

    def __init__(self, scraper: str, count: int) -> None:
        super().__init__(scraper, "the cluster")
        self.count = count
        at_work = f"{count:,} {'worker is' if count == 1 else 'workers are'} at work on scraper {scraper!r}"
        self.args = (f"{at_work}, as many as workers.count allows on all machines",)


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


class SettleFailed(QueueError):
    """A worker could not store the outcomes of its tasks."""

    def __init__(self, count: int, reason: str) -> None:
        self.count, self.reason = count, reason
        super().__init__(
            f"The worker could not settle or bury {count:,} of its tasks: {reason}. "
            "They return to the queue. Fix the cause, then run the same command again."
        )


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
        super().__init__(f"{what} failed: {error.removesuffix('.')}. Details: {details}")
        if traceback:
            self.add_note(f"Traceback in the worker:\n{traceback}")


class TaskExpired(ShoalError):
    """An awaited task expired, was dropped or was never done; `results` has those of the others so far."""

    def __init__(self, run_id: str, task_id: str, state: str, why: str = "") -> None:
        self.run_id, self.task_id, self.state = run_id, task_id, state
        self.results: dict[str, list[Any]] = {}
        super().__init__(f"Task {task_id} of run {run_id} was {state} and has no result{why and f': {why}'}")


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


LOGIN_FAILED = "The last login failed"  # in the text of a NoSession


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


class NotNow(ShoalError):
    """The task cannot be tried now, through no fault of its own or its host; retry it `after` this time."""

    def __init__(self, reason: str, after: timedelta) -> None:
        self.reason, self.after = reason, after
        super().__init__(reason)


class ProxyTrouble(NotNow):
    """The proxy failed; the task is not charged an attempt, and another proxy is tried."""


class NoProxyLeft(NotNow):
    """Every proxy is benched, and direct connections are not allowed."""


class TokensResting(NotNow):
    """The API token was rejected and another one is tried, or every one has used its quota for now."""


class NoTokenLeft(NotNow):
    """Every API token was rejected, and none is tried again."""

    def __init__(self, count: int, advice: str, after: timedelta) -> None:
        self.count, self.advice = count, advice
        tokens = "The only token was" if count == 1 else f"All {count} tokens were"
        super().__init__(f"{tokens} rejected by the API. {advice}", after)


class NoFilesLeft(NotNow):
    """The worker, or its machine, may open no further file or connection; it postpones the task."""


class NoTabFree(NotNow):
    """Every tab of the worker's browser is in use, and other tasks are already waiting."""


class BrowserDown(NotNow):
    """The worker's browser does not start."""


class BrowserLost(NotNow):
    """The worker's browser crashed with several pages open; the cause is unknown, so none is charged."""


class NeedsBrowser(NotNow):
    """The page needs JavaScript; it is fetched again with a browser."""


class NoSession(NotNow):
    """No session is available: none is logged in, or the host has rejected all of them."""


class TorDown(NotNow):
    """The worker's Tor is not running, and nothing is sent without it."""

    def __init__(self, why: str, after: timedelta) -> None:
        super().__init__(f"Tor is not running: {why}", after)


class FetchError(ShoalError):
    """The page could not be fetched."""


class FetchTimeout(FetchError):
    """The request timed out."""


class ConnectFailed(FetchError):
    """Could not connect to the host."""


class DnsFailed(ConnectFailed):
    """The host's name could not be resolved."""


class NoSuchHost(DnsFailed):
    """The host's name does not exist."""


class TlsFailed(ConnectFailed):
    """The TLS handshake failed, or the host's certificate is not trusted."""


class ProxyFailed(ConnectFailed):
    """The proxy failed; `is_sure` says that the target host cannot be the cause."""

    def __init__(self, proxy: str, reason: str, *, is_sure: bool = True) -> None:
        self.proxy, self.reason, self.is_sure = proxy, reason, is_sure
        super().__init__(f"Proxy {proxy}: {reason}")


class ProxyRefused(ProxyFailed):
    """The proxy rejected the request."""


class PageCrashed(FetchError):
    """The page's tab, or the whole browser, crashed."""


class BrokenAnswer(FetchError):
    """The response was cut off, or is not HTTP."""


class HttpStatus(FetchError):
    """The host returned an error status."""

    def __init__(
        self, status: int, *, retry_after: timedelta | None = None, message: str | None = None
    ) -> None:
        self.status, self.retry_after = status, retry_after
        super().__init__(message or f"The host returned status {status}")


class Blocked(HttpStatus):
    """The host rejects requests for now: a rate limit or a block page."""


class TooLarge(FetchError):
    """The page is larger than the size limit."""


class WrongFileType(FetchError):
    """The file has a type that the download does not accept."""


class NotAPage(WrongFileType):
    """The response is of a type that steps do not get."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(
            f"The host sent {kind}, and steps get HTML, XML, JSON and text. "
            f"To get it too: --set content={kind}; to store it: page.download"
        )


class RobotsDenied(FetchError):
    """robots.txt does not allow this page."""


class RobotsUnavailable(FetchError):
    """robots.txt cannot be fetched at the moment, so no page of the host may be requested."""


class OutOfScope(FetchError):
    """The page is outside the scraper's scope."""


class PrivateAddress(OutOfScope):
    """The page is at a private host that is not allowed."""

    def __init__(self, host: str, what: str) -> None:
        self.host, self.what = host, what
        super().__init__(
            f"{host} is {what}, which is not fetched unless you allow it: --allow-private {host}"
        )


class NotRecorded(OutOfScope):
    """The page is missing from the recording."""

    def __init__(self, url: str, record: str) -> None:
        self.url, self.record = url, record
        super().__init__(
            f"{shorten(url)} is not in {record}, and a playback makes no network requests. "
            f"Record it with: shoal run … --warc NEW_FILE.warc.gz, without --playback"
        )


class ParseFailed(FetchError):
    """The page could not be parsed."""
