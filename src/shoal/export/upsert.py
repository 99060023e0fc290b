"""Items as rows of a table in a database, each in the place of its key."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from shoal.core.errors import ExportUnavailable, InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.columns import as_held, fits
from shoal.export.contract import Writer
from shoal.export.database import Column, Table
from shoal.export.keys import KeyedRows
from shoal.export.kinds import Kind, kind_of, wider
from shoal.export.names import ColumnNames
from shoal.export.table import Row, check_width


class TableWriter(Writer):
    """Puts each item into the row of its key, all of them at once when it is closed; `live` as they come.

    The columns are those that the items need; what a table has already stays as it is. That not one item has
    the key is an error, unless they may lack it.
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
        self._is_shaped = False
        self._given: ColumnNames | None = None
        self._columns: dict[str, Column] = {}
        self._made: set[str] = set()
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
                self._learn(found)
        check_width(self._kinds, self._table.rules.most)

    def write(self, items: Sequence[StoredItem]) -> None:
        rows, skipped = self._keyed(items)
        if rows:
            self._put(rows)
        self._has_written = self._has_written or bool(rows)
        self._skipped += skipped

    def close(self) -> None:
        try:
            if self._skipped and not self._has_written and not self._may_lack_key:
                raise self._rows.unheard_of()
            self._table.commit()
        finally:
            self._table.close()

    def discard(self) -> None:
        self._table.close()

    def _put(self, rows: list[Row]) -> None:
        try:
            if not self._is_shaped:
                self._shape()
            columns = list(self._columns.values())
            self._table.upsert(columns, self._key, [self._cells(one) for one in rows])
            if self._live:
                self._table.commit()
        except ExportUnavailable:
            if self._live:
                self._forget()
            raise

    def _forget(self) -> None:
        """Begin anew with the next rows: what was not committed, the table itself perhaps, is lost."""
        self._table.close()
        self._is_shaped = False

    def _cells(self, one: Row) -> list[Any]:
        return [as_held(one.get(field), column.holds) for field, column in self._columns.items()]

    @property
    def _key(self) -> list[str]:
        return [self._columns[field].name for field in self._rows.key]

    def _keyed(self, items: Sequence[StoredItem]) -> tuple[list[Row], Counter[str]]:
        """Return the rows of the items that have a key, and how many of which steps have none."""
        rows, skipped = [], Counter[str]()
        for item in items:
            found = self._rows.row(item)
            if found is None:
                skipped[item.step] += 1
            else:
                self._learn(found)
                rows.append(found)
        check_width(self._kinds, self._table.rules.most)
        return rows, skipped

    def _learn(self, found: Row) -> None:
        for field, value in found.items():
            known = self._kinds.get(field)
            kind = kind_of(value) if known is None else wider(known, kind_of(value))
            if kind is not known:
                self._kinds[field] = kind
                self._is_shaped = False

    def _shape(self) -> None:
        """Make the table fit for all kinds of values that were met."""
        there = self._table.columns()
        self._given = self._given or ColumnNames(self._table.rules, there)
        names = {field: self._given.of(field) for field in self._kinds}
        # A column without a value yet is not made: there is no telling of what type it will be.
        missing = {
            name: self._kind(field)
            for field, name in names.items()
            if name not in there and self._kinds[field] is not Kind.NOTHING
        }
        if there:
            self._extend(there, names, missing)
        else:
            self._table.create(missing, [names[field] for field in self._rows.key])
        self._made |= missing.keys()
        there = self._table.columns()
        self._columns = {field: there[name] for field, name in names.items() if name in there}
        self._is_shaped = True

    def _extend(
        self, there: Mapping[str, Column], names: Mapping[str, str], missing: Mapping[str, Kind]
    ) -> None:
        for field in self._rows.key:
            if names[field] in missing:
                reason = f"{field!r} is no column of {self._table.place}. Name one that is, or another table"
                raise InvalidSetting("--key", reason)
        for field, name in names.items():
            if name in there and not fits(self._kind(field), there[name].holds):
                self._widen(there[name], self._kind(field))
        if missing:
            self._table.add(missing)

    def _widen(self, column: Column, kind: Kind) -> None:
        # A column that was there before may be somebody's: its owner decides.
        if column.name not in self._made:
            raise InvalidSetting(
                self._table.place,
                f"has the column {column.name!r} of type {column.type}, and the items hold {kind.value}. "
                f"{self._table.advice(column, kind)}",
            )
        self._table.widen(column, kind)

    def _kind(self, field: str) -> Kind:
        kind = self._kinds[field]
        return Kind.TEXT if kind is Kind.NESTED and field in self._rows.key else kind
