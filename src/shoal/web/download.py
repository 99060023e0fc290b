"""The items of a run as a file, generated while it is sent."""

import io
from collections.abc import AsyncIterator
from typing import Literal

from shoal.export.contract import Writer
from shoal.export.files.csv import CsvWriter
from shoal.export.files.jsonl import JsonlWriter
from shoal.export.follow import Items, batches, in_thread, stored_until, survey_items
from shoal.export.target import OutputTarget

Format = Literal["jsonl", "csv"]
MEDIA_TYPES: dict[Format, str] = {"jsonl": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}


class _ChunkBuffer(OutputTarget):
    """Buffers what was written until it is sent."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__("the download", self._bytes)

    def take(self) -> bytes:
        """Return and clear what was written since the last call."""
        chunk = self._bytes.getvalue()
        self._bytes.seek(0)
        self._bytes.truncate()
        return chunk

    def commit(self) -> None:
        """Do nothing: sent bytes cannot be taken back."""

    def discard(self) -> None:
        """Do nothing: sent bytes cannot be taken back."""


async def download(
    items: Items, format: Format, *, envelope: bool = False, raw: bool = False
) -> AsyncIterator[bytes]:
    """Yield the bytes of a file, a batch of items at a time; invalid items raise before the first byte.

    CSV reads the items twice: the columns are known only after all items were seen.
    """
    buffer = _ChunkBuffer()
    writer = _writer(buffer, format, envelope=envelope, raw=raw)
    last = await survey_items(items, writer) if writer.needs_survey else None
    return _chunks(items, writer, buffer, last)


async def _chunks(
    items: Items, writer: Writer, buffer: _ChunkBuffer, last: int | None
) -> AsyncIterator[bytes]:
    async for batch in batches(items()):
        await in_thread(writer.write, stored_until(batch, last))
        if chunk := buffer.take():
            yield chunk
    await in_thread(writer.close)
    yield buffer.take()


def _writer(buffer: _ChunkBuffer, format: Format, *, envelope: bool, raw: bool) -> Writer:
    if format == "csv":
        return CsvWriter(buffer, envelope=envelope, raw=raw)
    return JsonlWriter(buffer, envelope=envelope)
