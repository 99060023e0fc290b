"""What an export did."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.core.model import StoredItem
from shoal.export.contract import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How many items were written, of which steps, and how many were passed over."""

    steps: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    places: Mapping[str, str] = field(default_factory=dict)  # where each step went, if they were parted
    is_whole: bool = True  # False when it was stopped before the end

    @property
    def items(self) -> int:
        """All items that were written."""
        return sum(self.steps.values())


class Tally:
    """Counts what is handed to a writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._steps: Counter[str] = Counter()

    def add(self, items: Sequence[StoredItem]) -> None:
        """Count items that were handed over."""
        self._steps.update(item.step for item in items)

    def report(self, *, is_whole: bool = True) -> Report:
        """Return what the writer has made of them."""
        skipped = self._writer.skipped
        left = {step: count - skipped.get(step, 0) for step, count in self._steps.items()}
        steps = {step: count for step, count in left.items() if count}
        places = {step: place for step, place in self._writer.places.items() if step in steps}
        return Report(steps=steps, skipped=sum(skipped.values()), places=places, is_whole=is_whole)
