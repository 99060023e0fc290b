"""The error tree is as drawn, and every error has a message."""

import inspect
import pickle
import traceback

import pytest

from shoal.core import errors
from shoal.core.errors import (
    BreakpointRefused,
    ExportFailed,
    HttpStatus,
    InvalidItem,
    InvalidNote,
    InvalidSetting,
    InvalidTask,
    InvalidUrl,
    MissingDriver,
    NobodyListens,
    NoPlaceLeft,
    NotAnswered,
    NotNow,
    NotRecorded,
    ProxyFailed,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueUnavailable,
    RunConflict,
    SchemaTooNew,
    ScraperBusy,
    ShoalError,
    StepTimeout,
    TaskDied,
    TaskExpired,
    UnknownQueue,
    UnknownRun,
)
from shoal.core.model import MINUTE, Task
from shoal.core.text import shorten

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ShoalError)]

ADDRESS = "postgresql://localhost/shoal"
FACTS = {
    errors.LoginBroken: (3, "KeyError: 'PASSWORD' (shop.py:8 in log_in)"),
    errors.BrowserMissing: ("there is no Chromium here",),
    errors.DutyFailed: ("sending heartbeats", TypeError("no such thing")),
    errors.NoTokenLeft: (3, "Give new ones", MINUTE),
    InvalidUrl: ("example.com", "it has no scheme"),
    InvalidTask: (Task(), "step must not be empty"),
    InvalidItem: (object(), "it is not JSON"),
    InvalidNote: ("proxies", "its key must not be empty"),
    InvalidSetting: ("workers.count", "must be at least 1, got 0"),
    UnknownQueue: ("sqlitee", ["postgresql", "sqlite"]),
    MissingDriver: ("postgresql", "postgres", "pip install 'shoal[postgres]'"),
    UnknownRun: ("20260215_120000_ab12",),
    errors.UnknownLetter: ("20260215_120000_ab12", "0" * 32),
    errors.UnknownTask: ("20260215_120000_ab12", ["0" * 32]),
    errors.UnknownScraper: ("boks", ["books"]),
    errors.PluginFailed: ("exporter", "md", "shoal-extras 1.0", "ImportError: no such module"),
    RunConflict: ("20260215_120000_ab12", "belongs to scraper 'books'"),
    SchemaTooNew: (7, 6),
    QueueUnavailable: (ADDRESS, "connection refused"),
    QueueRefused: (ADDRESS, "wrong password"),
    QueueReadOnly: (ADDRESS, "permission denied"),
    QueueFull: (ADDRESS, "no space left on device"),
    errors.QueueReplaced: (ADDRESS,),
    errors.RunGone: ("20260215_120000_ab12",),
    errors.SettleFailed: (3, "QueueError: XX000"),
    ExportFailed: ("items.csv", "No space left on device", "Make room, and export again"),
    errors.StorageFailed: ("files/a.jpg", "No space left on device", "Free disk space"),
    HttpStatus: (404,),
    ScraperBusy: ("books", "host-1-ab", "20260215_120000_ab12"),
    NoPlaceLeft: ("books", 5),
    StepTimeout: ("listing", 300.0),
    errors.StepEnded: ("listing", SystemExit(4)),
    errors.HookFailed: ("on_start connect", "OSError: no database"),
    NobodyListens: ("books",),
    NotNow: ("every token rests", MINUTE),
    NotAnswered: ("ondemand_books", MINUTE, "the host may not be asked yet"),
    errors.PrivateAddress: ("intra.test", "at 10.0.0.1, a private address"),
    errors.NotAPage: ("application/pdf",),
    NotRecorded: ("https://example.com/", "pages.warc.gz"),
    ProxyFailed: ("http://proxy.test:3128", "connection refused"),
    TaskExpired: ("20260215_120000_ab12", "0" * 32, "expired"),
    BreakpointRefused: ("book", "shoal run --debug books.py --url https://example.com/"),
    TaskDied: ("20260215_120000_ab12", "0" * 32, "https://example.com/", "status 500"),
}


def made(kind):
    """Create an error of a class with the arguments of it or its nearest base class."""
    return kind(*next((FACTS[base] for base in kind.__mro__ if base in FACTS), ()))


def drawn():
    """Read the tree in the module's docstring as pairs of a class and its parent."""
    branch: list[str] = []
    for line in errors.__doc__.splitlines()[2:]:
        name = line.lstrip(" │├└─").split()[0]
        depth = line.index(name) // 4
        yield name, branch[depth - 1] if depth else "Exception"
        branch[depth:] = [name]


def test_the_drawn_tree_is_the_tree_of_classes():
    assert dict(drawn()) == {kind.__name__: kind.__base__.__name__ for kind in CLASSES}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_a_message_of_one_line(kind):
    message = str(made(kind))
    assert message and message == message.strip()
    assert "\n" not in message


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_a_docstring_of_its_own_for_a_message(kind):
    assert "__doc__" in vars(kind) and vars(kind)["__doc__"].endswith(".")


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind in FACTS])
def test_an_error_carries_its_facts(kind):
    carried = vars(made(kind)).values()
    # Only the known names for suggestions are not stored.
    assert all(fact in carried for fact in FACTS[kind] if not isinstance(fact, list))


def test_the_default_message_of_an_error_is_its_docstring():
    assert str(errors.FetchTimeout()) == "The request timed out."
    assert str(errors.FetchTimeout("no answer in 60 s")) == "no answer in 60 s"


def test_a_wrong_name_gets_a_suggestion():
    assert str(UnknownQueue("sqlitee", ["postgresql", "sqlite"])).endswith("Did you mean 'sqlite'?")
    assert str(UnknownQueue("books.db", ["sqlite"])).endswith("For a file, write: sqlite:///books.db")
    assert str(UnknownQueue("mysql", ["postgresql", "sqlite"])).endswith("Known: postgresql, sqlite.")
    assert str(UnknownRun("run_1", ["run_2"])).endswith("Did you mean 'run_2'?")
    assert str(UnknownRun("run_1")).endswith("shoal runs")


def test_a_status_error_carries_status_and_retry_after():
    error = errors.Blocked(429, retry_after=MINUTE)
    assert (error.status, error.retry_after) == (429, MINUTE)
    assert "429" in str(error)


def test_a_long_text_is_shortened_to_the_limit():
    assert shorten("x" * 120) == "x" * 120
    assert shorten("x" * 121) == "x" * 119 + "…"
    assert len(str(InvalidUrl("x" * 100_000, "it is long"))) < 250


def test_the_error_of_a_dead_task_shows_the_traceback_of_its_step_and_can_be_pickled():
    error = TaskDied("r", "l", "https://example.com/", "KeyError: 'a'", '  File "books.py", line 7')
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert one.traceback == '  File "books.py", line 7'
        assert '  File "books.py", line 7' in "".join(traceback.format_exception(one))
    assert not hasattr(TaskDied("r", "l", None, "HttpStatus: 404"), "__notes__")
    assert "Known are a, b. Details: " in str(TaskDied("r", "l", None, "Known are a, b."))


def test_a_reason_that_ends_with_a_stop_gives_one():
    said = str(QueueUnavailable("redis://a:1/0", "Connect call failed: Connection refused."))
    assert "Connection refused. Nothing was lost" in said
