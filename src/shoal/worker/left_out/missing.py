"""Followed links whose pages are missing (404, 410), counted per run in the queue with some examples.

Each worker writes one note with its own count. Readers add them up.
"""

from dataclasses import field
from datetime import timedelta
from typing import Any

import msgspec

from shoal.core.lazy.dataclasses import dataclass
from shoal.core.redact import bare_url
from shoal.queue.contract import SharedNotes

MISSING = frozenset({404, 410})
MAX_EXAMPLES = 5
COUNTS_TTL = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class MissingPages:
    """Pages that links led to and that do not exist."""

    count: int = 0
    examples: list[str] = field(default_factory=list)  # their URLs

    def with_one(self, url: str) -> "MissingPages":
        """Return the pages with one more."""
        some = self.examples if len(self.examples) >= MAX_EXAMPLES else [*self.examples, bare_url(url)]
        return MissingPages(self.count + 1, some)

    def as_json(self) -> dict[str, Any]:
        """Return the pages with the field names of every report."""
        return {"count": self.count, "examples": self.examples}

    def __add__(self, other: "MissingPages") -> "MissingPages":
        examples = [*self.examples, *other.examples][:MAX_EXAMPLES]
        return MissingPages(self.count + other.count, examples)


async def missing_pages(queue: SharedNotes, run_id: str) -> MissingPages:
    """Return the missing pages of a run so far."""
    notes = await queue.notes(_topic(run_id))
    return sum((_decode(notes[key].value) for key in sorted(notes)), MissingPages())


async def write_missing(queue: SharedNotes, run_id: str, worker_id: str, pages: MissingPages) -> None:
    """Record the missing pages of one worker."""
    await queue.write_notes(_topic(run_id), {worker_id: msgspec.json.encode(pages)}, ttl=COUNTS_TTL)


async def forget_missing(queue: SharedNotes, run_id: str) -> None:
    """Remove the counts of a run."""
    if found := await queue.notes(_topic(run_id)):
        await queue.write_notes(_topic(run_id), dict.fromkeys(found))


def _topic(run_id: str) -> str:
    return f"missing pages {run_id}"


_decode = msgspec.json.Decoder(MissingPages).decode
