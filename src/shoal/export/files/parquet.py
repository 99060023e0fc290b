"""Writes items as rows of a Parquet file, with pyarrow."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.contract import ExportOptions, Writer
from shoal.export.files.nested import NO_VALUE, NestedType, common_type, convert_nested, type_of
from shoal.export.table import VALUE, Kind, Row, check_width, mismatch_error, row
from shoal.export.target import OutputTarget, translate_os_errors
from shoal.registry.extras import install_command

log = logging.getLogger(__name__)
GROUP_ROWS = 50_000
GROUP_BYTES = 16 << 20
_TYPES = {Kind.BOOL: "bool_", Kind.INT: "int64", Kind.BIGINT: "int64", Kind.FLOAT: "float64"}


class ParquetWriter(Writer):
    """Writes one row per item, in row groups of bounded size; the survey determines the column types."""

    needs_survey = True

    def __init__(self, target: OutputTarget, options: ExportOptions) -> None:
        self._arrow, self._parquet = _pyarrow(target.name)
        self._target = target
        self._chosen = bool(options.columns)
        self._types = dict.fromkeys(options.columns or (), NO_VALUE)
        self._envelope = options.envelope
        self._is_surveyed = self._has_items = False
        self._file: Any = None
        self._group: list[Any] = []

    def survey(self, items: Sequence[StoredItem]) -> None:
        self._is_surveyed = True
        self._has_items = self._has_items or bool(items)
        for item in items:
            for name, value in self._row(item).items():
                self._types[name] = common_type(self._types.get(name, NO_VALUE), type_of(value))
        check_width(self._types)

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
        if not self._types and self._has_items:
            self._types = {VALUE: NO_VALUE}  # for the rows of items without a field
        elif not self._types:
            log.warning("%s has no columns, because there is no item", self._target.name)
        self._warn_of_text()
        with translate_os_errors(self._target.name):
            self._file = self._parquet.ParquetWriter(self._target.stream, self._schema(), compression="zstd")

    def _row(self, item: StoredItem) -> Row:
        found = row(item, envelope=self._envelope)
        return {name: found.get(name) for name in self._types} if self._chosen else found

    def _check(self, item: StoredItem, one: Row) -> None:
        for name, value in one.items():
            known, found = self._types.get(name), type_of(value)
            if known is None or common_type(known, found) != known:
                raise mismatch_error(item, f"{found.noun} in the column {name!r}")

    def _warn_of_text(self) -> None:
        """Say which lists and mappings have no type in the file."""
        for column, whole in self._types.items():
            for path, one in whole.walk(column):
                if one.why_text:
                    log.warning(
                        "%s: %s is written as JSON text, because %s.", self._target.name, path, one.why_text
                    )

    def _batch(self, rows: Sequence[Row]) -> Any:
        schema = self._schema()
        cells = [[convert_nested(one.get(name), to) for one in rows] for name, to in self._types.items()]
        arrays = [self._arrow.array(column, field.type) for column, field in zip(cells, schema, strict=True)]
        return self._arrow.RecordBatch.from_arrays(arrays, schema=schema)

    def _schema(self) -> Any:
        return self._arrow.schema([(name, self._type(to)) for name, to in self._types.items()])

    def _type(self, to: NestedType) -> Any:
        if to.element:
            return self._arrow.list_(self._type(to.element))
        if to.fields:  # a file cannot have a mapping without fields: {} is text
            return self._arrow.struct([(key, self._type(one)) for key, one in to.fields.items()])
        if to.kind is Kind.TIMESTAMP:
            return self._arrow.timestamp("us", tz="UTC")
        return getattr(self._arrow, _TYPES.get(to.kind, "string"))()

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
        reason = f"needs pyarrow. Run: {install_command('parquet')}"
        raise InvalidSetting(name, reason) from error
