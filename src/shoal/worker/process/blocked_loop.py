"""Names a step or hook that blocks the event loop, with its stack: all other tasks of the worker wait."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta

from shoal.core.events import LOOP_BLOCKED, Event, Level
from shoal.core.failures import TRACEBACK
from shoal.core.model import Lease
from shoal.core.redact import shown_url
from shoal.scrape import hooks as hooks_module
from shoal.scrape import step
from shoal.scrape.hooks import Hook, ScraperHooks
from shoal.worker import hook_calls
from shoal.worker.failures.tracebacks import TracebackFormatter
from shoal.worker.ipc.step_markers import StepMarkers

LIMIT = 1.0  # seconds that a step may block the loop unnoticed
POLL_INTERVAL = timedelta(seconds=0.5)
CALLERS = (step.__file__, hooks_module.__file__, hook_calls.__file__)  # the files that call the user's code


class BlockedLoopWatch:
    """A thread that looks at the step markers now and then, and reports each step that blocks once.

    Tasks cost nothing: the markers are there for the supervisor. Code that holds the GIL all the time, such
    as a search by a regular expression, also stops this thread; the supervisor ends it at its time limit.
    """

    def __init__(
        self,
        markers: StepMarkers,
        lease_of: Callable[[int], Lease | None],
        report: Callable[[Event], None],
        tracebacks: TracebackFormatter,
        hooks: ScraperHooks,
    ) -> None:
        """Watch the event loop of the calling thread; `report` is called in another one."""
        self._hooks = hooks
        self._markers, self._lease_of, self._report = markers, lease_of, report
        self._tracebacks, self._loop_thread = tracebacks, threading.get_ident()
        self._reported: set[str] = set()
        self._over = threading.Event()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, name="blocked loop watch", daemon=True).start()

    def stop(self) -> None:
        """End the thread, without waiting for it."""
        self._over.set()

    def look(self, now: float) -> None:
        """Report the step that runs on the event loop for too long by now, if it was not reported yet."""
        marker = self._markers.loop_step()
        if marker is None or now - marker.since < LIMIT:
            return
        lease = self._lease_of(marker.number)
        frame = sys._current_frames().get(self._loop_thread)
        # The step may have ended in the meantime: then the stack is that of another one.
        if lease is None or frame is None or self._markers.loop_step() != marker:
            return
        hook = self._hooks.named_by([one.f_code for one, _ in traceback.walk_stack(frame)])
        name = str(hook or lease.task.step)
        if name in self._reported:
            return
        self._reported.add(name)
        stack = self._tracebacks.format_frames(_from_step(traceback.extract_stack(frame)))
        self._report(_event(lease, hook, now - marker.since, "\n".join(stack)))

    def _run(self) -> None:
        while not self._over.wait(POLL_INTERVAL.total_seconds()):
            self.look(time.monotonic())


def _from_step(stack: Sequence[traceback.FrameSummary]) -> Sequence[traceback.FrameSummary]:
    """Return the frames that the step or a hook has called; below them is what started the process."""
    callers = [index for index, frame in enumerate(stack) if frame.filename in CALLERS]
    return stack[callers[-1] + 1 :] if callers else stack


def _event(lease: Lease, hook: Hook | None, seconds: float, stack: str) -> Event:
    name, url = lease.task.step, lease.task.url
    # A hook runs on the event loop even if it is no coroutine.
    code, advice = f"Step {name!r}", "Await the call, or define the step with 'def' instead of 'async def'."
    if hook:
        code, advice = f"The hook {hook}", "Define it with 'async def', and await the call."
    message = (
        f"{code} has blocked the event loop for {seconds:.1f} s so far: all other tasks of the worker "
        f"wait. {advice}"
    )
    fields = {"task": lease.task_id, "step": name, "url": shown_url(url) if url else None}
    fields |= {"hook": str(hook)} if hook else {}
    return Event(
        at=time.time(),
        level=Level.WARNING,
        name=LOOP_BLOCKED,
        fields=fields | {"message": message, TRACEBACK: stack},
    )
