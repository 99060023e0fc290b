"""Opening a writer by the name of its file, or the address of its table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core.errors import InvalidSetting
from shoal.export.address import TableAddress, is_table, read_address
from shoal.export.contract import Writer
from shoal.export.steps import StepWriter, step_file, step_table
from shoal.export.target import STDOUT, Target, open_target

if TYPE_CHECKING:
    from shoal.export.database import Table

FORMATS = ("jsonl", "jsonl.gz", "csv", "parquet")
LIVE = "jsonl"
ALIASES = {"ndjson": "jsonl"}
SUFFIXES = (*sorted(FORMATS, key=len, reverse=True), *ALIASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    """How things are to be written."""

    format: str | None
    columns: Sequence[str] | None
    envelope: bool
    raw: bool
    live: bool
    anew: bool


def open_writer(
    path: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    key: Sequence[str] = (),
    by_step: bool = False,
    envelope: bool = False,
    raw: bool = False,
    live: bool = False,
    anew: bool = False,
) -> Writer:
    """Open a writer for a file, by its suffix unless a format is named; "-" is stdout.

    `postgresql://…/db?table=NAME` and `sqlite:///FILE?table=NAME` are tables, whose rows are known by `key`.
    The file appears when the writer is closed, and replaces one of that name. With `live`, lines and rows are
    added as they come, to a file that goes on or begins `anew`. Raises InvalidSetting.
    """
    place = str(path)
    wishes = _Wishes(format=format, columns=columns or None, envelope=envelope, raw=raw, live=live, anew=anew)
    if is_table(place):
        return _open_tables(read_address(place, key), wishes, by_step)
    if key:
        raise InvalidSetting("--key", f"is for tables, and {place} is a file. Leave it out")
    return _open_files(place, wishes, by_step)


def _open_tables(address: TableAddress, wishes: _Wishes, by_step: bool) -> Writer:
    from shoal.export.upsert import TableWriter

    table = _tables(address)

    def one(address: TableAddress) -> Writer:
        return TableWriter(
            table(address),
            key=address.key,
            columns=wishes.columns,
            envelope=wishes.envelope,
            live=wishes.live,
            may_lack_key=by_step,  # what is the key of one step need not be known to another
        )

    def of_step(step: str) -> TableAddress:
        return address.renamed(step_table(address.table, step))

    if not by_step:
        return one(address)
    return StepWriter(
        lambda step: of_step(step).place, lambda step: one(of_step(step)), survey=not wishes.live
    )


def _tables(address: TableAddress) -> "Callable[[TableAddress], Table]":
    """Return what makes tables of one database, which share a connection and a transaction."""
    if address.scheme == "sqlite":
        from shoal.export.sqlite import SqliteTable
        from shoal.export.sqlite_link import SqliteLink

        return partial(SqliteTable, link=SqliteLink(address.path))
    from shoal.export.postgres import PostgresTable
    from shoal.export.postgres_link import PostgresLink

    return partial(PostgresTable, link=PostgresLink(address))


def _open_files(path: str, wishes: _Wishes, by_step: bool) -> Writer:
    chosen = _format(path, wishes.format)
    _check(path, chosen, wishes, by_step)
    if not by_step:
        return _open_file(path, chosen, wishes)
    needs_survey = chosen == "parquet" or (chosen == "csv" and not wishes.columns)
    return StepWriter(
        lambda step: step_file(path, step, SUFFIXES),
        lambda step: _open_file(step_file(path, step, SUFFIXES), chosen, wishes),
        survey=needs_survey,
    )


def _check(path: str, chosen: str, wishes: _Wishes, by_step: bool) -> None:
    if wishes.live and chosen != LIVE:
        raise InvalidSetting(
            path, "cannot grow as items come. Use a .jsonl file or a table, or export it later"
        )
    if path == STDOUT and chosen == "parquet":
        raise InvalidSetting("stdout", "takes no Parquet. Name a file: items.parquet")
    if path == STDOUT and by_step:
        raise InvalidSetting("stdout", "cannot be parted by step. Name a file: items.jsonl")


def _open_file(path: str, chosen: str, wishes: _Wishes) -> Writer:
    target = open_target(path, live=wishes.live, anew=wishes.anew)
    try:
        return _make(chosen, target, wishes)
    except BaseException:
        target.discard()
        raise


def _make(chosen: str, target: Target, wishes: _Wishes) -> Writer:
    # Not at the top, here and for tables: every run writes somewhere, and needs one of them.
    match chosen:
        case "csv":
            from shoal.export.csv import CsvWriter

            return CsvWriter(target, columns=wishes.columns, envelope=wishes.envelope, raw=wishes.raw)
        case "parquet":
            from shoal.export.parquet import ParquetWriter

            return ParquetWriter(target, columns=wishes.columns, envelope=wishes.envelope)
        case "jsonl.gz":
            from shoal.export.jsonl import GzipJsonlWriter

            return GzipJsonlWriter(target, envelope=wishes.envelope)
        case _:
            from shoal.export.jsonl import JsonlWriter

            return JsonlWriter(target, envelope=wishes.envelope)


def _format(name: str, format: str | None) -> str:
    """Return the format that is meant; raises InvalidSetting."""
    if format is not None:
        return _known(format.lower())
    if name == STDOUT:
        return LIVE
    lower = name.lower()
    for known in SUFFIXES:
        if lower.endswith(f".{known}"):
            return ALIASES.get(known, known)
    raise InvalidSetting(name, f"has no suffix that says how to write it. {_hint(Path(lower).suffix[1:])}")


def _known(format: str) -> str:
    chosen = ALIASES.get(format, format)
    if chosen not in FORMATS:
        raise InvalidSetting("format", f"{format!r} is not known. {_hint(format)}")
    return chosen


def _hint(meant: str) -> str:
    close = get_close_matches(meant, FORMATS, n=1)
    known = ", ".join(f".{known}" for known in FORMATS)
    return f"Did you mean .{close[0]}?" if close else f"Known are {known}."
