"""The errors of a run for the lines of a command: what retries wait for, and the first of each class."""

from shoal.core.model import Counts
from shoal.core.values import counted
from shoal.worker.counters import WorkerCounters, top_counts


def first_error_lines(tally: WorkerCounters) -> list[str]:
    """Return the first error of the most frequent classes, with its traceback."""
    lines = []
    for kind, count in top_counts(tally.errors):
        if kind in tally.first_errors:
            first, *traceback = tally.first_errors[kind].split("\n")
            lines.append(f"First of {count:,} {kind}: {first}" if count > 1 else f"{kind}: {first}")
            lines += [f"  {line}" for line in traceback]
    return lines


def retry_words(stats: Counts, tally: WorkerCounters, now: float) -> str | None:
    """Return which tasks a run waits for, if all that are left wait for a retry; `now` is the time of day."""
    if not stats.delayed or stats.pending or stats.leased or not tally.first_errors:
        return None
    kind = top_counts(tally.errors, 1)[0][0]
    error = tally.first_errors.get(kind, "").partition("\n")[0]
    left = tally.last_retry_at - now
    when = f", all within {left:,.0f} s" if left >= 1 else ""
    return f"a retry of {counted(stats.delayed, 'task')}{when} ({kind}{f': {error}' if error else ''})"
