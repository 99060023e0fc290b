"""Hooks: the user's functions that a scraper calls around its steps, and what they are handed."""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from types import CodeType, SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from shoal.core.errors import InvalidInput, InvalidItem
from shoal.core.http import Headers, Response
from shoal.core.model import NOTHING, Reject, Stats, Task
from shoal.core.text import shorten
from shoal.core.values import read_duration
from shoal.scrape.items import is_item, make_reject

FINISH_TIMEOUT = timedelta(seconds=8)  # of the `on_finish` hooks, unless one of them has a limit


class OutgoingRequest(msgspec.Struct):
    """A request that is about to be sent. Hooks may change its URL, headers and body."""

    url: str
    headers: dict[str, str]
    body: bytes | None
    task: Task
    method: str = "GET"  # with a body a GET is sent as a POST

    def set_param(self, name: str, value: object) -> None:
        """Set a parameter in the query of the URL, in place of any of that name."""
        parts = urlsplit(self.url)
        pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
        self.url = urlunsplit(parts._replace(query=urlencode([*pairs, (name, str(value))])))

    def answer(
        self, body: str | bytes, *, status: int = 200, headers: Mapping[str, str] = NOTHING
    ) -> Response:
        """Return a response to use in place of the host's: return it from the hook. Text is sent as HTML."""
        kind = {"content-type": "text/html; charset=utf-8"} if isinstance(body, str) else {}
        data = body.encode() if isinstance(body, str) else body
        fields = kind | {name.lower(): value for name, value in headers.items()}
        return Response(url=self.url, status=status, headers=Headers(fields.items()), body=data)


class ErrorAction(StrEnum):
    """What becomes of a task that has failed."""

    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"


class ErrorDecision(msgspec.Struct, frozen=True):
    """What an `on_error` hook has decided."""

    action: ErrorAction
    after: timedelta | None = None


class FailedTask(msgspec.Struct, frozen=True):
    """A task that has failed. A hook returns one of its decisions, or None for the usual one."""

    error: Exception
    task: Task
    attempt: int  # from 1
    response: Response | None = None

    @property
    def base(self) -> str:
        """What relative URLs of yielded tasks are resolved against: the response's URL, or the task's."""
        return self.response.url if self.response else self.task.url or ""

    def retry(self, after: timedelta | str | None = None) -> ErrorDecision:
        """Try again, unless this was the last attempt; `after` replaces the usual delay."""
        return ErrorDecision(ErrorAction.RETRY, None if after is None else read_duration("after", after))

    def bury(self) -> ErrorDecision:
        """Make it a dead letter now."""
        return ErrorDecision(ErrorAction.BURY)

    def release(self, after: timedelta | str) -> ErrorDecision:
        """Try again later without counting an attempt: it can be released without end."""
        return ErrorDecision(ErrorAction.RELEASE, read_duration("after", after))


class HookedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run at its start or end. `token` is higher in each later call: store it, and refuse a lower one."""

    id: str
    scraper: str
    token: int
    state: str  # running; at the end finished, partial or cancelled
    reason: str  # why it is partial
    stats: Stats
    args: Any  # of the run
    resources: SimpleNamespace  # of the worker that calls the hook


HookFunction = Callable[..., Any]
Subject = Any  # a page, or the task of a step without one
ItemChain = Generator[Any, Any, list[Any]]  # yields what is to be awaited


class Hook(msgspec.Struct, frozen=True):
    """A function of the user, the kind of hook that it is, and whether it takes the second argument too."""

    kind: str
    function: HookFunction
    takes_both: bool
    limit: timedelta | None = None  # of its time, where it is not that of a step

    def __str__(self) -> str:
        return f"{self.kind} {getattr(self.function, '__name__', 'hook')}"

    def call(self, first: Any, second: Any) -> Any:
        """Call the function; the result may be awaitable."""
        return self.function(first, second) if self.takes_both else self.function(first)

    async def call_async(self, first: Any, second: Any = None) -> Any:
        """Call the function and await it if it is async."""
        result = self.call(first, second)
        return await result if inspect.isawaitable(result) else result


class ScraperHooks(msgspec.Struct):
    """The hooks of a scraper, in the order in which they were defined."""

    request: list[Hook] = msgspec.field(default_factory=list)
    response: list[Hook] = msgspec.field(default_factory=list)
    item: list[Hook] = msgspec.field(default_factory=list)
    error: list[Hook] = msgspec.field(default_factory=list)
    start: list[Hook] = msgspec.field(default_factory=list)
    finish: list[Hook] = msgspec.field(default_factory=list)
    run_start: list[Hook] = msgspec.field(default_factory=list)
    run_finish: list[Hook] = msgspec.field(default_factory=list)
    expect: list[Hook] = msgspec.field(default_factory=list)

    @property
    def of_run(self) -> bool:
        """Whether there are hooks that are called once in a run."""
        return bool(self.run_start or self.run_finish)

    @property
    def finish_timeout(self) -> timedelta:
        """How long all `on_finish` hooks of a worker may take together; then it is killed."""
        return max([FINISH_TIMEOUT, *(hook.limit for hook in self.finish if hook.limit)])

    def add(
        self,
        kind: str,
        function: HookFunction,
        *,
        example: str,
        max_args: int = 1,
        limit: timedelta | None = None,
    ) -> HookFunction:
        """Add a hook; raises InvalidInput if it cannot be called as the example is."""
        count = _count_args(function, max_args)
        if count is None:
            raise InvalidInput(f"Define a hook as in: {example}; got {_describe(function)}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            # A call would only make a generator, and run nothing of it.
            raise InvalidInput(f"{kind} {_describe(function)} has a yield, which hooks must not have: return")
        getattr(self, kind.removeprefix("on_")).append(Hook(kind, function, count > 1, limit))
        return function

    def __iter__(self) -> Iterator[Hook]:
        """Iterate over the hooks that are called for tasks."""
        yield from (*self.request, *self.response, *self.item, *self.error)

    def named_by(self, codes: "list[CodeType]") -> Hook | None:
        """Return the hook whose code is among these."""
        found = {getattr(inspect.unwrap(hook.function), "__code__", None): hook for hook in self}
        return next((found[code] for code in codes if code in found), None)

    def start_item(self, item: Any, subject: Subject) -> ItemChain | None:
        """Call the hooks with what a step yields; None if it goes on as it is, else what is left to do."""
        # Most are dicts, and for others the check is slow.
        if type(item) is not dict and (isinstance(item, (Task, Reject)) or not is_item(item)):
            return None
        for index, hook in enumerate(self.item):
            result = hook.function(item, subject) if hook.takes_both else hook.function(item)
            if result is not None:
                return self._run_chain(item, subject, index, result)
        return None

    def finish_item(self, chain: ItemChain) -> list[Any]:
        """Return what the hooks make of an item of a step in a thread, where none can be awaited."""
        try:
            hook, result = chain.send(None)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        if inspect.iscoroutine(result):
            result.close()
        raise InvalidInput(f"{hook} is async, which needs a step that is defined with 'async def'")

    async def finish_item_async(self, chain: ItemChain) -> list[Any]:
        """Return what the hooks make of an item: items and rejects."""
        result: Any = None
        while True:
            try:
                _, result = chain.send(result)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            result = await result

    def _run_chain(self, item: Any, subject: Subject, index: int, result: Any) -> ItemChain:
        """Go on with the result of one hook; yield an async hook and what to await of it."""
        hook = self.item[index]
        if hasattr(result, "__await__"):
            result = yield hook, result
        values = _read_items(hook, item, result)
        for hook in self.item[index + 1 :]:
            changed: list[Any] = []
            for value in values:
                if isinstance(value, Reject):
                    changed.append(value)
                    continue
                result = hook.call(value, subject)
                if hasattr(result, "__await__"):
                    result = yield hook, result
                changed += _read_items(hook, value, result)
            values = changed
        return values


def _read_items(hook: Hook, item: Any, result: Any) -> list[Any]:
    if result is None:
        return [item]  # perhaps changed in place
    if isinstance(result, Reject) or is_item(result):
        return [result]
    if not isinstance(result, list | tuple):
        raise InvalidItem(
            result,
            f"{hook} returned a value of type {type(result).__name__}; return an item, a list of items "
            "([] drops it), a Reject, or nothing to keep the item",
        )
    if not result:
        return [make_reject(item, f"dropped by {hook}")]
    for value in result:
        if not isinstance(value, Reject) and not is_item(value):
            raise InvalidItem(value, f"{hook} returned a list with a value of type {type(value).__name__}")
    return list(result)


def _describe(function: Any) -> str:
    """Return how a function is defined, for a message."""
    try:
        return shorten(f"def {function.__name__}{inspect.signature(function)}")
    except (AttributeError, TypeError, ValueError):
        return shorten(repr(function))


def _count_args(function: Any, most: int) -> int | None:
    """Return with how many arguments a function can be called, at most `most`; None if with none."""
    if not callable(function) or isinstance(function, type):
        return None
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    for count in range(most, 0, -1):
        try:
            signature.bind(*(None,) * count)
        except TypeError:
            continue
        return count
    return None
