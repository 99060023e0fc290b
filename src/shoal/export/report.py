"""The result of an export."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.core.model import StoredItem
from shoal.export.contract import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How many items were written per step, and how many were skipped."""

    steps: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    locations: Mapping[str, str] = field(default_factory=dict)  # file or table of each step, if split by step
    is_complete: bool = True  # False if it was stopped early

    @property
    def items(self) -> int:
        """The number of items written."""
        return sum(self.steps.values())


class CountingWriter:
    """Counts the items that a writer gets."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._steps: Counter[str] = Counter()

    def add(self, items: Sequence[StoredItem]) -> None:
        """Count a batch of items."""
        self._steps.update(item.step for item in items)

    def report(self, *, is_complete: bool = True) -> Report:
        """Return the report of the writer."""
        skipped = self._writer.skipped
        left = {step: count - skipped.get(step, 0) for step, count in self._steps.items()}
        steps = {step: count for step, count in left.items() if count}
        locations = {step: location for step, location in self._writer.locations.items() if step in steps}
        return Report(
            steps=steps, skipped=sum(skipped.values()), locations=locations, is_complete=is_complete
        )
