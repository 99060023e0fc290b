"""The exporters by suffix and by scheme: Shoal's own, and those of installed packages."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import MethodType
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import ExportFailed, ShoalError
from shoal.core.failures import error_with_place
from shoal.export.contract import Exporter, ExportOptions, Writer
from shoal.export.files.csv import CsvWriter
from shoal.export.files.jsonl import GzipJsonlWriter, JsonlWriter
from shoal.export.target import OutputTarget
from shoal.registry.registry import Registry
from shoal.registry.signatures import check_call


def guarded(name: str, exporter: Exporter) -> Exporter:
    """Return the exporter of a plugin with writers that raise ExportFailed, whatever the plugin raises."""

    def guard(open_it: Callable[[Any, ExportOptions], Writer], place: Any, options: ExportOptions) -> Writer:
        text = place if isinstance(place, str) else place.name
        with _translated(name, text):
            writer: Any = open_it(place, options)
            if not isinstance(writer, Writer):
                raise TypeError(f"it returned a {type(writer).__name__}, and must return a Writer")
        guards = dict.fromkeys(("survey", "write", "close"), _translated(name, text))
        for method, wrapped in {**guards, "discard": _ignored()}.items():
            # The method of the class: a writer may be returned twice. By `object`: it may be frozen.
            unwrapped = MethodType(getattr(type(writer), method), writer)
            object.__setattr__(writer, method, wrapped(unwrapped))
        return writer

    open_file, open_address = exporter.open_file, exporter.open_address
    return replace(
        exporter,
        open_file=open_file and (lambda target, options: guard(open_file, target, options)),
        open_address=open_address and (lambda address, options: guard(open_address, address, options)),
    )


@contextmanager
def _translated(name: str, place: str) -> Iterator[None]:
    try:
        yield
    except ShoalError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"the exporter {name!r} failed: {error_with_place(error)}"
        raise ExportFailed(
            place, reason, "Fix the plugin or choose another format, then export again"
        ) from error


@contextmanager
def _ignored() -> Iterator[None]:
    with suppress(Exception):  # the error before it is the one to know
        yield


def _open_parquet(target: OutputTarget, options: ExportOptions) -> Writer:
    from shoal.export.files.parquet import ParquetWriter

    return ParquetWriter(target, options)


def _open_tables(location: str, options: ExportOptions) -> Writer:
    from shoal.export.open_tables import open_tables

    return open_tables(location, options)


def _read_exporter(value: object) -> Exporter:
    if not isinstance(value, Exporter) or not (value.open_file or value.open_address):
        raise TypeError("it must be a shoal.plugins.Exporter with open_file or open_address")
    for name, function in (("open_file", value.open_file), ("open_address", value.open_address)):
        if function is None:
            continue
        check_call(function, 2, f"its {name} must take a target and ExportOptions, and return a Writer")
        if isinstance(function, type) and not issubclass(function, Writer):
            raise TypeError(f"its {name} must be a subclass of shoal.plugins.Writer, or a function")
    check_call(value.needs_survey, 1, "its needs_survey must be a function of ExportOptions")
    return value


_JSONL = Exporter(open_file=JsonlWriter, can_append=True, can_follow=True)
_TABLE = Exporter(open_address=_open_tables, can_follow=True, splits_steps=True)
_BUILTIN: dict[str, Exporter] = {
    "jsonl": _JSONL,
    "ndjson": _JSONL,
    "jsonl.gz": Exporter(open_file=GzipJsonlWriter, can_append=True),
    "csv": Exporter(open_file=CsvWriter, can_append=True, needs_survey=lambda options: not options.columns),
    "parquet": Exporter(open_file=_open_parquet, is_text=False, needs_survey=lambda options: True),
    "sqlite": _TABLE,
    "postgresql": _TABLE,
    "postgres": _TABLE,
}
EXPORTERS: Registry[Exporter] = Registry(
    "shoal.exporters",
    "exporter",
    {name: partial(_BUILTIN.__getitem__, name) for name in _BUILTIN},
    _read_exporter,
)
FILES = tuple(name for name, exporter in _BUILTIN.items() if exporter.open_file)
