"""The first error of each class for the closing lines of a command, with its traceback."""

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
