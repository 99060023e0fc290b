"""One file or table per step."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.tables.columns import hashed_name

STEP = "{step}"
MAX_NAME_BYTES = 100  # of a step's name within a file name


class StepWriter(Writer):
    """Splits items by step; the writer of a step is opened with its first item."""

    def __init__(
        self, location: Callable[[str], str], open_one: Callable[[str], Writer], *, survey: bool
    ) -> None:
        self._place, self._open_one = location, open_one
        self._writers: dict[str, Writer] = {}
        self._places: dict[str, str] = {}
        self.needs_survey = survey

    @property
    def skipped(self) -> Mapping[str, int]:
        return sum((Counter(writer.skipped) for writer in self._writers.values()), Counter())

    @property
    def locations(self) -> Mapping[str, str]:
        return self._places

    def survey(self, items: Sequence[StoredItem]) -> None:
        for step, batch in _by_step(items):
            self._writer(step).survey(batch)

    def write(self, items: Sequence[StoredItem]) -> None:
        for step, batch in _by_step(items):
            self._writer(step).write(batch)

    def close(self) -> None:
        try:
            for writer in self._writers.values():
                writer.close()
        except BaseException:
            self.discard()  # has no effect on closed writers
            raise

    def discard(self) -> None:
        for writer in self._writers.values():
            writer.discard()

    def _writer(self, step: str) -> Writer:
        if step not in self._writers:
            location = self._place(step)
            if location in self._places.values():
                raise InvalidSetting(
                    "--by-step", f"would write two steps to {location}. Export them separately with --step"
                )
            self._writers[step] = self._open_one(step)
            self._places[step] = location
        return self._writers[step]


def step_file(path: str, step: str, suffixes: Sequence[str]) -> str:
    """Return the file of a step: its name replaces {step}, or is inserted before the suffix."""
    name = _safe(step)
    if STEP in path:
        return path.replace(STEP, name)
    lower = path.lower()
    suffix = next((f".{known}" for known in suffixes if lower.endswith(f".{known}")), Path(path).suffix)
    end = len(path) - len(suffix)
    return f"{path[:end]}.{name}{path[end:]}"


def step_table(table: str, step: str) -> str:
    """Return the table of a step: its name replaces {step}, or is appended to the table name."""
    return table.replace(STEP, _safe(step)) if STEP in table else f"{table}_{_safe(step)}"


def _safe(step: str) -> str:
    """Return a name that cannot escape to another folder or schema, unique to the step."""
    safe = "".join(char if char.isalnum() or char in "_-" else "_" for char in step)
    if safe == step and len(step.encode()) <= MAX_NAME_BYTES:
        return step
    return hashed_name(step, MAX_NAME_BYTES, start=safe)


def _by_step(items: Sequence[StoredItem]) -> Iterator[tuple[str, list[StoredItem]]]:
    by_step: dict[str, list[StoredItem]] = {}
    for item in items:
        by_step.setdefault(item.step, []).append(item)
    yield from by_step.items()
