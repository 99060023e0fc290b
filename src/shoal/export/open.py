"""Opens a writer for a file name or an address."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from shoal.core.errors import InvalidSetting
from shoal.core.urls import is_object_url
from shoal.export.contract import Exporter, ExportOptions, Writer
from shoal.export.exporters import EXPORTERS, FILES, guarded
from shoal.export.objects import open_object
from shoal.export.steps import StepWriter, step_file
from shoal.export.tables.address import is_table, read_address
from shoal.export.target import STDOUT, OutputTarget, has_content, open_target

Existing = Literal["replace", "refuse", "append"]
LIVE = "jsonl"
ALIASES = ("ndjson",)
SUFFIXES = sorted(FILES, key=len, reverse=True)


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
    options = ExportOptions(
        columns=columns or None,
        key=key,
        envelope=envelope,
        raw=raw,
        live=live,
        appends=existing == "append",
        by_step=by_step,
    )
    if is_table(location):
        return _open_address(location, options)
    if key:
        raise InvalidSetting("--key", f"is for tables, and {location} is a file. Omit it")
    return _open_files(location, format, options, overwrite=overwrite, existing=existing)


def can_follow(path: str) -> bool:
    """Return whether items can be added to a file while a run stores them; raises InvalidSetting."""
    if is_table(path) or is_object_url(path):
        return False
    return path == STDOUT or exporter_of(path).can_follow


def exporter_of(path: str, format: str | None = None) -> Exporter:
    """Return the exporter of a file; raises InvalidSetting, or PluginFailed."""
    return _exporter(_format(path, format))


def _open_address(location: str, options: ExportOptions) -> Writer:
    scheme = location.partition(":")[0].lower()
    exporter = EXPORTERS.find(scheme)
    if exporter is None:
        read_address(location)  # raises, with what to type
    if exporter is None or exporter.open_address is None:
        raise InvalidSetting(f"{scheme}://…", f"is not supported; the exporter {scheme!r} writes files")
    if options.by_step and not exporter.splits_steps:
        raise InvalidSetting("--by-step", f"is not supported for {scheme}://… Export each step with --step")
    if options.live and not exporter.can_follow:
        raise InvalidSetting(f"{scheme}://…", "cannot be written live. Export after the run")
    if scheme not in EXPORTERS.builtin:
        exporter = guarded(scheme, exporter)
    assert exporter.open_address is not None  # as above
    return exporter.open_address(location, options)


def _open_files(
    path: str, format: str | None, options: ExportOptions, *, overwrite: bool, existing: Existing
) -> Writer:
    name = _format(path, format)
    exporter = _exporter(name)
    _check_options(path, name, exporter, options)

    def open_file(path: str) -> Writer:
        appends = options.appends and has_content(path)
        if is_object_url(path):
            target: OutputTarget = open_object(path, refuse=existing == "refuse")
        elif existing == "refuse" and has_content(path):
            more = ", or --append to add to it" if exporter.can_append else ""
            raise InvalidSetting(path, f"already exists. Add --overwrite to replace it{more}")
        else:
            target = open_target(path, live=options.live, overwrite=overwrite, append=appends)
        assert exporter.open_file  # as _exporter has checked
        try:
            return exporter.open_file(target, replace(options, by_step=False, appends=appends))
        except BaseException:
            target.discard()
            raise

    if not options.by_step:
        return open_file(path)
    suffixes = (name, *SUFFIXES)
    return StepWriter(
        lambda step: step_file(path, step, suffixes),
        lambda step: open_file(step_file(path, step, suffixes)),
        survey=exporter.needs_survey(options),
    )


def _check_options(path: str, name: str, exporter: Exporter, options: ExportOptions) -> None:
    if is_object_url(path) and (options.live or options.appends):
        raise InvalidSetting(
            "--follow" if options.live else "--append",
            f"adds to a file, and an object in {path.partition('://')[0]}:// is written whole. "
            "Export when the run has ended: shoal export RUN --to URL --overwrite",
        )
    if options.live and not exporter.can_follow:
        raise InvalidSetting(
            path, "cannot be written live. Use a .jsonl file or a table, or export after the run"
        )
    if path == STDOUT and not exporter.is_text:
        raise InvalidSetting("stdout", f"cannot take .{name} files. Use a file: items.{name}")
    if options.appends and not exporter.can_append:
        raise InvalidSetting(
            "--append",
            f"adds to .jsonl, .jsonl.gz and .csv files, and {path} is none. Choose such a file, or add "
            "--overwrite to replace it",
        )
    if path == STDOUT and options.by_step:
        raise InvalidSetting("stdout", "cannot be split by step. Use a file: items.jsonl")


def _exporter(name: str) -> Exporter:
    exporter = EXPORTERS.find(name)
    if exporter is None or exporter.open_file is None:
        raise InvalidSetting("format", f"{name!r} is not supported. {_hint(name)}")
    return exporter if name in EXPORTERS.builtin else guarded(name, exporter)


def _format(path: str, format: str | None) -> str:
    """Return the name of the chosen format; raises InvalidSetting."""
    if format is not None:
        return format.lower()
    if path == STDOUT:
        return LIVE
    lower = path.lower()
    # Plugins are looked up only for a suffix that Shoal does not have.
    if name := _suffix(lower, FILES) or _suffix(lower, EXPORTERS.plugin_names()):
        return name
    raise InvalidSetting(path, f"has no known suffix. {_hint(Path(lower).suffix[1:])}")


def _suffix(path: str, names: Iterable[str]) -> str | None:
    """Return the longest name that a path ends with."""
    return max((name for name in names if path.endswith(f".{name}")), key=len, default=None)


def _hint(given: str) -> str:
    own, plugins = [name for name in FILES if name not in ALIASES], EXPORTERS.plugin_names()
    if close := get_close_matches(given, [*own, *plugins], n=1):
        return f"Did you mean .{close[0]}?"
    more = f" Plugins: {', '.join(plugins)}." if plugins else ""
    return f"Supported: {', '.join(f'.{name}' for name in own)}.{more}"
