"""JSON lines, one per item."""

import gzip
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import msgspec

from shoal.core.errors import ExportFailed
from shoal.core.model import StoredItem
from shoal.export.contract import ExportOptions, Writer
from shoal.export.target import OutputTarget

_encoder = msgspec.json.Encoder()


class JsonlWriter(Writer):
    """Writes the data of each item as a line; with `envelope`, also where and when it was found."""

    def __init__(self, target: OutputTarget, options: ExportOptions) -> None:
        self._target = target
        self._line = _with_envelope if options.envelope else _data_only

    def write(self, items: Sequence[StoredItem]) -> None:
        self._put(_encoder.encode_lines([self._line(item) for item in items]))

    def close(self) -> None:
        self._target.commit()

    def discard(self) -> None:
        self._target.discard()

    def _put(self, lines: bytes) -> None:
        self._target.write(lines)


class GzipJsonlWriter(JsonlWriter):
    """JSON lines, gzip-compressed."""

    def __init__(self, target: OutputTarget, options: ExportOptions) -> None:
        super().__init__(target, options)
        # No name and time in the header, so the same items give the same file.
        self._gzip = gzip.GzipFile(filename="", mode="wb", fileobj=cast(Any, target), mtime=0)

    def close(self) -> None:
        self._gzip.close()
        super().close()

    def discard(self) -> None:
        with suppress(ExportFailed, ValueError):  # the trailer cannot be written
            self._gzip.close()
        super().discard()

    def _put(self, lines: bytes) -> None:
        self._gzip.write(lines)


def _data_only(item: StoredItem) -> Any:
    return item.data


def _with_envelope(item: StoredItem) -> dict[str, Any]:
    return {
        "url": item.url,
        "step": item.step,
        "task_id": item.task_id,
        "stored_at": item.stored_at,
        "data": item.data,
    }
