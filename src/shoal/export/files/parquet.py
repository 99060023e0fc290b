"""Parquet files, with pyarrow."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.kinds import Kind, common_kind, convert, kind_of
from shoal.export.table import VALUE, Row, check_width, mismatch_error, row
from shoal.export.target import OutputTarget, translate_os_errors

GROUP_ROWS = 50_000
GROUP_BYTES = 16 << 20
_TYPES = {Kind.BOOL: "bool_", Kind.INT: "int64", Kind.BIGINT: "int64", Kind.FLOAT: "float64"}


class ParquetWriter(Writer):
    """Writes one row per item, in row groups of bounded size; the survey determines the column types."""

    needs_survey = True

    def __init__(
        self, target: OutputTarget, *, columns: Sequence[str] | None = None, envelope: bool = False
    ) -> None:
        self._arrow, self._parquet = _pyarrow(target.name)
        self._target = target
        self._chosen = bool(columns)
        self._kinds = dict.fromkeys(columns or (), Kind.NULL)
        self._envelope = envelope
        self._is_surveyed = False
        self._file: Any = None
        self._group: list[Any] = []

    def survey(self, items: Sequence[StoredItem]) -> None:
        self._is_surveyed = True
        for item in items:
            for name, value in self._row(item).items():
                self._kinds[name] = common_kind(self._kinds.get(name, Kind.NULL), kind_of(value))
        check_width(self._kinds)

    def write(self, items: Sequence[StoredItem]) -> None:
        if self._file is None:
            self._begin(items)
        rows = [self._row(item) for item in items]
        for item, one in zip(items, rows, strict=True):
            self._check(item, one)
        self._group.append(self._batch(rows))
        if self._is_full():
            self._write_group()

    def close(self) -> None:
        if self._file is None:
            self._begin([])
        with translate_os_errors(self._target.name):
            self._write_group()
            self._file.close()
        self._target.commit()

    def discard(self) -> None:
        self._group.clear()
        if self._file is not None:
            with suppress(OSError, ValueError):  # the footer cannot be written
                self._file.close()
        self._target.discard()

    def _begin(self, items: Sequence[StoredItem]) -> None:
        if not self._is_surveyed:
            self.survey(items)
        self._kinds = self._kinds or {VALUE: Kind.NULL}
        with translate_os_errors(self._target.name):
            self._file = self._parquet.ParquetWriter(self._target.stream, self._schema(), compression="zstd")

    def _row(self, item: StoredItem) -> Row:
        found = row(item, envelope=self._envelope)
        return {name: found.get(name) for name in self._kinds} if self._chosen else found

    def _check(self, item: StoredItem, one: Row) -> None:
        for name, value in one.items():
            known = self._kinds.get(name)
            if known is None or common_kind(known, kind_of(value)) is not known:
                raise mismatch_error(item, f"{kind_of(value).value} in the column {name!r}")

    def _batch(self, rows: Sequence[Row]) -> Any:
        schema = self._schema()
        cells = [[convert(one.get(name), kind) for one in rows] for name, kind in self._kinds.items()]
        arrays = [self._arrow.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _schema(self) -> Any:
        return self._arrow.schema([(name, self._type(kind)) for name, kind in self._kinds.items()])

    def _type(self, kind: Kind) -> Any:
        if kind is Kind.TIMESTAMP:
            return self._arrow.timestamp("us", tz="UTC")
        return getattr(self._arrow, _TYPES.get(kind, "string"))()

    def _is_full(self) -> bool:
        rows = sum(batch.num_rows for batch in self._group)
        size = sum(batch.nbytes for batch in self._group)
        return bool(rows >= GROUP_ROWS or size >= GROUP_BYTES)

    def _write_group(self) -> None:
        if self._group:
            with translate_os_errors(self._target.name):
                self._file.write_table(self._arrow.Table.from_batches(self._group))
        self._group.clear()


def _pyarrow(name: str) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        reason = "needs pyarrow. Run: pip install 'shoal[parquet]'"
        raise InvalidSetting(name, reason) from error
