"""URL files: one URL per line, a column of a table, or JSON lines; plain or gzipped, or standard input."""

from collections.abc import Iterator
from pathlib import PurePath

from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.model import Task
from shoal.core.values import hint
from shoal.discover.files.lines import Lines, LongLine
from shoal.discover.files.records import read_records
from shoal.discover.files.table import DEFAULT_COLUMNS, Columns, read_table
from shoal.discover.source import Found, Refusal, check_url, make_refusal, shown

FORMATS = ("txt", "csv", "tsv", "jsonl")

_SUFFIXES = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_UNSUPPORTED = {
    ".json",
    ".parquet",
    ".xls",
    ".xlsx",
    ".ods",
    ".zip",
    ".xml",
    ".html",
    ".htm",
    ".db",
    ".bz2",
    ".xz",
    ".zst",
}


class UrlFile:
    """A source: the tasks in a file, or in standard input for "-"."""

    def __init__(
        self,
        path: str,
        *,
        step: str = "main",
        format: str | None = None,
        columns: Columns = DEFAULT_COLUMNS,
        encoding: str | None = None,
    ) -> None:
        self.format = format_of(path, format)
        if columns != DEFAULT_COLUMNS and self.format == "txt":
            raise InvalidSetting(
                "column",
                f"and similar options are for tables; {path} is read as txt. Add: --format csv",
            )
        self._lines = Lines(path, encoding=encoding)
        self._step, self._columns = step, columns

    @property
    def where(self) -> str:
        """The position of the last line or row."""
        return self._lines.where

    def __iter__(self) -> Iterator[Found]:
        if self.format == "txt":
            return read_urls(self._lines, self._step)
        if self.format == "jsonl":
            return read_records(self._lines, self._step, self._columns)

        return read_table(self._lines, self._step, self._columns, "\t" if self.format == "tsv" else None)


def format_of(path: str, named: str | None = None) -> str:
    """Return the format of a file: `named`, or by the file name; raises InvalidSetting."""
    if named is not None:
        if named in FORMATS:
            return named
        raise InvalidSetting("format", f"{named!r} cannot be read. {hint(named, FORMATS)}")
    suffix = PurePath(path.lower().removesuffix(".gz")).suffix
    if suffix in _UNSUPPORTED:
        raise InvalidSetting(path, f"is not a URL file: save it as .txt, .csv or .jsonl{_advice(suffix)}")
    return _SUFFIXES.get(suffix, "txt")


def _advice(suffix: str) -> str:
    if suffix == ".json":
        return ", or if it has one object per line add: --format jsonl"
    return ", or read it as a sitemap from its site with --sitemap URL" if suffix == ".xml" else ""


def read_urls(lines: Lines, step: str) -> Iterator[Found]:
    """Yield a task for every line except empty ones and those that begin with #."""
    for line in lines:
        text = line.strip().lstrip("\ufeff")
        if isinstance(line, LongLine):
            yield Refusal(lines.where, shown(text), LongLine.reason)
        elif text and text[0] != "#":
            try:
                yield Task(url=check_url(text), step=step)
            except InvalidUrl as error:
                yield make_refusal(lines.where, text, error)
