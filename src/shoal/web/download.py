"""A run's items as a file that is made while it is sent."""

import io
from collections.abc import AsyncIterator
from typing import Literal

from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.csv import CsvWriter
from shoal.export.jsonl import JsonlWriter
from shoal.export.stream import Items, batches, in_thread
from shoal.export.target import Target

Format = Literal["jsonl", "csv"]
MEDIA_TYPES: dict[Format, str] = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


class _Basket(Target):
    """Holds what was written until it is taken away to be sent."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__("the download", self._bytes)

    def take(self) -> bytes:
        """Return what has been written since the last time."""
        taken = self._bytes.getvalue()
        self._bytes.seek(0)
        self._bytes.truncate()
        return taken

    def commit(self) -> None:
        """Do nothing: what is sent is sent."""

    def discard(self) -> None:
        """Do nothing: what is sent is sent."""


async def download(
    items: Items, format: Format, *, envelope: bool = False, raw: bool = False
) -> AsyncIterator[bytes]:
    """Return the bytes of a file, a few items at a time; what the items lack shows before the first byte.

    A table is read twice: its columns are known when all items were seen.
    """
    basket = _Basket()
    writer = _writer(basket, format, envelope=envelope, raw=raw)
    last: int | None = None
    if writer.needs_survey:
        last = 0
        async for some in batches(items()):
            await in_thread(writer.survey, some)
            last = max(last, some[-1].id)
    return _chunks(items, writer, basket, last)


async def _chunks(items: Items, writer: Writer, basket: _Basket, last: int | None) -> AsyncIterator[bytes]:
    async for some in batches(items()):
        await in_thread(writer.write, _known(some, last))
        if chunk := basket.take():
            yield chunk
    await in_thread(writer.close)
    yield basket.take()


def _known(items: list[StoredItem], last: int | None) -> list[StoredItem]:
    # What was stored since the columns were counted waits for the next download.
    return items if last is None else [item for item in items if item.id <= last]


def _writer(basket: _Basket, format: Format, *, envelope: bool, raw: bool) -> Writer:
    if format == "csv":
        return CsvWriter(basket, envelope=envelope, raw=raw)
    return JsonlWriter(basket, envelope=envelope)
