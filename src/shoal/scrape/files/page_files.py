"""The methods of a page for downloads."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal.core.errors import InvalidInput, InvalidUrl
from shoal.core.http import Response, StoredFile
from shoal.core.model import NOTHING, Task
from shoal.core.request_options import NO_HEADERS
from shoal.core.text import shorten
from shoal.core.urls import join
from shoal.scrape.files.download import MAX_BYTES, Download
from shoal.scrape.files.paths import DEFAULT_PATH
from shoal.scrape.node import Node

NOT_A_FILE = "not a web link"  # as links are counted


class PageFiles:
    """Downloads of the files that a page links to."""

    __slots__ = ()

    if TYPE_CHECKING:
        response: Response
        task: Task
        dropped: dict[str, int]

        @property
        def base(self) -> str: ...

    @property
    def file(self) -> StoredFile | None:
        """The file that was downloaded for this step, None for a page."""
        return self.response.file

    def download(
        self,
        url: str | Node | None,
        step: Any = None,
        *,
        path: str = DEFAULT_PATH,
        types: str | Sequence[str] = (),
        max_bytes: int | str = MAX_BYTES,
        headers: Mapping[str, str] = NO_HEADERS,
        payload: Mapping[str, Any] = NOTHING,
        **more: Any,
    ) -> Download | None:
        """Return the download of a file: yield it, or put it into an item, which then waits for its files.

        In an item it becomes the record of the file: url, path, sha256, size, type and status. A step gets it
        as `page.file`; other keyword arguments are its payload. Returns None for None and for anything that
        is not a web address.
        """
        href = (url.attr("src") or url.attr("href")) if isinstance(url, Node) else url
        if href is None:
            return None
        try:
            target = join(self.base, href)
        except InvalidUrl:
            self.dropped[NOT_A_FILE] += 1
            return None
        return Download(
            target,
            self.task,
            step=_step_name(step),
            path=path,
            types=types,
            max_bytes=max_bytes,
            headers=headers,
            payload={**payload, **more},
        )


def _step_name(step: Any) -> str | None:
    name = step if step is None or isinstance(step, str) else getattr(step, "name", step)
    if name is None or isinstance(name, str):
        return name
    raise InvalidInput(f"step must be a step of the scraper or its name, got {shorten(repr(step))}")
