"""A file that a step asks for, and the task that downloads it.

A download is a task of its own. Its payload holds what to download. A file of an item carries the item along:
the task of its first file is followed by the one of its second, and the last one stores the item.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, InvalidItem, InvalidTask
from shoal.core.model import DOWNLOAD_KEY, HIGHEST_PRIORITY, NOTHING, Task
from shoal.core.request_options import NO_HEADERS, RequestOptions
from shoal.core.secrets import secret_headers
from shoal.core.text import shorten
from shoal.core.values import read_size
from shoal.scrape.files.paths import DEFAULT_PATH, check_template

PAYLOAD_KEY = DOWNLOAD_KEY
MAX_BYTES = 100 << 20
MAX_ITEM = 900_000  # bytes of JSON that an item with files may have; a payload may have a little more
MAX_FILES = 1_000  # of an item
RECORD_SIZE = 250  # bytes that the record of a file adds to an item, about
SPLIT = "Yield items with fewer files each, or each page.download(url) by itself"


class FileRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to download, as the payload of a task holds it; `at` is the place of its record in the item."""

    url: str
    path: str = DEFAULT_PATH
    types: list[str] = []
    max_bytes: int = MAX_BYTES
    headers: dict[str, str] = {}
    at: list[str | int] = []


class DownloadPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files to download, the first by this task; the item that they belong to; their page."""

    files: list[FileRequest]
    item: str | None = None  # as JSON: a payload does not keep the order of its keys
    origin: str | None = None
    key: str = ""  # of the item, for the identity of its tasks
    runs_step: bool = False  # on the file, instead of storing its record as an item


class Download:
    """A file that a step asks for: yield it, or put it into an item that you yield."""

    # No dataclass, which would be stored as an item; see `shoal.scrape.items.plain`.
    __slots__ = ("_payload", "_request", "_step", "_task")

    def __init__(
        self,
        url: str,
        task: Task,
        *,
        step: str | None = None,
        path: str = DEFAULT_PATH,
        types: str | Sequence[str] = (),
        max_bytes: int | str = MAX_BYTES,
        headers: Mapping[str, str] = NO_HEADERS,
        payload: Mapping[str, Any] = NOTHING,
    ) -> None:
        self._task, self._step, self._payload = task, step, payload
        if payload and step is None:
            name = next(iter(payload))
            raise InvalidInput(
                f"page.download has no option {name!r}: it has path, types, max_bytes and headers. "
                f"To pass {name!r} on to a step, name the step: page.download(url, step=…)"
            )
        if PAYLOAD_KEY in payload:
            raise InvalidInput(f"{PAYLOAD_KEY!r} is not a name for a value; choose another")
        if secrets := secret_headers(headers):
            raise InvalidInput(
                f"A download stores its headers in the queue, and {min(secrets)!r} is a secret. "
                "Set it in the headers of the scraper, or in an on_request hook"
            )
        self._request = FileRequest(
            url=url,
            path=check_template(path),
            types=_read_types(types),
            max_bytes=read_size("max_bytes", max_bytes),
            headers=dict(headers),
        )

    @property
    def url(self) -> str:
        """The URL of the file."""
        return self._request.url

    def __repr__(self) -> str:
        return f"<Download {shorten(self.url)}>"

    def as_task(self) -> Task:
        """Return the task of a download that belongs to no item."""
        plan = DownloadPlan(files=[self._request], origin=self._task.url, runs_step=self._step is not None)
        return make_task(
            plan,
            self._task,
            step=self._step or self._task.step,
            payload=self._payload,
            key=f"{self.url} file {self._request.path}",
        )

    def in_item(self, at: Sequence[str | int]) -> FileRequest:
        """Return the request of a file whose record has this place in an item."""
        if self._step is not None:
            raise InvalidInput("A download in an item has no step; its record is stored in the item")
        return replace(self._request, at=list(at))


def item_task(data: Any, found: Sequence[tuple[Sequence[str | int], Download]], number: int) -> Task:
    """Return the task of the first file of an item; raises InvalidItem.

    `number` is that of the item among those of its page with files.
    """
    if len(found) > MAX_FILES:
        raise InvalidItem(
            data, f"it has {len(found):,} downloads, and an item waits for {MAX_FILES:,} at most. {SPLIT}"
        )
    parent = found[0][1]._task
    plan = DownloadPlan(
        files=[download.in_item(at) for at, download in found],
        item=msgspec.json.encode(data).decode(),
        origin=parent.url,
        key=f"{_digest(parent)} {number}",
    )
    size = len(msgspec.json.encode(plan)) + RECORD_SIZE * len(found)
    if size > MAX_ITEM:
        raise InvalidItem(
            data, f"with its downloads it has {size:,} bytes of JSON; the limit is {MAX_ITEM:,}. {SPLIT}"
        )
    return next_task(plan, parent)


def next_task(plan: DownloadPlan, parent: Task) -> Task:
    """Return the task of the next file of an item."""
    url = plan.files[0].url
    # Of this item: the same file may belong to another one as well.
    return make_task(plan, parent, step=parent.step, key=f"{url} file {plan.key} {len(plan.files)}")


def make_task(
    plan: DownloadPlan, parent: Task, *, step: str, key: str, payload: Mapping[str, Any] = NOTHING
) -> Task:
    """Return a task that downloads the first file of a plan."""
    first = plan.files[0]
    return Task(
        url=first.url,
        step=step,
        payload={**payload, PAYLOAD_KEY: msgspec.to_builtins(plan)},
        key=key,
        partition=parent.partition,
        # Before further pages, so that items do not wait until all pages are done.
        priority=parent.priority if is_download(parent) else min(HIGHEST_PRIORITY, parent.priority + 1),
        depth=parent.depth,
        request=RequestOptions(headers=first.headers) if first.headers else None,
    )


def is_download(task: Task) -> bool:
    """Return whether a task downloads a file."""
    return PAYLOAD_KEY in task.payload


def payload_for_step(task: Task) -> Task:
    """Return the task of a download as its step sees it, without what was to be downloaded."""
    payload = {name: value for name, value in task.payload.items() if name != PAYLOAD_KEY}
    return replace(task, payload=payload)


def read_plan(task: Task) -> DownloadPlan:
    """Return what a task downloads; raises InvalidTask if its payload was changed to something else."""
    try:
        plan = msgspec.convert(task.payload[PAYLOAD_KEY], DownloadPlan)
        check_template(plan.files[0].path)
    except (msgspec.ValidationError, IndexError, InvalidInput) as error:
        raise InvalidTask(task, f"its payload does not say what to download: {error}") from error
    return plan


def check_not_download(task: Task) -> None:
    """Raise InvalidTask for a task that a step has made itself, and that would be taken for a download."""
    # The payload may be what a page says, and a page must not choose what is stored.
    if PAYLOAD_KEY in task.payload:
        raise InvalidTask(task, f"payload must not have {PAYLOAD_KEY!r}; write page.download(url)")


def _read_types(types: str | Sequence[str]) -> list[str]:
    given: list[Any] = [types] if isinstance(types, str) else list(types)
    for one in given:
        if not isinstance(one, str) or one.count("/") != 1:
            raise InvalidInput(f"types must be types such as 'image/*', got {shorten(repr(one))}")
    return [one.strip().lower() for one in given]


def _digest(task: Task) -> str:
    """Return the identity of a page, as the queue tells its tasks apart."""
    request = task.request
    parts: list[Any] = [task.step, task.key, task.url, dict(task.payload)]
    parts += [request.method, request.post] if request else []
    return blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()
