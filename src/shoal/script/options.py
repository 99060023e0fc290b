"""The keywords of `run`, `run_sync` and `stream`: read into sources and a job, and named in errors."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.core.text import shorten
from shoal.core.values import hint, read_whole
from shoal.fleet.build_job import make_job, with_declared_hosts
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import LoadedScraper
from shoal.fleet.run.feed import OnInvalid, read_policy
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.sources.names import SOURCE_NAMES, read_sources
from shoal.fleet.sources.seeds import Seeds, Stream
from shoal.fleet.status.find import AUTO, NEWEST
from shoal.queue.address import one_address
from shoal.scrape.load import locate_scraper
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import SETTINGS

MAX_WORKERS = 1_000
EMBEDDED = (".db", ".sqlite", ".sqlite3")  # ends of the names of files, which need no scheme


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a scraper is run from a program."""

    queue: str | None = None  # its address; None: a temporary one
    workers: int | None = None  # processes; None: in this one
    resume: bool | str | None = None
    run_id: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    concurrency: int | None = None
    on_invalid: OnInvalid = "skip"
    progress: bool | None = None
    sources: Seeds = field(default_factory=Seeds)
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, urls: Stream | None, given: Mapping[str, Any]) -> "RunOptions":
        """Read the keywords as they were passed; raises InvalidSetting for one that is not known."""
        own = {name: value for name, value in given.items() if name in OPTIONS}
        others = {name: value for name, value in given.items() if name in SOURCE_NAMES}
        settings = {name: value for name, value in given.items() if name in SETTINGS}
        for name in given:
            if name not in {"tasks", *own, *others, *settings}:
                raise _unknown_keyword(name)
        seeds = read_sources(() if urls is None else urls, given.get("tasks") or (), others)
        options = cls(sources=seeds, settings=settings, **own)
        return options._checked()

    def _checked(self) -> "RunOptions":
        if self.workers is not None:
            read_whole("workers", self.workers, least=1, most=MAX_WORKERS)
        if self.concurrency is not None:
            read_whole("concurrency", self.concurrency, least=1, most=100_000)
        if isinstance(self.on_invalid, str):
            read_policy("on_invalid", self.on_invalid)
        if (self.resume or self.run_id) and self.queue is None:
            key = "resume" if self.resume else "run_id"
            raise InvalidSetting(key, "needs a queue that is kept after the run; add queue='shoal.db'")
        if self.resume and self.run_id:
            raise InvalidSetting("resume", "and run_id both name a run; leave one of them out")
        if not isinstance(self.args or {}, Mapping):
            raise InvalidSetting("args", f"must be a mapping, got {shorten(repr(self.args))}")
        return replace(self, queue=read_queue(self.queue), args=dict(self.args or {}))

    @property
    def resumed_id(self) -> str | None:
        """The id of the run to resume or to create; None if none was named."""
        named = self.resume if isinstance(self.resume, str) and self.resume not in (NEWEST, AUTO) else None
        return named or self.run_id

    def job(self, scraper: Scraper, project: Project, queue_url: str) -> Job:
        """Return the job; raises InvalidInput if worker processes could not load the scraper."""
        reference = find_reference(scraper, needs_file=self.workers is not None)
        loaded = LoadedScraper(scraper, reference, {})
        settings = with_declared_hosts(project, reference, scraper, self.settings)
        return make_job(
            reference,
            loaded,
            queue_url=queue_url,
            settings=settings,
            args=self.args,
            workers=self.workers or 1,
            concurrency=self.concurrency,
        )

    def seeds(self, project: Project, job: Job) -> Seeds:
        """Return the sources that were passed, else those that the project or the scraper declares."""
        return self.sources or declared_seeds(project, job)


OPTIONS = ("queue", "workers", "resume", "run_id", "args", "concurrency", "on_invalid", "progress")


def read_queue(given: Any) -> str | None:
    """Return the address of a queue; a file such as "quotes.db" is an embedded one."""
    if given is None:
        return None
    if isinstance(given, (list, tuple)):
        return one_address(given)
    text = str(given) if isinstance(given, Path) else given
    if not isinstance(text, str) or not text:
        raise InvalidSetting("queue", f"must be a file such as 'quotes.db' or an address, got {given!r}")
    return f"sqlite:///{text}" if "://" not in text and text.endswith(EMBEDDED) else text


def find_reference(scraper: Scraper, *, needs_file: bool) -> str:
    """Return where worker processes load a scraper from; its name if none will and it has no file."""
    try:
        return locate_scraper(scraper)
    except InvalidInput as error:
        if not needs_file:
            return scraper.name
        name = scraper.name if scraper.name.isidentifier() else "scraper"
        raise InvalidInput(
            f"Worker processes import {scraper.name!r} from a file, and {_why(error)}. In a notebook, make "
            f"%%writefile {name}.py the first line of the cell that defines it, then write in another: "
            f"from {name} import {name}; await {name}.run([…], workers=2). "
            "Without workers= it runs in this process, from anywhere"
        ) from error


def _why(error: InvalidInput) -> str:
    if "at the top level" in str(error):
        return "it is not a variable at the top level of one"
    return "it was defined without one"


def _unknown_keyword(name: str) -> InvalidSetting:
    known = [*OPTIONS, "tasks", *SOURCE_NAMES, *SETTINGS]
    near = hint(name, known)
    if not near.startswith("Did you mean"):
        near = (
            f"Allowed are {', '.join([*OPTIONS, 'tasks'])}; the sources {', '.join(sorted(SOURCE_NAMES))}; "
            f"and the settings {', '.join(sorted(SETTINGS))}."
        )
    return InvalidSetting(name, f"is not known here. {near}")


_KEYWORDS = {"--url": "urls", "--run": "run_id"} | {
    f"--{name.replace('_', '-')}": name for name in (*OPTIONS, *SOURCE_NAMES, *SETTINGS)
}
_SET = re.compile(r"--set ([a-z_]+=)")
_OPTION = re.compile(r"--[a-z]+(?:-[a-z]+)*")
_PRIVATE = re.compile(r"; they stay queued\. Resume the run with:((?: --allow-private \S+?(?=\.?(?:\s|$)))+)")
_COMMAND = re.compile(r"(shoal [a-z]+[^.;]*)")  # it is typed as it is


@contextmanager
def named_as_keywords() -> Iterator[None]:
    """Raise errors of the block with the names that a program uses."""
    try:
        yield
    except ShoalError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]), *error.args[1:])
        raise


def in_python(text: str) -> str:
    """Return a message with the names of keywords in place of options, except in a command to type."""
    text = _PRIVATE.sub(lambda found: f". Allow it with: allow_private={found[1].split()[1::2]}", text)
    parts = _COMMAND.split(text)
    return "".join(part if index % 2 else _with_keywords(part) for index, part in enumerate(parts))


def _with_keywords(text: str) -> str:
    return _OPTION.sub(lambda found: _KEYWORDS.get(found[0], found[0]), _SET.sub(r"\1", text))
