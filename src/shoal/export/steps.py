"""One file or table for each step."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.core.model import StoredItem
from shoal.export.contract import Writer
from shoal.export.names import marked_name

STEP = "{step}"
LONGEST = 100  # bytes of a step's name in the name of a file


class StepWriter(Writer):
    """Parts items by their step; each step's writer is opened when its first item comes."""

    def __init__(
        self, place: Callable[[str], str], open_one: Callable[[str], Writer], *, survey: bool
    ) -> None:
        self._place, self._open_one = place, open_one
        self._writers: dict[str, Writer] = {}
        self._places: dict[str, str] = {}
        self.needs_survey = survey

    @property
    def skipped(self) -> Mapping[str, int]:
        return sum((Counter(writer.skipped) for writer in self._writers.values()), Counter())

    @property
    def places(self) -> Mapping[str, str]:
        return self._places

    def survey(self, items: Sequence[StoredItem]) -> None:
        for step, some in _by_step(items):
            self._writer(step).survey(some)

    def write(self, items: Sequence[StoredItem]) -> None:
        for step, some in _by_step(items):
            self._writer(step).write(some)

    def close(self) -> None:
        try:
            for writer in self._writers.values():
                writer.close()
        except BaseException:
            self.discard()  # does nothing to those that are closed
            raise

    def discard(self) -> None:
        for writer in self._writers.values():
            writer.discard()

    def _writer(self, step: str) -> Writer:
        if step not in self._writers:
            place = self._place(step)
            if place in self._places.values():
                raise InvalidSetting(
                    "--by-step", f"would put two steps into {place}. Export them with --step"
                )
            self._writers[step] = self._open_one(step)
            self._places[step] = place
        return self._writers[step]


def step_file(path: str, step: str, suffixes: Sequence[str]) -> str:
    """Return the file of a step: its name stands for {step}, or else before the suffix."""
    name = _safe(step)
    if STEP in path:
        return path.replace(STEP, name)
    lower = path.lower()
    suffix = next((f".{known}" for known in suffixes if lower.endswith(f".{known}")), Path(path).suffix)
    end = len(path) - len(suffix)
    return f"{path[:end]}.{name}{path[end:]}"


def step_table(table: str, step: str) -> str:
    """Return the table of a step: its name stands for {step}, or else behind the table's."""
    return table.replace(STEP, _safe(step)) if STEP in table else f"{table}_{_safe(step)}"


def _safe(step: str) -> str:
    """Return a name that leads into no other folder or schema, and that no other step has."""
    safe = "".join(char if char.isalnum() or char in "_-" else "_" for char in step)
    if safe == step and len(step.encode()) <= LONGEST:
        return step
    return marked_name(step, LONGEST, start=safe)


def _by_step(items: Sequence[StoredItem]) -> Iterator[tuple[str, list[StoredItem]]]:
    parted: dict[str, list[StoredItem]] = {}
    for item in items:
        parted.setdefault(item.step, []).append(item)
    yield from parted.items()
