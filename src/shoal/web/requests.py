"""What requests send: parameters and bodies, validated and bounded; an unknown field is rejected by name."""

import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from fastapi import Depends, Path, Query
from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from shoal.core.errors import UnknownLetter, UnknownRun
from shoal.core.model import SEED_STEP, ZERO, DeadFilter, Task, TaskState
from shoal.core.text import shorten
from shoal.core.values import read_positive_duration
from shoal.fleet.run.letters import LetterChange
from shoal.fleet.run.retention import RetentionRule
from shoal.fleet.status.find import NEWEST, whole_ids
from shoal.scrape.settings.args import MAX_ARGS
from shoal.web.context import WebContext, context_of
from shoal.web.views.paging import DEFAULT_LIMIT, MAX_LIMIT

MAX_URLS, MAX_TASKS, MAX_IDS = 500_000, 100_000, 10_000
MAX_SITEMAPS, MAX_STARTED, MAX_LIMITS = 100, 1_000, 1_000
MAX_PAUSE = timedelta(days=30)
MAX_CALL_TIMEOUT = timedelta(minutes=5)
CENTURY = 36_500 * 86_400

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
Label = Annotated[str, StringConstraints(max_length=500, pattern=PRINTABLE)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=8_192)]
LetterId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
Seconds = Annotated[float, Field(ge=0, le=MAX_PAUSE.total_seconds(), allow_inf_nan=False)]

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_LETTER_ID = re.compile(r"[0-9a-f]{1,64}")


class RequestBody(BaseModel):
    """The body of a request; strict, so text is never read as a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TaskBody(RequestBody):
    """A task to queue; durations are in seconds."""

    url: Url | None = None
    step: Name = SEED_STEP
    payload: dict[str, Any] = Field(default_factory=dict)
    key: str | None = Field(default=None, max_length=8_192)
    partition: Annotated[str, StringConstraints(max_length=200, pattern=PRINTABLE)] = ""
    priority: int = Field(default=0, ge=0, le=9)
    ttl: float | None = Field(default=None, gt=0, le=CENTURY)
    delay: float = Field(default=0, ge=0, le=CENTURY)
    depth: int = Field(default=0, ge=0, lt=1 << 31)

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.url is None and not self.payload and self.key is None:
            raise ValueError("give url, payload or key")
        return self

    def task(self) -> Task:
        """Convert to a `Task`."""
        ttl = None if self.ttl is None else timedelta(seconds=self.ttl)
        return Task(**dict(self) | {"ttl": ttl, "delay": timedelta(seconds=self.delay)})


class SeedsBody(RequestBody):
    """URLs for the scraper's first step, and tasks for any step."""

    # A URL that is too long is refused like any other invalid one, not with the whole body.
    urls: list[str] = Field(default_factory=list, max_length=MAX_URLS)
    tasks: list[TaskBody] = Field(default_factory=list, max_length=MAX_TASKS)
    invalid: Literal["skip", "dead"] = "skip"


class EnqueueBody(SeedsBody):
    """Seeds to add to a run; at least one."""

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if not self.urls and not self.tasks:
            raise ValueError("give urls or tasks")
        return self


class StartRunBody(SeedsBody):
    """A new run of a project scraper; without URLs, tasks, sitemaps and feeds it gets the declared seeds."""

    scraper: Name
    sitemaps: list[Url] = Field(default_factory=list, max_length=MAX_SITEMAPS)
    feeds: list[Url] = Field(default_factory=list, max_length=MAX_SITEMAPS)
    feed_hosts: list[Name] = Field(default_factory=list, max_length=MAX_SITEMAPS)
    settings: dict[str, Any] = Field(default_factory=dict, max_length=50)
    args: dict[str, Any] = Field(default_factory=dict, max_length=MAX_ARGS)
    run_id: str | None = Field(default=None, max_length=100)
    workers: int = Field(default=0, ge=0, le=MAX_STARTED)


class ScheduleBody(RequestBody):
    """What to change of a schedule; what is left out stays."""

    cron: Label | None = None
    every: Label | None = None
    timezone: Label | None = None
    jitter: Label | None = None
    overlap: Label | None = None
    missed: Label | None = None
    time_limit: Label | None = None
    args: dict[str, Any] | None = Field(default=None, max_length=MAX_ARGS)
    settings: dict[str, Any] | None = None

    def change(self) -> dict[str, Any]:
        """Return the keys to change; an interval replaces a cron expression, and the other way round."""
        given = {name: value for name, value in self if value is not None}
        if "every" in given:
            return {"cron": None, "timezone": None, **given}
        return {"every": None, **given} if "cron" in given else given


class WorkersBody(RequestBody):
    """Workers to start on the server's machine, for all steps and partitions or those named."""

    workers: int = Field(default=1, ge=1, le=MAX_STARTED)
    steps: list[Name] = Field(default_factory=list, max_length=MAX_LIMITS)
    partitions: list[Name] = Field(default_factory=list, max_length=MAX_LIMITS)


class SettingsBody(RequestBody):
    """Settings of a run to change, as the scraper takes them."""

    settings: dict[str, Any] = Field(min_length=1, max_length=50)


