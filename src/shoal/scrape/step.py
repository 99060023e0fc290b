"""A step of a scraper: calls the user's function with a page or a task and collects its results."""

import ast
import inspect
import linecache
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import AsyncGeneratorType, CodeType, FrameType, GeneratorType, TracebackType
from typing import Any, TypeVar

from msgspec import structs

from shoal.core.errors import InvalidInput, InvalidItem, InvalidUrl
from shoal.core.model import Reject, Task
from shoal.core.text import shorten
from shoal.core.urls import join
from shoal.scrape.files import Download
from shoal.scrape.harvest import Harvest, ResultCollector
from shoal.scrape.hooks import FailedTask, ScraperHooks
from shoal.scrape.items import Check, is_item
from shoal.scrape.links.filter import LinkFilter
from shoal.scrape.page import Page

Subject = Page | Task | FailedTask
E = TypeVar("E", bound=BaseException)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """A named function that handles tasks, with the settings that override its scraper's.

    `lease`, `retries`, `timeout` and `delivery` are None to use the scraper's values. `fetch` is None for a
    step that gets tasks instead of pages; `as_scraper` means that `fetch` is the scraper's value.
    """

    name: str
    function: Callable[..., Any]
    item: type | None = None
    fetch: str | None = "http"
    as_scraper: bool = False
    lease: timedelta | None = None
    retries: int | None = None
    timeout: timedelta | None = None
    delivery: str | None = None
    is_async: bool = False
    check: Check | None = field(default=None, repr=False)
    link_filter: LinkFilter = field(repr=False)
    route: Callable[[Task], Task] = field(repr=False)
    hooks: ScraperHooks = field(repr=False)
    fallbacks: "list[Step]" = field(default_factory=list, repr=False)  # of `on_error`: at most one

    def on_error(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register a function that gets each task of this step which has finally failed.

        What it yields, items and tasks, is stored in place of a dead letter; without any it becomes one.
        """
        if self.fallbacks:
            raise InvalidInput(f"on_error of step {self.name!r} is already defined; a step has one function")
        fallback = replace(
            self, function=check_function(function), fetch=None, is_async=is_async(function), fallbacks=[]
        )
        self.fallbacks.append(fallback)
        return function

    @property
    def filename(self) -> str:
        """The file that defines the function; empty if it has none."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return code.co_filename if code else ""

    @property
    def may_download(self) -> bool:
        """Whether the function itself calls `page.download`; what it calls in other functions is not seen."""
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        return code is not None and _uses_any(code, ("download",))

    def harvest(self, subject: Subject) -> Harvest:
        """Run the function to completion and return its results; an exception discards them all."""
        collector = self._new_collector(subject)
        start_item = self.hooks.start_item if self.hooks.item else None
        result = self.function(subject)
        try:
            for value in self._iterate(result):
                if start_item and type(value) is not Task and (chain := start_item(value, subject)):
                    collector.add_all(self.hooks.finish_item(chain))
                else:
                    collector.add(value)
        except InvalidInput as error:
            raise _at_yield(error, result, self.function) from error.__cause__
        return self._filter_links(collector.harvest, subject)

    async def harvest_async(self, subject: Subject) -> Harvest:
        """Run the async function to completion and return its results; an exception discards them all."""
        collector = self._new_collector(subject)
        start_item = self.hooks.start_item if self.hooks.item else None
        result = self.function(subject)
        # Most functions return a generator, and the checks of abstract classes are slow.
        if type(result) is not AsyncGeneratorType and isinstance(result, Awaitable):
            result = await result
        if isinstance(result, Harvest):
            return result  # of another engine, which has filtered and checked it
        values = result if isinstance(result, AsyncGenerator) else self._iterate_returned(result)
        try:
            async for value in values:
                if start_item and type(value) is not Task and (chain := start_item(value, subject)):
                    collector.add_all(await self.hooks.finish_item_async(chain))
                else:
                    collector.add(value)
        except InvalidInput as error:
            raise _at_yield(error, result, self.function) from error.__cause__
        finally:
            await values.aclose()
        return self._filter_links(collector.harvest, subject)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def _new_collector(self, subject: Subject) -> ResultCollector:
        if isinstance(subject, Page) == (self.fetch is None):
            wanted = "tasks" if self.fetch is None else "pages"
            raise InvalidInput(f"Step {self.name!r} handles {wanted}, got a {type(subject).__name__}")
        return ResultCollector(self.name, self.check, self.route)

    def _iterate(self, result: Any) -> Iterable[Any]:
        """Return a function's result as an iterable of values: a single value becomes a tuple of one."""
        if inspect.isawaitable(result) or isinstance(result, AsyncIterable):
            raise InvalidItem(None, f"step {self.name!r} returned an awaitable; define it with 'async def'")
        if (
            isinstance(result, (Task, Download, Reject, str, bytes))
            or is_item(result)
            or not isinstance(result, Iterable)
        ):
            return (result,)
        return result

    async def _iterate_returned(self, result: Any) -> AsyncGenerator[Any, None]:
        """Yield the values that an async function has returned."""
        for value in self._iterate(result):
            yield value

    def _filter_links(self, harvest: Harvest, subject: Subject) -> Harvest:
        tasks: Iterable[Task] = harvest.follow
        if isinstance(subject, Page) and subject.dropped:
            harvest.dropped.update(subject.dropped)
        if not isinstance(subject, Task):
            tasks = [_resolved(task, subject) for task in tasks]
        parent = subject if isinstance(subject, Task) else subject.task
        harvest.follow = [
            *self.link_filter.filter(tasks, parent, harvest.dropped),
            *harvest.downloads,
        ]
        return harvest


def _resolved(task: Task, subject: Page | FailedTask) -> Task:
    """Return a task that a step has made itself, with a relative URL resolved against its page."""
    if task.depth or not task.url or task.url.startswith(("http://", "https://")):
        return task
    try:
        return structs.replace(task, url=join(subject.base, task.url))
    except InvalidUrl:
        return task  # refused with the reason when it is queued


def check_function(function: Any) -> Callable[..., Any]:
    """Return a function of one argument; raises InvalidInput for anything else."""
    if not callable(function) or isinstance(function, type):
        raise InvalidInput(f"A step must be a function, got {shorten(repr(function))}")
    try:
        inspect.signature(function).bind(None)
    except (TypeError, ValueError) as error:
        name = getattr(function, "__name__", "step")
        raise InvalidInput(f"A step takes one argument, the page or the task: def {name}(page)") from error
    return function  # type: ignore[no-any-return]


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a function is defined with `async def`."""
    forms = (inspect.unwrap(function), getattr(function, "__call__", None))  # noqa: B004
    return any(inspect.iscoroutinefunction(form) or inspect.isasyncgenfunction(form) for form in forms)


def _at_yield(error: E, result: Any, function: Callable[..., Any]) -> E:
    """Return an error that a suspended generator did not raise itself, with the generator's frames.

    If the generator has raised it, it has no frame left, and the error has them already. For a value that the
    function has returned, the message names the function.
    """
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(result, GeneratorType | AsyncGeneratorType) and code is not None:
        error.args = (f"{error} (returned by {Path(code.co_filename).name}:{code.co_firstlineno})",)
    trace: TracebackType | None = None
    for frame in reversed(list(_frames(result))):
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
    return error.with_traceback(trace) if trace else error


def _frames(result: Any) -> Iterator[FrameType]:
    """Yield the frame of a suspended generator, and those of the generators that it delegates to."""
    if isinstance(result, AsyncGeneratorType):
        if result.ag_frame is not None:
            yield result.ag_frame
        return
    while isinstance(result, GeneratorType) and result.gi_frame is not None:
        yield result.gi_frame
        result = result.gi_yieldfrom


def _uses_any(code: CodeType, names: Iterable[str]) -> bool:
    """Tell whether a function, or one inside it, uses one of these names."""
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return any(name in code.co_names for name in names) or any(_uses_any(one, names) for one in inner)


YIELDED = ("follow", "download")  # methods of a page whose result has an effect only if it is yielded
_DISCARDED = (
    "step {step!r} calls {call}(…) without yield ({place}), which does nothing. Write: yield {call}(…)"
)


def discarded_calls(name: str, function: Callable[..., Any]) -> Iterator[str]:
    """Yield a message for each such call in the function; none if its source cannot be read."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None or not _uses_any(code, YIELDED):  # which is cheaper to know than what is in the source
        return
    try:
        page = next(iter(inspect.signature(function).parameters))
        # Not `inspect.getsource`: its tokenizer compiles patterns, in a fortieth of the time of a short run.
        tree = ast.parse("".join(linecache.getlines(code.co_filename, function.__globals__)))
    except (TypeError, ValueError, SyntaxError, StopIteration):
        return
    for node in ast.walk(_definition(tree, code)):
        call = node.value if isinstance(node, ast.Expr) else None
        method = call.func if isinstance(call, ast.Call) else None
        if not isinstance(method, ast.Attribute) or method.attr not in YIELDED:
            continue
        if isinstance(method.value, ast.Name) and method.value.id == page:
            place = f"{Path(code.co_filename).name}:{method.lineno}"
            yield _DISCARDED.format(step=name, call=f"{page}.{method.attr}", place=place)


def _definition(tree: ast.Module, code: CodeType) -> ast.AST:
    """Return the definition that was compiled to this code; an empty module if it is none."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return ast.Module([], [])
