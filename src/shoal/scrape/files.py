"""Files that a step downloads: their tasks, their paths, and their records in items."""

import mimetypes
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from secrets import token_hex
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, InvalidItem, InvalidTask
from shoal.core.http import StoredFile
from shoal.core.model import DOWNLOAD_KEY, HIGHEST_PRIORITY, NOTHING, Task
from shoal.core.request_options import RequestOptions
from shoal.core.secrets import secret_headers
from shoal.core.text import shorten

DEFAULT_PATH = "{sha256}{ext}"
FIELDS = ("sha256", "ext", "name", "host", "run")
MAX_TEMPLATE = 1_000  # characters
MAX_SEGMENT, MAX_PATH, MAX_FOLDERS = 120, 400, 8  # bytes of UTF-8, and folders

_FIELD = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?::\.([0-9]{1,2}))?\}")
_UNSAFE = re.compile(r'[\\:*?"<>|]')
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)  # on Windows
_MORE = {"image/jpeg": ".jpg", "image/webp": ".webp", "image/avif": ".avif", "font/woff2": ".woff2"}
_MEDIA = ("image", "audio", "video")
_SAYS_NOTHING = ("", "application/octet-stream", "binary/octet-stream")


def check_template(template: object) -> str:
    """Return a template for the path of a file; raises InvalidInput."""
    if not isinstance(template, str) or not template.strip() or len(template) > MAX_TEMPLATE:
        raise InvalidInput(f"path must be text such as {DEFAULT_PATH!r}, got {shorten(repr(template))}")
    for field in _FIELD.finditer(template):
        if field[1] not in FIELDS:
            known = ", ".join(f"{{{name}}}" for name in FIELDS)
            raise InvalidInput(f"path has no field {{{shorten(field[1], 40)}}}. Known are {known}")
    return template


@cache
def _types() -> mimetypes.MimeTypes:
    # Not those of the machine, which differ: the same file must have the same name on every worker.
    return mimetypes.MimeTypes(filenames=())


def extension_of(url: str, kind: str) -> str:
    """Return the extension of a file by its type, else by its URL; empty if neither tells."""
    _, dot, end = urlsplit(url).path.rpartition("/")[2].rpartition(".")
    by_url = f"{dot}{end}".lower() if dot and _EXTENSION.fullmatch(f".{end}") else ""
    if kind in _SAYS_NOTHING:
        return by_url
    guess = _types().guess_type(f"file{by_url}")[0]
    if guess == kind:
        return by_url  # of several that a type has
    if known := _MORE.get(kind) or _types().guess_extension(kind, strict=False):
        return known
    group = kind.partition("/")[0]
    # A scraper that accepts image/* must not store a .php, which a web server may run.
    return "" if group in _MEDIA and (guess or "").partition("/")[0] != group else by_url


def name_of(url: str) -> str:
    """Return the last part of a URL's path, without its extension."""
    last = unquote(urlsplit(url).path.rpartition("/")[2], errors="replace")
    stem, dot, end = last.rpartition(".")
    return stem if dot and stem and _EXTENSION.fullmatch(f".{end}") else last


def render_path(template: str, fields: Mapping[str, str]) -> str:
    """Return the relative path of a file; whatever the fields hold, it stays inside the folder."""

    def fill(field: re.Match[str]) -> str:
        # A slash of a field is no folder: only those of the template are.
        value = fields.get(field[1], "").replace("/", "_")
        return value[: int(field[2])] if field[2] else value

    parts = [_make_safe(part) for part in _FIELD.sub(fill, template).split("/")]
    kept = [part for part in parts if part] or ["file"]
    kept = [*kept[:-1][:MAX_FOLDERS], kept[-1]]
    while len("/".join(kept).encode()) > MAX_PATH:
        kept.pop(0)
    return "/".join(kept)


