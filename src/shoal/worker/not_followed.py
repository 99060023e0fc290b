"""The links that were not followed, counted per run in the queue, so that every report has them.

Each worker keeps one note with its own counts. Readers add the notes up.
"""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from shoal.core.errors import QueueError
from shoal.queue.contract import Queue
from shoal.worker.tally import Tally

if TYPE_CHECKING:
    from shoal.scrape.gate import Gate  # it loads the parser, which readers of the counts do without

EVERY = 5.0  # seconds
KEEP = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Links:
    """Links that were not followed for one reason."""

    count: int
    example: str | None = None  # the URL of one of them

    def as_json(self) -> dict[str, int | str | None]:
        """Return the links under the names that every report uses."""
        return {"count": self.count, "example": self.example}


def topic_of(run_id: str) -> str:
    """Return the topic of a run's counts."""
    return f"links not followed {run_id}"


async def links_not_followed(queue: Queue, run_id: str) -> dict[str, Links]:
    """Return the links that a run did not follow by reason, the most frequent reason first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str | None] = {}
    for note in (await queue.notes(topic_of(run_id))).values():
        for reason, (count, example) in _decode(note.value).items():
            counts[reason] += count
            examples.setdefault(reason, example)
    return {reason: Links(count, examples[reason]) for reason, count in counts.most_common()}


async def forget_links(queue: Queue, run_id: str) -> None:
    """Remove the counts of a run."""
    topic = topic_of(run_id)
    if found := await queue.notes(topic):
        await queue.write_notes(topic, dict.fromkeys(found))


class NotFollowed:
    """Writes down what one worker did not follow."""

    def __init__(self, queue: Queue, gate: "Gate", run_id: str, worker_id: str, tally: Tally) -> None:
        self._queue, self._gate, self._tally = queue, gate, tally
        self._topic, self._me = topic_of(run_id), worker_id
        self._told: dict[str, int] = {}

    async def run(self) -> None:
        """Write the counts down whenever they have changed, until cancelled."""
        while True:
            await asyncio.sleep(EVERY * random.uniform(0.8, 1.2))  # not all at once
            try:
                await self.tell()
            except QueueError:
                continue

    async def tell(self) -> None:
        """Write the counts down if they have changed."""
        counts = dict(self._tally.dropped)
        if counts == self._told:
            return
        value = {reason: (count, self._gate.examples.get(reason)) for reason, count in counts.items()}
        await self._queue.write_notes(self._topic, {self._me: msgspec.json.encode(value)}, ttl=KEEP)
        self._told = counts


_decode = msgspec.json.Decoder(dict[str, tuple[int, str | None]]).decode
