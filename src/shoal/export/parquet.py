"""Parquet files, through pyarrow."""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.kinds import Kind, fitted, kind_of, wider
from shoal.export.table import VALUE, Row, check_width, misfit, row
from shoal.export.target import Target, errors_named

GROUP_ROWS = 50_000
GROUP_BYTES = 16 << 20
_TYPES = {Kind.TRUTH: "bool_", Kind.WHOLE: "int64", Kind.LONG: "int64", Kind.FRACTION: "float64"}


class ParquetWriter(Writer):
    """Writes a row an item, in row groups of bounded size; the columns have the kinds that the survey met."""

    needs_survey = True

    def __init__(
        self, target: Target, *, columns: Sequence[str] | None = None, envelope: bool = False
    ) -> None:
        self._arrow, self._parquet = _pyarrow(target.name)
        self._target = target
        self._chosen = bool(columns)
        self._kinds = dict.fromkeys(columns or (), Kind.NOTHING)
        self._envelope = envelope
        self._is_surveyed = False
        self._file: Any = None
        self._group: list[Any] = []

    def survey(self, items: Sequence[StoredItem]) -> None:
        self._is_surveyed = True
        for item in items:
            for name, value in self._row(item).items():
                self._kinds[name] = wider(self._kinds.get(name, Kind.NOTHING), kind_of(value))
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
        with errors_named(self._target.name):
            self._write_group()
            self._file.close()
        self._target.commit()

    def discard(self) -> None:
        self._group.clear()
        if self._file is not None:
            with suppress(OSError, ValueError):  # its end has nowhere to go
                self._file.close()
        self._target.discard()

    def _begin(self, items: Sequence[StoredItem]) -> None:
        if not self._is_surveyed:
            self.survey(items)
        self._kinds = self._kinds or {VALUE: Kind.NOTHING}
        with errors_named(self._target.name):
            self._file = self._parquet.ParquetWriter(self._target.stream, self._schema(), compression="zstd")

    def _row(self, item: StoredItem) -> Row:
        found = row(item, envelope=self._envelope)
        return {name: found.get(name) for name in self._kinds} if self._chosen else found

    def _check(self, item: StoredItem, one: Row) -> None:
        for name, value in one.items():
            known = self._kinds.get(name)
            if known is None or wider(known, kind_of(value)) is not known:
                raise misfit(item, f"{kind_of(value).value} in the column {name!r}")

    def _batch(self, rows: Sequence[Row]) -> Any:
        schema = self._schema()
        cells = [[fitted(one.get(name), kind) for one in rows] for name, kind in self._kinds.items()]
        arrays = [self._arrow.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _schema(self) -> Any:
        return self._arrow.schema([(name, self._type(kind)) for name, kind in self._kinds.items()])

    def _type(self, kind: Kind) -> Any:
        if kind is Kind.MOMENT:
            return self._arrow.timestamp("us", tz="UTC")
        return getattr(self._arrow, _TYPES.get(kind, "string"))()

    def _is_full(self) -> bool:
        rows = sum(batch.num_rows for batch in self._group)
        size = sum(batch.nbytes for batch in self._group)
        return bool(rows >= GROUP_ROWS or size >= GROUP_BYTES)

    def _write_group(self) -> None:
        if self._group:
            with errors_named(self._target.name):
                self._file.write_table(self._arrow.Table.from_batches(self._group))
        self._group.clear()


def _pyarrow(name: str) -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        reason = "needs pyarrow to be written. Run: pip install 'shoal[parquet]'"
        raise InvalidSetting(name, reason) from error
