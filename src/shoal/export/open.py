"""Opening a writer by the name of its file."""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.export.contract import Writer
from shoal.export.csv import CsvWriter
from shoal.export.jsonl import GzipJsonlWriter, JsonlWriter
from shoal.export.parquet import ParquetWriter
from shoal.export.target import STDOUT, Target, open_target

FORMATS = ("jsonl", "jsonl.gz", "csv", "parquet")
LIVE = "jsonl"
ALIASES = {"ndjson": "jsonl"}


def open_writer(
    path: str | Path,
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    envelope: bool = False,
    raw: bool = False,
    live: bool = False,
) -> Writer:
    """Open a writer for a file, by its suffix unless a format is named; "-" is stdout.

    The file appears when the writer is closed, and replaces one of that name. With `live`, lines are added
    to it as they come. Raises InvalidSetting.
    """
    name = str(path)
    chosen = _format(name, format)
    if live and chosen != LIVE:
        raise InvalidSetting(name, "cannot grow as items come. Use a .jsonl file, or export it later")
    if name == STDOUT and chosen == "parquet":
        raise InvalidSetting("stdout", "takes no Parquet. Name a file: items.parquet")
    make = _maker(chosen, columns, envelope, raw)
    target = open_target(name, live=live)
    try:
        return make(target)
    except BaseException:
        target.discard()
        raise


def _maker(
    chosen: str, columns: Sequence[str] | None, envelope: bool, raw: bool
) -> Callable[[Target], Writer]:
    match chosen:
        case "csv":
            return partial(CsvWriter, columns=columns, envelope=envelope, raw=raw)
        case "parquet":
            return partial(ParquetWriter, columns=columns, envelope=envelope)
        case "jsonl.gz":
            return partial(GzipJsonlWriter, envelope=envelope)
        case _:
            return partial(JsonlWriter, envelope=envelope)


def _format(name: str, format: str | None) -> str:
    """Return the format that is meant; raises InvalidSetting."""
    if format is not None:
        return _known(format.lower())
    if name == STDOUT:
        return LIVE
    lower = name.lower()
    for known in (*FORMATS, *ALIASES):
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
