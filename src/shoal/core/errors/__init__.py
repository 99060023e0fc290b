"""Every error that Shoal raises, in one tree.

ShoalError
├── InvalidInput              the input cannot be used; nothing was changed
│   ├── InvalidUrl
│   ├── InvalidTask
│   ├── InvalidItem
│   ├── InvalidNote
│   ├── InvalidSetting
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
│   ├── SchemaTooNew          a newer Shoal has migrated this queue
│   ├── QueueUnavailable      the server cannot be reached; a later retry may help
│   ├── QueueRefused          the server rejects this user or password
│   │   └── HandshakeFailed   no encrypted connection is possible with these certificates
│   ├── QueueReadOnly         the store cannot be written to
│   ├── QueueFull             the store is full
│   ├── QueueReplaced         the file of the queue was removed or replaced while it was open
│   ├── ItemsLost             the store has lost items that were written to an output already
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
├── SeedsFailed               the scraper's seeds function failed
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
│   ├── TokenSetAside         this API token was rejected; another one is tried
│   ├── TokensResting         every API token has used its quota for now
│   ├── NoTokenLeft           every API token was rejected
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
    ├── RobotsDenied
    ├── RobotsUnavailable     robots.txt cannot be fetched at the moment
    ├── OutOfScope
    │   ├── PrivateAddress    the host is private, and not allowed
    │   └── NotRecorded       the page is missing from the recording
    └── ParseFailed
"""

from shoal.core.errors.base import ShoalError
from shoal.core.errors.fetch import (
    Blocked,
    BrokenAnswer,
    ConnectFailed,
    DnsFailed,
    FetchError,
    FetchTimeout,
    HttpStatus,
    NoSuchHost,
    NotRecorded,
    OutOfScope,
    PageCrashed,
    ParseFailed,
    PrivateAddress,
    ProxyFailed,
    ProxyRefused,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
    TooLarge,
    WrongFileType,
)
from shoal.core.errors.input import (
    InvalidInput,
    InvalidItem,
    InvalidNote,
    InvalidSetting,
    InvalidTask,
    InvalidUrl,
    PluginFailed,
    UnknownScraper,
)
from shoal.core.errors.not_now import (
    BrowserDown,
    BrowserLost,
    NeedsBrowser,
    NoProxyLeft,
    NoSession,
    NoTabFree,
    NotNow,
    NoTokenLeft,
    ProxyTrouble,
    TokenSetAside,
    TokensResting,
    TorDown,
)
from shoal.core.errors.queue import (
    HandshakeFailed,
    ItemsLost,
    MissingDriver,
    QueueError,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueReplaced,
    QueueUnavailable,
    RunConflict,
    RunGone,
    SchemaTooNew,
    ScraperBusy,
    SettleFailed,
    UnknownLetter,
    UnknownQueue,
    UnknownRun,
    UnknownTask,
)
from shoal.core.errors.run import (
    BreakpointRefused,
    BrowserMissing,
    CallFailed,
    DutyFailed,
    ExportFailed,
    ExportUnavailable,
    HookFailed,
    LoginBroken,
    LoginFailed,
    NobodyListens,
    NotAnswered,
    RetryLater,
    SeedsFailed,
    SkipTask,
    StepEnded,
    StepTimeout,
    StorageFailed,
    TaskDied,
    TaskExpired,
)

__all__ = [
    "Blocked",
    "BreakpointRefused",
    "BrokenAnswer",
    "BrowserDown",
    "BrowserLost",
    "BrowserMissing",
    "CallFailed",
    "ConnectFailed",
    "DnsFailed",
    "DutyFailed",
    "ExportFailed",
    "ExportUnavailable",
    "FetchError",
    "FetchTimeout",
    "HandshakeFailed",
    "HookFailed",
    "HttpStatus",
    "InvalidInput",
    "InvalidItem",
    "InvalidNote",
    "InvalidSetting",
    "InvalidTask",
    "InvalidUrl",
    "ItemsLost",
    "LoginBroken",
    "LoginFailed",
    "MissingDriver",
    "NeedsBrowser",
    "NoProxyLeft",
    "NoSession",
    "NoSuchHost",
    "NoTabFree",
    "NoTokenLeft",
    "NobodyListens",
    "NotAnswered",
    "NotNow",
    "NotRecorded",
    "OutOfScope",
    "PageCrashed",
    "ParseFailed",
    "PluginFailed",
    "PrivateAddress",
    "ProxyFailed",
    "ProxyRefused",
    "ProxyTrouble",
    "QueueError",
    "QueueFull",
    "QueueReadOnly",
    "QueueRefused",
    "QueueReplaced",
    "QueueUnavailable",
    "RetryLater",
    "RobotsDenied",
    "RobotsUnavailable",
    "RunConflict",
    "RunGone",
    "SchemaTooNew",
    "ScraperBusy",
    "SeedsFailed",
    "SettleFailed",
    "ShoalError",
    "SkipTask",
    "StepEnded",
    "StepTimeout",
    "StorageFailed",
    "TaskDied",
    "TaskExpired",
    "TlsFailed",
    "TokenSetAside",
    "TokensResting",
    "TooLarge",
    "TorDown",
    "UnknownLetter",
    "UnknownQueue",
    "UnknownRun",
    "UnknownScraper",
    "UnknownTask",
    "WrongFileType",
]