def with_suffix(path: str, suffix: str) -> str:
    """Return a path with a suffix before its extension."""
    folder, slash, name = path.rpartition("/")
    stem, dot, end = name.rpartition(".")
    new = f"{stem}-{suffix}{dot}{end}" if dot and stem else f"{name}-{suffix}"
    return f"{folder}{slash}{new}"


def _make_safe(part: str) -> str:
    """Return a part of a path as a name that every file system can hold; empty if nothing is left."""
    text = "".join(char if char.isprintable() else "_" for char in part)
    text = _UNSAFE.sub("_", text).lstrip(". ").rstrip(". ")
    if _RESERVED.fullmatch(text):
        text = f"_{text}"
    if len(text.encode()) <= MAX_SEGMENT:
        return text
    found = _EXTENSION.search(text, len(text) - 11)
    end = found[0] if found and text.endswith(found[0]) else ""
    return text.encode()[: MAX_SEGMENT - len(end)].decode(errors="ignore").rstrip(". ") + end


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
    item: str | None = None  # as JSON
    origin: str | None = None
    key: str = ""  # of the item, for the identity of its tasks
    runs_step: bool = False  # on the file, instead of storing its record as an item


class Download:
    """A file that a step asks for: yield it, or put it into an item that you yield."""

    # No dataclass, which would be stored as an item; see `shoal.scrape.items.plain`.
    __slots__ = ("_payload", "_request", "_step", "_task")

    def __init__(
        self, task: Task, request: FileRequest, step: str | None, payload: Mapping[str, Any]
    ) -> None:
        self._task, self._request, self._step, self._payload = task, request, step, payload
        if payload and step is None:
            name = next(iter(payload))
            raise InvalidInput(
                f"page.download has no option {name!r}: it has path, types, max_bytes and headers. "
                f"To pass {name!r} on to a step, name the step: page.download(url, step=…)"
            )
        if PAYLOAD_KEY in payload:
            raise InvalidInput(f"{PAYLOAD_KEY!r} is not a name for a value; choose another")
        if secrets := secret_headers(request.headers):
            raise InvalidInput(
                f"A download stores its headers in the queue, and {min(secrets)!r} is a secret. "
                "Set it in the headers of the scraper, or in an on_request hook"
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


def read_types(types: str | Sequence[str]) -> list[str]:
    """Return the types that a download accepts, such as image/*; raises InvalidInput."""
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


Place = list[str | int]


class HasDownloads(InvalidItem):
    """A value holds downloads, so it cannot be stored yet."""


class DownloadFinder:
    """Finds the downloads of an item while it is converted to plain JSON values."""

    def __init__(self) -> None:
        self._found: list[Download] = []
        # Not to be guessed: an item may hold any text of a page.
        self._mark = token_hex(16)

    def mark(self, download: Download) -> str:
        """Return the text that stands for a download until `take`."""
        self._found.append(download)
        return f"{self._mark} {len(self._found) - 1}"

    def take(self, data: Any) -> list[tuple[Place, Download]]:
        """Replace the downloads in plain data by None, and return them with their places."""
        found = []
        for place, text in list(_texts(data, [])):
            if text.startswith(self._mark):
                found.append((place, self._found[int(text.rpartition(" ")[2])]))
                _put(data, place, None)
        return found


def put_record(item: str, place: Sequence[str | int], file: StoredFile) -> Any:
    """Return an item, which is JSON, with the record of a file in its place."""
    data = msgspec.json.decode(item)
    _put(data, place, file.as_json())
    return data


def _texts(data: Any, place: Place) -> Iterator[tuple[Place, str]]:
    match data:
        case str():
            yield place, data
        case dict():
            for key, value in data.items():
                yield from _texts(value, [*place, key])
        case list():
            for index, value in enumerate(data):
                yield from _texts(value, [*place, index])
        case _:
            pass


def _put(data: Any, place: Sequence[str | int], value: Any) -> None:
    for key in place[:-1]:
        data = data[key]
    data[place[-1]] = value
