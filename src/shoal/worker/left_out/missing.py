"""Followed links whose pages are missing (404, 410), counted per run in the queue with some examples."""

from dataclasses import dataclass, field

import msgspec

from shoal.core.redact import bare_url
from shoal.queue.contract import SharedNotes
from shoal.worker.left_out.notes import CountNotes

MISSING = frozenset({404, 410})
MAX_EXAMPLES = 5
MISSING_NOTES = CountNotes("missing pages")


@dataclass(frozen=True, slots=True)
class MissingPages:
    """Pages that links led to and that do not exist."""

    count: int = 0
    examples: list[str] = field(default_factory=list)  # their URLs

    def with_one(self, url: str) -> "MissingPages":
        """Return the pages with one more."""
        some = self.examples if len(self.examples) >= MAX_EXAMPLES else [*self.examples, bare_url(url)]
        return MissingPages(self.count + 1, some)

    def __add__(self, other: "MissingPages") -> "MissingPages":
        examples = [*self.examples, *other.examples][:MAX_EXAMPLES]
        return MissingPages(self.count + other.count, examples)


async def missing_pages(queue: SharedNotes, run_id: str) -> MissingPages:
    """Return the missing pages of a run so far."""
    notes = await MISSING_NOTES.read(queue, run_id)
    return sum((_decode(note.value) for note in notes.values()), MissingPages())


async def write_missing(queue: SharedNotes, run_id: str, worker_id: str, pages: MissingPages) -> None:
    """Record the missing pages of one worker."""
    await MISSING_NOTES.write(queue, run_id, worker_id, msgspec.json.encode(pages))


_decode = msgspec.json.Decoder(MissingPages).decode
