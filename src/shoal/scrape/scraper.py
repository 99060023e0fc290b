"""A scraper: a name, its settings, and the steps that handle its tasks."""

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, overload

from msgspec import structs

from shoal.core.errors import InvalidInput, InvalidSetting, InvalidTask
from shoal.core.model import INVALID_SEED, NOTHING, SEED_STEP, RunSettings, Task
from shoal.core.retry_policy import RetryPolicy
from shoal.core.text import shorten
from shoal.core.urls import canonical
from shoal.core.values import hint, read_positive_duration
from shoal.scrape.harvest import Harvest
from shoal.scrape.hooks import HookFunction, ScraperHooks
from shoal.scrape.items import validator_for
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.login import Login
from shoal.scrape.page import Named, Page, make_page, step_name
from shoal.scrape.requests import send_without_page
from shoal.scrape.seeds import SeedFunction, check_seed_function, read_start
from shoal.scrape.settings.args import DeclaredArgs, OpenArgs
from shoal.scrape.settings.scraper import ScraperSettings, find_setting
from shoal.scrape.step import Step, check_function, is_async

if TYPE_CHECKING:
    from shoal.fleet.sources.seeds import Stream
    from shoal.script.result import RunResult
    from shoal.script.run import ItemStream

MAX_NAME = 200
HTTP_ONLY = frozenset({None, "http"})  # what `fetchers` has if its steps and sites use no other one

_SCRAPER_DEFAULT: Any = object()


class ScraperRunner(Protocol):
    """Runs scrapers in the program that defines them: what the layers above this one do."""

    async def run(
        self, scraper: "Scraper", urls: "Stream | None", options: Mapping[str, Any]
    ) -> "RunResult": ...
    def run_sync(
        self, scraper: "Scraper", urls: "Stream | None", options: Mapping[str, Any]
    ) -> "RunResult": ...
    def stream(
        self, scraper: "Scraper", urls: "Stream | None", options: Mapping[str, Any]
    ) -> "ItemStream": ...
    def main(self, scraper: "Scraper", arguments: Sequence[str] | None) -> None: ...


