"""Writers of plugins: their errors name the plugin, and say what to type, as those of Shoal's own do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from shoal.core.errors import ExportFailed, ShoalError
from shoal.core.failures import error_with_place
from shoal.core.model import StoredItem
from shoal.export.contract import Exporter, ExportOptions, Writer

METHODS = ("write", "close", "discard")


def guarded(name: str, exporter: Exporter) -> Exporter:
    """Return the exporter of a plugin with writers that raise ExportFailed, whatever the plugin raises."""

    def guard(open_it: Callable[[Any, ExportOptions], Writer], place: Any, options: ExportOptions) -> Writer:
        text = place if isinstance(place, str) else place.name
        with _translated(name, text):
            writer: Any = open_it(place, options)
            if not all(callable(getattr(writer, method, None)) for method in METHODS):
                raise TypeError(f"it returned a {type(writer).__name__}, and must return a Writer")
        return GuardedWriter(name, text, writer)

    open_file, open_address = exporter.open_file, exporter.open_address
    return replace(
        exporter,
        open_file=open_file and (lambda target, options: guard(open_file, target, options)),
        open_address=open_address and (lambda address, options: guard(open_address, address, options)),
    )


class GuardedWriter(Writer):
    """A writer of a plugin."""

    def __init__(self, name: str, place: str, writer: Writer) -> None:
        self._name, self._place, self._writer = name, place, writer
        self.needs_survey = bool(getattr(writer, "needs_survey", False))

    def survey(self, items: Sequence[StoredItem]) -> None:
        with _translated(self._name, self._place):
            self._writer.survey(items)

    def write(self, items: Sequence[StoredItem]) -> None:
        with _translated(self._name, self._place):
            self._writer.write(items)

    def close(self) -> None:
        with _translated(self._name, self._place):
            self._writer.close()

    def discard(self) -> None:
        with suppress(Exception):  # the error before it is the one to know
            self._writer.discard()

    @property
    def skipped(self) -> Mapping[str, int]:
        return getattr(self._writer, "skipped", {})

    @property
    def locations(self) -> Mapping[str, str]:
        return getattr(self._writer, "locations", {})


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
