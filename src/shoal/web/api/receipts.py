"""What the API answers to those who changed something, and to probes."""

from typing import Any

from shoal.web.api.schema import Answer


class RefusedRow(Answer):
    """Something that could not be queued, and why."""

    where: str
    text: str
    reason: str


class Queued(Answer):
    """What was queued, and the command that starts workers on it."""

    status: str
    run_id: str
    enqueued: int
    duplicate: int
    known: int
    invalid: int
    worker_command: str
    refused: list[RefusedRow]


class Steered(Answer):
    """A run and its new state."""

    run_id: str
    state: str


class Purged(Answer):
    """A run that is gone."""

    run_id: str
    purged: bool


class Replayed(Answer):
    """How many dead letters went back to pending."""

    run_id: str
    replayed: int


class Dropped(Answer):
    """How many dead letters were given up."""

    run_id: str
    dropped: int


class Forgotten(Answer):
    """How many tasks the next run with `dedup` queues again, if it finds them."""

    scraper: str
    forgotten: int


class HostPaused(Answer):
    """A host that is asked nothing for a while."""

    host: str
    paused_seconds: float


class HostSlowed(Answer):
    """A host and the gap that is kept between two starts on it."""

    host: str
    delay_seconds: float


class LinkRow(Answer):
    """A link that a step would have followed."""

    url: str | None
    step: str


class ScrapedRow(Answer):
    """What a call on demand has brought."""

    run_id: str
    task_id: str
    worker_id: str | None
    items: list[Any]
    follow: list[LinkRow]
    rejected: int


class Health(Answer):
    """Whether the server, or its queue, is there."""

    status: str