class DeadLetterFilterBody(RequestBody):
    """Selects the dead letters that meet every given condition; no condition selects all."""

    step: Name | None = None
    partition: Label | None = None
    host: Label | None = None
    error: Label | None = None
    buried_before: AwareDatetime | None = Field(default=None, strict=False)
    buried_after: AwareDatetime | None = Field(default=None, strict=False)

    def filter(self) -> DeadFilter:
        """Convert to a `DeadFilter`."""
        return DeadFilter(**dict(self))


class DeadLettersBody(RequestBody):
    """Dead letters by id or by filter; exactly one of the two, so an empty body never means all."""

    ids: list[LetterId] | None = Field(default=None, max_length=MAX_IDS)
    where: DeadLetterFilterBody | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if (self.ids is None) == (self.where is None):
            raise ValueError('give ids or where, not both; {"where": {}} means all')
        return self

    def filter(self) -> DeadFilter:
        """Convert `where` to a `DeadFilter`."""
        return self.where.filter() if self.where else DeadFilter()


class ReplayBody(DeadLettersBody):
    """Dead letters to replay, and how long to wait before they are tried."""

    delay_seconds: Seconds = 0.0


HeaderName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class LetterChangeBody(RequestBody):
    """What to change in dead letters; what is missing stays. A header that is null is removed."""

    url: Url | None = None
    url_replace: Annotated[tuple[Label, Label], Field(strict=False)] | None = None  # JSON has lists only
    step: Name | None = None
    payload: dict[str, Any] | None = None
    set_payload: dict[str, Any] = Field(default_factory=dict)
    headers: dict[HeaderName, str | None] = Field(default_factory=dict, max_length=100)
    priority: int | None = Field(default=None, ge=0, le=9)
    method: Annotated[str, StringConstraints(max_length=10)] | None = None
    body: str | None = None

    def change(self) -> LetterChange:
        """Convert to a `LetterChange`; raises InvalidInput if it is empty."""
        return LetterChange(**dict(self))


class EditLettersBody(DeadLettersBody):
    """Dead letters by id or by filter, and what to change in them."""

    change: LetterChangeBody
    dry_run: bool = False


class PurgeBody(RequestBody):
    """Which runs to delete: older than this, except the newest `keep` of each scraper."""

    older: Annotated[str, StringConstraints(max_length=20)] | None = None
    keep: int = Field(default=0, ge=0)
    scraper: Name | None = None
    unfinished: bool = False
    dry_run: bool = False

    def rule(self) -> RetentionRule:
        """Convert to a `RetentionRule`; raises InvalidInput if it selects everything."""
        return RetentionRule(
            older=read_positive_duration("older", self.older) if self.older else ZERO,
            keep=self.keep,
            scraper=self.scraper,
            unfinished=self.unfinished,
        )


class HostBody(RequestBody):
    """A duration; zero ends the pause or the gap."""

    seconds: Seconds


class ScrapeBody(RequestBody):
    """A page to scrape now, or a payload for a step to handle."""

    scraper: Name
    url: Url | None = None
    step: Name = SEED_STEP
    payload: dict[str, Any] = Field(default_factory=dict)
    timeout: float = Field(default=30, gt=0, le=MAX_CALL_TIMEOUT.total_seconds())
    strategy: Literal["least_loaded", "round_robin", "random"] = "least_loaded"

    @model_validator(mode="after")
    def _check_not_empty(self) -> Self:
        if self.url is None and not self.payload:
            raise ValueError("give a url, or a payload")
        return self

    def task(self) -> Task:
        """Convert to a `Task`."""
        return Task(url=self.url, step=self.step, payload=self.payload)


async def _run_id(
    context: "Context", run_id: Annotated[str, Path(description="The run's id, or `newest`")]
) -> str:
    # An impossible run id never reaches a store.
    if not _RUN_ID.fullmatch(run_id):
        raise UnknownRun(shorten(run_id))
    if run_id != NEWEST:
        return run_id
    newest = next(iter(await context.app.queue.runs()), None)
    if newest is None:
        raise UnknownRun(NEWEST)
    return newest.id


async def _letter_id(
    context: "Context",
    run_id: "RunId",
    letter: Annotated[str, Path(description="The dead letter's id, or its start or end")],
) -> str:
    if not _LETTER_ID.fullmatch(letter):
        raise UnknownLetter(run_id, shorten(letter))
    (whole,) = await whole_ids(context.app.queue, run_id, [letter])
    return whole


Context = Annotated[WebContext, Depends(context_of)]
RunId = Annotated[str, Depends(_run_id)]
Letter = Annotated[str, Depends(_letter_id)]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Rows per page")]
After = Annotated[str | None, Query(max_length=500, description="`next` of the previous page")]
Number = Annotated[
    int,
    BeforeValidator(lambda text: text or 0),  # empty means none
    Query(ge=0, lt=1 << 62, description="`next` of the previous page"),
]
ScraperName = Annotated[str, Path(max_length=200)]
Text = Annotated[Label, Query()]
Step = Annotated[Label | None, Query(description="Only this step")]
States = Annotated[list[TaskState] | None, Query(description="Only these states", max_length=10)]

LIMIT = DEFAULT_LIMIT
