"""Writes items to a database table, one row per key."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.core.errors import ExportUnavailable, InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.table import Kind, Row, check_width, common_kind, kind_of
from shoal.export.tables.columns import ColumnNames, KeyedRows, can_hold, encode_value
from shoal.export.tables.database import Table, TableColumn


class TableWriter(Writer):
    """Upserts each item by its key; all are committed on close, or immediately if `live`.

    Missing columns are added; existing columns of a table are not changed. It is an error if no item has
    the key, unless `may_lack_key`.
    """

    def __init__(
        self,
        table: Table,
        *,
        key: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        envelope: bool = False,
        live: bool = False,
        may_lack_key: bool = False,
    ) -> None:
        self._table, self._live, self._may_lack_key = table, live, may_lack_key
        self._rows = KeyedRows(key, columns, envelope=envelope)
        self._kinds: dict[str, Kind] = {}
        self._is_table_ready = False
        self._names: ColumnNames | None = None
        self._columns: dict[str, TableColumn] = {}
        self._created: set[str] = set()
        self._skipped: Counter[str] = Counter()
        self._has_written = False
        self.needs_survey = not live

    @property
    def skipped(self) -> Mapping[str, int]:
        return self._skipped

    def survey(self, items: Sequence[StoredItem]) -> None:
        for item in items:
            found = self._rows.row(item)
            if found is not None:
                self._add_kinds(found)
        check_width(self._kinds, self._table.rules.max_columns)

    def write(self, items: Sequence[StoredItem]) -> None:
        rows, skipped = self._split_by_key(items)
        if rows:
            self._upsert(rows)
        self._has_written = self._has_written or bool(rows)
        self._skipped += skipped

    def close(self) -> None:
        try:
            if self._skipped and not self._has_written and not self._may_lack_key:
                raise self._rows.missing_key_error()
            self._table.commit()
        finally:
            self._table.close()

    def discard(self) -> None:
        self._table.close()

    def _upsert(self, rows: list[Row]) -> None:
        try:
            if not self._is_table_ready:
                self._prepare_table()
            columns = list(self._columns.values())
            self._table.upsert(columns, self._key, [self._cells(one) for one in rows])
            if self._live:
                self._table.commit()
        except ExportUnavailable:
            if self._live:
                self._reset()
            raise

    def _reset(self) -> None:
        """Start over with the next rows: what was not committed, maybe the table itself, is lost."""
        self._table.close()
        self._is_table_ready = False

    def _cells(self, one: Row) -> list[Any]:
        return [encode_value(one.get(field), column.column_type) for field, column in self._columns.items()]

    @property
    def _key(self) -> list[str]:
        return [self._columns[field].name for field in self._rows.key]

    def _split_by_key(self, items: Sequence[StoredItem]) -> tuple[list[Row], Counter[str]]:
        """Return the rows of the items with a key, and the number without one per step."""
        rows, skipped = [], Counter[str]()
        for item in items:
            found = self._rows.row(item)
            if found is None:
                skipped[item.step] += 1
            else:
                self._add_kinds(found)
                rows.append(found)
        check_width(self._kinds, self._table.rules.max_columns)
        return rows, skipped

    def _add_kinds(self, found: Row) -> None:
        for field, value in found.items():
            known = self._kinds.get(field)
            kind = kind_of(value) if known is None else common_kind(known, kind_of(value))
            if kind is not known:
                self._kinds[field] = kind
                self._is_table_ready = False

    def _prepare_table(self) -> None:
        """Create or alter the table so that it holds all values seen so far."""
        existing = self._table.columns()
        self._names = self._names or ColumnNames(self._table.rules, existing)
        names = {field: self._names.column_for(field) for field in self._kinds}
        # A column without a value yet is not created: its type is unknown.
        missing = {
            name: self._kind(field)
            for field, name in names.items()
            if name not in existing and self._kinds[field] is not Kind.NULL
        }
        if existing:
            self._extend(existing, names, missing)
        else:
            self._table.create(missing, [names[field] for field in self._rows.key])
        self._created |= missing.keys()
        existing = self._table.columns()
        self._columns = {field: existing[name] for field, name in names.items() if name in existing}
        self._is_table_ready = True

    def _extend(
        self, existing: Mapping[str, TableColumn], names: Mapping[str, str], missing: Mapping[str, Kind]
    ) -> None:
        for field in self._rows.key:
            if names[field] in missing:
                location = self._table.location
                reason = (
                    f"{field!r} is not a column of {location}. Choose an existing column, or another table"
                )
                raise InvalidSetting("--key", reason)
        for field, name in names.items():
            if name in existing and not can_hold(self._kind(field), existing[name].column_type):
                self._widen(existing[name], self._kind(field))
        if missing:
            self._table.add(missing)

    def _widen(self, column: TableColumn, kind: Kind) -> None:
        # A column that existed before may belong to somebody else, who has to decide.
        if column.name not in self._created:
            raise InvalidSetting(
                self._table.location,
                f"has the column {column.name!r} of type {column.type}, but the items have {kind.value}. "
                f"{self._table.advice(column, kind)}",
            )
        self._table.widen(column, kind)

    def _kind(self, field: str) -> Kind:
        kind = self._kinds[field]
        return Kind.TEXT if kind is Kind.JSON and field in self._rows.key else kind