class Scraper:
    """The user's code: a name, settings and steps.

    `start` are the URLs and tasks of a run for which no other seeds are named. `args` declares the arguments
    of a run, as names with types or defaults, or as a dataclass; `dict` allows any name.
    """

    runner: ClassVar[ScraperRunner]  # bound by `shoal/__init__.py`

    def __init__(
        self, name: str, *, start: str | Task | Iterable[str | Task] = (), args: Any = None, **settings: Any
    ) -> None:
        self.name = _check_name("The name of a scraper", name)
        self.settings = ScraperSettings.read(**settings)
        self.steps: dict[str, Step] = {}
        self.start = read_start(start)
        self.seed_function: SeedFunction | None = None
        self.declared_args = OpenArgs(name) if args is dict else DeclaredArgs(self.name, args)
        self.args: Any = self.declared_args.defaults()  # of the run; in a worker, known when it starts
        self.login_function: Login | None = None
        self.hooks = ScraperHooks()
        self.resources = SimpleNamespace()  # of a worker; `on_start` hooks fill it
        self.observers: list[Any] = []  # of its workers: `Observer` in worker/telemetry/observer.py
        self._link_filter = LinkFilter(self.settings)

    @overload
    def step(self, function: Callable[..., Any], /) -> Step: ...
    @overload
    def step(
        self,
        /,
        *,
        item: Any = None,
        fetch: str | None = ...,
        name: str | None = None,
        lease: Any = None,
        retries: int | None = None,
        timeout: Any = None,
        delivery: str | None = None,
    ) -> Callable[[Callable[..., Any]], Step]: ...
    def step(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        item: Any = None,
        fetch: str | None = _SCRAPER_DEFAULT,
        name: str | None = None,
        lease: Any = None,
        retries: int | None = None,
        timeout: Any = None,
        delivery: str | None = None,
    ) -> Any:
        """Make a function a step of this scraper; the first one handles seed URLs."""

        def add(function: Callable[..., Any]) -> Step:
            step = Step(
                name=self._unused_name(function, name),
                function=check_function(function),
                item=item,
                fetch=self.settings.fetch if fetch is _SCRAPER_DEFAULT else _read("fetch", fetch),
                as_scraper=fetch is _SCRAPER_DEFAULT,
                lease=None if lease is None else _read("lease", lease),
                retries=None if retries is None else self._read_retries(retries, delivery),
                timeout=None if timeout is None else _read("timeout", timeout),
                delivery=None if delivery is None else _read("delivery", delivery),
                is_async=is_async(function),
                check=validator_for(item),
                link_filter=self._link_filter,
                route=self._resolve_step,
                hooks=self.hooks,
            )
            self.steps[step.name] = step
            return step

        return add if function is None else add(function)

    def login(self, function: Login) -> Login:
        """Register the function that logs in each session before its first use; see `sessions`."""
        if not inspect.iscoroutinefunction(function):
            raise InvalidInput("A login is an async function of one argument: async def login(session)")
        if self.login_function:
            raise InvalidSetting(f"login of {self.name!r}", "is already defined; a scraper has one")
        self.login_function = function
        return function

    def seeds(self, function: SeedFunction) -> SeedFunction:
        """Register the function that yields the URLs and tasks of a run for which no other seeds are named.

        It may be async, and may have one parameter, the arguments of the run.
        """
        if self.seed_function:
            raise InvalidSetting(f"seeds of {self.name!r}", "are already defined; a scraper has one function")
        self.seed_function = check_seed_function(function)
        return function

    def on_request(self, function: HookFunction) -> HookFunction:
        """Register a hook that gets each request before it is sent, and may change or answer it."""
        return self.hooks.add("on_request", function, example="def sign(request)")

    def on_response(self, function: HookFunction) -> HookFunction:
        """Register a hook that gets each response, and its task; it may return another or raise."""
        return self.hooks.add("on_response", function, example="def check(response, task)", max_args=2)

    def on_item(self, function: HookFunction) -> HookFunction:
        """Register a hook that gets each item, and its page; it may change, replace, split or drop it."""
        return self.hooks.add("on_item", function, example="def clean(item, page)", max_args=2)

    def on_error(self, function: HookFunction) -> HookFunction:
        """Register a hook that decides whether a failed task is retried, released or buried."""
        return self.hooks.add("on_error", function, example="def decide(failed)")

    def on_start(self, function: HookFunction) -> HookFunction:
        """Register a hook that opens what the steps of a worker share, before its first task."""
        return self.hooks.add("on_start", function, example="async def connect(resources)")

    def on_finish(self, function: HookFunction) -> HookFunction:
        """Register a hook that closes what the steps of a worker share, after its last task."""
        return self.hooks.add("on_finish", function, example="async def disconnect(resources)")

    def on_run_start(self, function: HookFunction | None = None, /, *, timeout: Any = None) -> Any:
        """Register a hook that is called once in the fleet, before the first task of a run."""
        return self._on_run("on_run_start", function, timeout, "def prepare(run)")

    def on_run_finish(self, function: HookFunction | None = None, /, *, timeout: Any = None) -> Any:
        """Register a hook that is called once in the fleet when a run has ended, with its counts."""
        return self._on_run("on_run_finish", function, timeout, "def report(run)")

    def expect(self, function: HookFunction) -> HookFunction:
        """Register a function that says what is not as expected in the statistics of a run that has ended.

        It returns a sentence, or several, which make the run suspicious; or nothing if all is well.
        """
        return self.hooks.add("expect", function, example="def check_prices(run)")

    def _on_run(self, kind: str, function: HookFunction | None, timeout: Any, example: str) -> Any:
        limit = None if timeout is None else read_positive_duration("timeout", timeout)

        def add(function: HookFunction) -> HookFunction:
            return self.hooks.add(kind, function, example=example, limit=limit)

        return add if function is None else add(function)

    request = staticmethod(send_without_page)

    @property
    def for_run_hooks(self) -> "Scraper":
        """The scraper whose hooks of a run are called, after its resources are opened for them."""
        return self

    @property
    def has_seeds(self) -> bool:
        """Whether the scraper itself has seeds."""
        return bool(self.start or self.seed_function)

    @property
    def first(self) -> Step:
        """The step that handles seeds; raises InvalidInput if the scraper has no step."""
        if not self.steps:
            raise InvalidInput(f"Scraper {self.name!r} has no step. Put @{self.name}.step above a function")
        return next(iter(self.steps.values()))

    @property
    def seed_step(self) -> str:
        """The name of the step of a task that names none."""
        return SEED_STEP if SEED_STEP in self.steps else self.first.name

    def steps_of_tasks(self, steps: Collection[str] | None = None) -> list[str]:
        """Return what the tasks that these steps handle may name; those of the first step may name none."""
        own = [name for name in self.steps if steps is None or name in steps]
        unnamed = {SEED_STEP, INVALID_SEED}.difference(self.steps)
        return [*own, *sorted(unnamed)] if own and own[0] == self.first.name else own

    def handler(self, task: Task) -> Step:
        """Return the step that handles a task: the first step if the task names none; raises InvalidTask."""
        step = self.steps.get(task.step)
        if step is None and task.step == SEED_STEP:
            step = self.first
        if step is None and task.step == INVALID_SEED:
            raise InvalidTask(task, str(task.payload.get("reason")))
        if step is None:
            raise InvalidTask(task, self._unknown_step(task.step))
        if step.fetch is not None and task.url is None:
            handled = f"@{self.name}.step(fetch=None)"
            raise InvalidTask(
                task,
                f"step {step.name!r} fetches pages, but the task has no URL; give it one, or write {handled} "
                "above the step if it needs no page",
            )
        return step

    def run_settings(self) -> RunSettings:
        """Return the settings that the queue needs for a run of this scraper."""
        self.settings.expect.check_steps(self.steps, self._unknown_step)
        max_retries = max((step.retries or 0 for step in self.steps.values()), default=0)
        once = all(map(self.at_most_once, self.steps.values())) if self.steps else None
        settings = self.settings.run_settings(retries=max_retries, once=once)
        return structs.replace(settings, dedup_steps=self._dedup_steps(settings.dedup_steps))

    def _dedup_steps(self, chosen: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the steps whose tasks later runs skip; raises InvalidSetting."""
        for name in chosen:
            if name not in self.steps:
                raise InvalidSetting("dedup.steps", self._unknown_step(name))
        # The placeholder of an invalid seed has the step INVALID_SEED, so it is never deduplicated.
        return (chosen or tuple(self.steps)) if self.settings.dedup else ()

    def max_attempts(self, step: Step) -> int:
        """Return the number of attempts for a task of a step; `retry` may override it per error class."""
        if self.at_most_once(step):
            return 1
        return 1 + (self.settings.retries if step.retries is None else step.retries)

    def retry_policy(self, step: Step) -> RetryPolicy:
        """Return the retry policy of a step."""
        if self.at_most_once(step):
            return RetryPolicy(max_attempts=1)
        return self.settings.retry.policy(self.max_attempts(step))

    def at_most_once(self, step: Step) -> bool:
        """Tell whether a task of a step is claimed at most once, whatever its outcome."""
        return self.settings.at_most_once if step.delivery is None else step.delivery == "at_most_once"

    @property
    def fetchers(self) -> set[str | None]:
        """The names of the fetchers that its steps and sites use."""
        sites = {site.fetch for site in self.settings.sites.rules.values() if site.fetch}
        return {step.fetch for step in self.steps.values()} | sites

    @property
    def has_at_most_once(self) -> bool:
        """Whether tasks of any step are claimed at most once."""
        return any(map(self.at_most_once, self.steps.values()))

    def replace(self, **changes: Any) -> Self:
        """Return a copy of this scraper with some settings changed and the same steps."""
        other = type(self)(self.name)
        other.settings = self.settings.replace(**changes)
        other.settings.retry.check_classes()
        self._check_item_hooks()
        other.login_function = self.login_function
        other.hooks, other.resources, other.observers = self.hooks, self.resources, self.observers
        other.start, other.seed_function = self.start, self.seed_function
        other.declared_args, other.args = self.declared_args, self.args
        other._link_filter = LinkFilter(other.settings)
        for name, step in self.steps.items():
            fetch = other.settings.fetch if step.as_scraper else step.fetch
            other.steps[name] = replace(
                step, fetch=fetch, link_filter=other._link_filter, route=other._resolve_step
            )
        return other

    def group_settings(self, typed: Mapping[str, Any]) -> dict[str, Any]:
        """Return typed settings as `replace` takes them; other kinds of scrapers may have other names."""
        return dict(typed)

    def parts(self) -> Iterable[tuple[str, bool | None, str]]:
        """Return what `shoal check` says of another kind of scraper: a part, whether it is used, and how.

        None stands for a part that does not work.
        """
        return ()

    def change(self, **changes: Any) -> None:
        """Change settings of this scraper in place, while it works; its steps and link counts stay."""
        self.settings = self.settings.replace(**changes)
        self.settings.retry.check_classes()
        self._link_filter.change_settings(self.settings)

    def parse(
        self,
        content: str | bytes | None,
        *,
        url: str = "https://example.com/",
        step: Named | str | None = None,
        status: int = 200,
        headers: Mapping[str, str] = NOTHING,
        payload: Mapping[str, Any] = NOTHING,
        args: Mapping[str, Any] = NOTHING,
    ) -> Harvest:
        """Run one step on the content you pass in, without network access: for tests of your scraper.

        If the content is None, the step gets a task with the payload instead of a page.
        """
        values = self.args if self.args is not None and not args else self.declared_args.read(args)
        name = self.first.name if step is None else step_name(step)
        task = Task(url=None if content is None else canonical(url), step=name, payload=payload)
        subject = (
            task if content is None else make_page(content, task, status, headers, values, self.resources)
        )
        return _run(self.replace().handler(task), subject)

    async def run(self, urls: "Stream | None" = None, **options: Any) -> "RunResult":
        """Run this scraper in this process, and return its items, rejects, dead letters and counts.

        Without URLs it begins with its own seeds. `options` are `queue`, `workers`, `resume`, `run_id`,
        `args`, `concurrency`, `on_invalid`, `progress`, `tasks`, the other sources of `shoal run` such as
        `sitemap`, and settings such as `max_pages`. The queue is temporary unless you name one, which is
        resumed. `workers` is the number of processes that scrape the pages; they import the scraper's file.
        """
        return await self.runner.run(self, urls, options)

    def run_sync(self, urls: "Stream | None" = None, **options: Any) -> "RunResult":
        """Do as `run` does, without an event loop of yours; Ctrl-C works as in `shoal run`."""
        return self.runner.run_sync(self, urls, options)

    def stream(self, urls: "Stream | None" = None, **options: Any) -> "ItemStream":
        """Return the items of a run, to be read with `async for` while it works; options as for `run`."""
        return self.runner.stream(self, urls, options)

    def main(self, arguments: "Sequence[str] | None" = None) -> None:
        """Give this file the `shoal` command: `python quotes.py run --url …`; exits as it does."""
        self.runner.main(self, arguments)

    def __repr__(self) -> str:
        return f"Scraper({self.name!r}, steps={list(self.steps)})"

    def _resolve_step(self, task: Task) -> Task:
        step = self.handler(task)
        return task if step.name == task.step else task.for_step(step.name)

    def _unused_name(self, function: Callable[..., Any], given: str | None) -> str:
        name = _check_name("The name of a step", given or getattr(function, "__name__", None))
        if name in self.steps:
            reason = "is taken by another step; rename the function or write @….step(name='…')"
            raise InvalidSetting(f"step {name!r} of {self.name!r}", reason)
        return name

    def _read_retries(self, value: Any, delivery: str | None) -> int:
        retries: int = _read("retries", value)
        if retries and (delivery or self.settings.delivery) == "at_most_once":
            raise InvalidSetting(
                "retries", "cannot be more than 0 with delivery='at_most_once'; leave it out"
            )
        return retries

    def _check_item_hooks(self) -> None:
        """Raise InvalidSetting for an async hook of items whose step runs in a thread: it could not wait."""
        step = next((step for step in self.steps.values() if not step.is_async), None)
        hook = next((hook for hook in self.hooks.item if is_async(hook.function)), None)
        if step and hook:
            raise InvalidSetting(
                str(hook), f"is async, and step {step.name!r} is not. Define both of them with 'async def'"
            )

    def _unknown_step(self, name: Any) -> str:
        if not isinstance(name, str):
            return f"step must be a step of {self.name!r} or its name, got {shorten(repr(name))}"
        return f"{self.name!r} has no step {shorten(repr(name))}. {hint(name, self.steps)}"


def _read(key: str, value: Any) -> Any:
    """Read a setting of a step as that of a scraper."""
    return find_setting(key).read(key, value)


def _check_name(what: str, name: object) -> str:
    if isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable() and name != "<lambda>":
        return name
    raise InvalidInput(f"{what} must be 1 to {MAX_NAME} printable characters, got {shorten(repr(name))}")


def _run(step: Step, subject: Page | Task) -> Harvest:
    if not step.is_async:
        return step.harvest(subject)
    # In a new thread, which has no event loop: the caller may be running inside one.
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(lambda: asyncio.run(step.harvest_async(subject))).result()
