"""Opens a writer for a file name or a table address."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from shoal.core.errors import InvalidSetting
from shoal.export.contract import Writer
from shoal.export.steps import StepWriter, step_file, step_table
from shoal.export.tables.address import TableAddress, is_table, read_address
from shoal.export.target import STDOUT, OutputTarget, has_content, open_target

if TYPE_CHECKING:
    from shoal.export.tables.database import Table

Existing = Literal["replace", "refuse", "append"]
FORMATS = ("jsonl", "jsonl.gz", "csv", "parquet")
APPENDABLE = ("jsonl", "jsonl.gz", "csv")
LIVE = "jsonl"
ALIASES = {"ndjson": "jsonl"}
SUFFIXES = (*sorted(FORMATS, key=len, reverse=True), *ALIASES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WriterOptions:
    """How to write."""

    format: str | None
    columns: Sequence[str] | None
    envelope: bool
    raw: bool
    live: bool
    overwrite: bool
    existing: Existing


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
    overwrite: bool = False,
    existing: Existing = "replace",
) -> Writer:
    """Open a writer for a file, by its suffix unless a format is given; "-" is stdout.

    `postgresql://…/db?table=NAME` and `sqlite:///FILE?table=NAME` are tables; `key` identifies their rows.
    The file appears when the writer is closed, and replaces an existing one. With `live`, lines and rows are
    added immediately; an existing file is continued, unless `overwrite`. `existing` says what happens to a
    file that is there: it is replaced, refused, or appended to. Raises InvalidSetting.
    """
    location = str(path)
    options = _WriterOptions(
        format=format,
        columns=columns or None,
        envelope=envelope,
        raw=raw,
        live=live,
        overwrite=overwrite,
        existing=existing,
    )
    if is_table(location):
        return _open_tables(read_address(location, key), options, by_step)
    if key:
        raise InvalidSetting("--key", f"is for tables, and {location} is a file. Omit it")
    return _open_files(location, options, by_step)


def _open_tables(address: TableAddress, options: _WriterOptions, by_step: bool) -> Writer:
    from shoal.export.tables.upsert import TableWriter

    table = _table_factory(address)

    def open_table(address: TableAddress) -> Writer:
        return TableWriter(
            table(address),
            key=address.key,
            columns=options.columns,
            envelope=options.envelope,
            live=options.live,
            may_lack_key=by_step,  # the key of one step may be missing in another
        )

    def step_address(step: str) -> TableAddress:
        return address.renamed(step_table(address.table, step))

    if not by_step:
        return open_table(address)
    return StepWriter(
        lambda step: step_address(step).location,
        lambda step: open_table(step_address(step)),
        survey=not options.live,
    )


def _table_factory(address: TableAddress) -> "Callable[[TableAddress], Table]":
    """Return a factory for the tables of one database; they share a connection and a transaction."""
    if address.scheme == "sqlite":
        from shoal.export.tables.sqlite import SqliteTable
        from shoal.export.tables.sqlite_link import SqliteLink

        return partial(SqliteTable, link=SqliteLink(address.path))
    from shoal.export.tables.postgres import PostgresTable
    from shoal.export.tables.postgres_link import PostgresLink

    return partial(PostgresTable, link=PostgresLink(address))


def _open_files(path: str, options: _WriterOptions, by_step: bool) -> Writer:
    file_format = _format(path, options.format)
    _check_options(path, file_format, options, by_step)
    if not by_step:
        return _open_file(path, file_format, options)
    needs_survey = file_format == "parquet" or (file_format == "csv" and not options.columns)
    return StepWriter(
        lambda step: step_file(path, step, SUFFIXES),
        lambda step: _open_file(step_file(path, step, SUFFIXES), file_format, options),
        survey=needs_survey,
    )


def _check_options(path: str, file_format: str, options: _WriterOptions, by_step: bool) -> None:
    if options.live and file_format != LIVE:
        raise InvalidSetting(
            path, "cannot be written live. Use a .jsonl file or a table, or export after the run"
        )
    if path == STDOUT and file_format == "parquet":
        raise InvalidSetting("stdout", "cannot take Parquet. Use a file: items.parquet")
    if options.existing == "append" and file_format not in APPENDABLE:
        raise InvalidSetting(
            "--append",
            f"adds to .jsonl, .jsonl.gz and .csv files, and {path} is none. Choose such a file, or add "
            "--overwrite to replace it",
        )
    if path == STDOUT and by_step:
        raise InvalidSetting("stdout", "cannot be split by step. Use a file: items.jsonl")


def _open_file(path: str, file_format: str, options: _WriterOptions) -> Writer:
    if options.existing == "refuse" and has_content(path):
        more = ", or --append to add to it" if file_format in APPENDABLE else ""
        raise InvalidSetting(path, f"already exists. Add --overwrite to replace it{more}")
    is_appended = options.existing == "append"
    header = None
    if is_appended and file_format == "csv" and has_content(path):
        from shoal.export.files.csv import read_header

        header = read_header(path)
    target = open_target(path, live=options.live, overwrite=options.overwrite, append=is_appended)
    try:
        return _make_writer(file_format, target, options, header)
    except BaseException:
        target.discard()
        raise


def _make_writer(
    file_format: str, target: OutputTarget, options: _WriterOptions, header: Sequence[str] | None
) -> Writer:
    # Imported lazily, here and for tables: a run needs only one of them.
    match file_format:
        case "csv":
            from shoal.export.files.csv import CsvWriter

            return CsvWriter(
                target, columns=options.columns, envelope=options.envelope, raw=options.raw, header=header
            )
        case "parquet":
            from shoal.export.files.parquet import ParquetWriter

            return ParquetWriter(target, columns=options.columns, envelope=options.envelope)
        case "jsonl.gz":
            from shoal.export.files.jsonl import GzipJsonlWriter

            return GzipJsonlWriter(target, envelope=options.envelope)
        case _:
            from shoal.export.files.jsonl import JsonlWriter

            return JsonlWriter(target, envelope=options.envelope)


def _format(name: str, format: str | None) -> str:
    """Return the chosen format; raises InvalidSetting."""
    if format is not None:
        return _check_format(format.lower())
    if name == STDOUT:
        return LIVE
    lower = name.lower()
    for known in SUFFIXES:
        if lower.endswith(f".{known}"):
            return ALIASES.get(known, known)
    raise InvalidSetting(name, f"has no known suffix. {_hint(Path(lower).suffix[1:])}")


def _check_format(format: str) -> str:
    file_format = ALIASES.get(format, format)
    if file_format not in FORMATS:
        raise InvalidSetting("format", f"{format!r} is not supported. {_hint(format)}")
    return file_format


def _hint(given: str) -> str:
    close = get_close_matches(given, FORMATS, n=1)
    known = ", ".join(f".{known}" for known in FORMATS)
    return f"Did you mean .{close[0]}?" if close else f"Supported: {known}."
