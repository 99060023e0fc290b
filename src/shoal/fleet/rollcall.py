"""Who was born, ended and died among the workers of a crew, as its logs have it."""

from collections.abc import Callable
from typing import Any

from shoal.core.events import (
    BORN,
    DIED,
    ENDED,
    GIVEN_UP,
    QUEUE_AWAY,
    RESTARTED,
    SAID,
    STOPPING,
    Event,
    Level,
)
from shoal.fleet.logs import Library
from shoal.queue import patience
from shoal.worker.keeper import Ending

AWAY_EVERY = 60.0  # seconds
STOPS = {1: "finishing", 2: "handing back"}


class RollCall:
    """Writes the lives of workers down, in the fleet's log and in their own."""

    def __init__(self, logs: Library, run_id: str, on_output: Callable[[str], None]) -> None:
        # A stream has it as a line already.
        self.on_output = on_output if not logs.is_stream else lambda line: None
        self.logs, self.run_id = logs, run_id
        self.restarts = 0
        self._manned: set[int] = set()
        self._said_away = 0.0  # when a worker last said that it cannot go on without the queue

    def entry(self, number: int, worker_id: str) -> "Entry":
        """Begin the entry of a worker, who may take the place of one that died."""
        is_new = number not in self._manned
        self._manned.add(number)
        return Entry(self, number, worker_id, BORN if is_new else RESTARTED)

    def is_shown(self, event: Event) -> bool:
        """Tell whether a warning of a worker is shown; that it lacks the queue, once a minute for all."""
        if event.name != QUEUE_AWAY:
            return event.name == SAID
        # That it waits for the queue, the launcher says of itself, and the workers wait for the same one.
        if event.fields.get("logger") == patience.__name__ or event.at - self._said_away < AWAY_EVERY:
            return False
        self._said_away = event.at
        return True

    def stopping(self, times: int, in_hand: int) -> None:
        """Write down that the crew was asked to stop."""
        how = STOPS.get(times, "killing")
        self.logs.fleet.note(Level.INFO, STOPPING, run=self.run_id, how=how, in_hand=in_hand)

    def given_up(self, number: int, last: Ending, reason: str | None = None) -> None:
        """Write down that a place is not manned again and why, with the last that its worker printed."""
        facts: dict[str, Any] = {"run": self.run_id, "place": number + 1, "message": last.message}
        facts |= {"reason": reason} if reason else {}
        self.logs.fleet.note(Level.ERROR, GIVEN_UP, **facts, last_lines=last.last_lines)


class Entry:
    """What is written down of one worker."""

    def __init__(self, roll: RollCall, number: int, worker_id: str, birth: str) -> None:
        self._roll, self._birth, self._place = roll, birth, number + 1
        self._about = {"run": roll.run_id, "worker": worker_id}
        self._fleet, self._own = roll.logs.fleet, roll.logs.worker(self._place)

    def born(self) -> None:
        """Write down that the worker begins."""
        self._note(Level.INFO, self._birth)

    def ended(self, ending: Ending) -> Ending:
        """Write down how the worker ended, and pass it on."""
        facts = {"reason": ending.reason, "pages": ending.tally.pages, "items": ending.tally.items}
        if ending.reason in ("died", "failed"):
            self._note(Level.ERROR, DIED, message=ending.message, blamed=len(ending.blamed), **facts)
        else:
            self._note(Level.INFO, ENDED, **facts)
        return ending

    def printed(self, line: str) -> None:
        """Write down what the worker printed, and show it."""
        self._own.printed(line, **self._about)
        self._roll.on_output(line)

    def told(self, event: Event) -> None:
        """Write down what the worker told; a warning of a library is shown as if it were printed."""
        self._own.put(event, **self._about)
        if event.level >= Level.WARNING and self._roll.is_shown(event):
            self._roll.on_output(str(event.fields.get("message", "")))

    def _note(self, level: Level, name: str, **facts: Any) -> None:
        for book in (self._own,) if self._roll.logs.is_stream else (self._fleet, self._own):
            book.note(level, name, **self._about, place=self._place, **facts)
