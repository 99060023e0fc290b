"""What callers hand in: checked, bounded, and refused by name where it is not known."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from shoal.core.model import ZERO, DeadFilter, Task
from shoal.scrape.scraper import SEED_STEP

MOST_URLS, MOST_TASKS, MOST_IDS = 500_000, 100_000, 10_000
LONGEST_PAUSE = timedelta(days=30)
LONGEST_CALL = timedelta(minutes=5)
CENTURY = 36_500 * 86_400

PRINTABLE = r"^[^\x00-\x1f\x7f]*$"
Text = Annotated[str, StringConstraints(max_length=500, pattern=PRINTABLE)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=PRINTABLE)]
Url = Annotated[str, StringConstraints(min_length=1, max_length=8_192)]
LetterId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{1,64}$")]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_PAUSE.total_seconds(), allow_inf_nan=False)]


class Wish(BaseModel):
    """The body of a request; numbers are numbers, and no text is taken for one."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TaskWish(Wish):
    """A task to be queued; times are in seconds."""

    url: Url | None = None
    step: Name = SEED_STEP
    payload: dict[str, Any] = Field(default_factory=dict)
    key: str | None = Field(default=None, max_length=8_192)
    partition: Annotated[str, StringConstraints(max_length=200, pattern=PRINTABLE)] = ""
    priority: int = Field(default=0, ge=0, le=9)
    ttl: float | None = Field(default=None, gt=0, le=CENTURY)
    delay: float = Field(default=0, ge=0, le=CENTURY)
    depth: int = Field(default=0, ge=0, lt=1 << 31)

    def task(self) -> Task:
        """Return it as the queue knows it."""
        return Task(
            url=self.url,
            step=self.step,
            payload=self.payload,
            key=self.key,
            partition=self.partition,
            priority=self.priority,
            ttl=None if self.ttl is None else timedelta(seconds=self.ttl),
            delay=timedelta(seconds=self.delay) if self.delay else ZERO,
            depth=self.depth,
        )


class EnqueueWish(Wish):
    """URLs for the scraper's first step, and tasks for any."""

    urls: list[Url] = Field(default_factory=list, max_length=MOST_URLS)
    tasks: list[TaskWish] = Field(default_factory=list, max_length=MOST_TASKS)
    invalid: Literal["skip", "dead"] = "skip"

    @model_validator(mode="after")
    def _brings_something(self) -> Self:
        if not self.urls and not self.tasks:
            raise ValueError("give urls or tasks")
        return self


class StartWish(EnqueueWish):
    """A run of a scraper of the project."""

    scraper: Name
    settings: dict[str, Any] = Field(default_factory=dict, max_length=50)
    run_id: str | None = Field(default=None, max_length=100)


class Where(Wish):
    """Which dead letters are meant: those that meet every condition given; none means all."""

    step: Name | None = None
    partition: Text | None = None
    host: Text | None = None
    error: Text | None = None
    buried_before: AwareDatetime | None = Field(default=None, strict=False)
    buried_after: AwareDatetime | None = Field(default=None, strict=False)

    def filter(self) -> DeadFilter:
        """Return it as the queue knows it."""
        found: dict[str, str | datetime | None] = self.model_dump()
        return DeadFilter(**found)  # type: ignore[arg-type]


class LettersWish(Wish):
    """Dead letters by their ids, or by a filter; one of the two, for all of them is not said by silence."""

    ids: list[LetterId] | None = Field(default=None, max_length=MOST_IDS)
    where: Where | None = None

    @model_validator(mode="after")
    def _says_which(self) -> Self:
        if (self.ids is None) == (self.where is None):
            raise ValueError('give ids or where, and not both; {"where": {}} means all')
        return self


class HostWish(Wish):
    """For how long; zero ends it."""

    seconds: Seconds


class ScrapeWish(Wish):
    """A page that is wanted now, or a payload that is to be handled by a step."""

    scraper: Name
    url: Url | None = None
    step: Name = SEED_STEP
    payload: dict[str, Any] = Field(default_factory=dict)
    timeout: float = Field(default=30, gt=0, le=LONGEST_CALL.total_seconds())

    @model_validator(mode="after")
    def _brings_something(self) -> Self:
        if self.url is None and not self.payload:
            raise ValueError("give a url, or a payload")
        return self

    def task(self) -> Task:
        """Return it as the queue knows it."""
        return Task(url=self.url, step=self.step, payload=self.payload)
