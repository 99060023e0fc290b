"""The closing lines of a run about what it has left out, with the options that would include it."""

from collections.abc import Sequence

from shoal.cli.left_out import missing_lines, reservation_lines
from shoal.cli.resume_command import again_command
from shoal.fleet.job import Job
from shoal.fleet.status.progress import Snapshot
from shoal.worker.counters import format_counts, top_counts
from shoal.worker.left_out import DEPTH, REUSED, SKIPPED, TRAPS, title_of


def left_out_lines(snapshot: Snapshot, job: Job, *, is_compared: bool = False) -> list[str]:
    """Return the closing lines of a run: its cuts, its missing pages, its skipped links and their options.

    The line of what `is_compared` with an earlier run has the pages that were not due.
    """
    reason = snapshot.reason if snapshot.is_cut else snapshot.lost_tasks
    lines = [f"Not complete: {reason}."] if reason else []
    if snapshot.stats.lost:
        lines.append(
            "To restore lost seeds, enqueue the same source into the run; lost links need a new run, "
            "because the pages that contain them are done."
        )
    lines += missing_lines(snapshot)
    lines += _links_not_followed(snapshot, but=tuple(REUSED.values()) if is_compared else ())
    lines += reservation_lines(snapshot)
    if DEPTH in snapshot.cuts:
        deepest = job.scraper.settings.max_depth
        deeper = f"max_depth={5 * deepest or 1}"
        again = again_command(job, snapshot.run.id, deeper)
        lines.append(f"Deeper:   {again or f'--set {deeper} (now {deepest}), in a new run'}")
    if TRAPS in snapshot.cuts:
        again = again_command(job, snapshot.run.id, "max_per_pattern=1000000")
        lines.append(f"Traps:    {again or '--set max_per_pattern=1000000 follows them too, in a new run'}")
    return lines


def _links_not_followed(snapshot: Snapshot, *, but: Sequence[str]) -> list[str]:
    lines, shown = [], []
    for title in ("Skipped by a step", "Not fetched", "Links not followed"):
        found = {
            reason.removeprefix(SKIPPED): links
            for reason, links in snapshot.not_followed.items()
            if title_of(reason) == title and reason not in but
        }
        if not found:
            continue
        counts = {reason: links.count for reason, links in found.items()}
        first = next(iter(found.values())).example
        example = f", for example {first}" if first else ""
        lines.append(f"{title}: {format_counts(counts)}{example}.")
        shown += [(reason, found[reason]) for reason, _ in top_counts(counts)]
    # Those of a cut have a line of their own.
    rules = [(reason, links.option) for reason, links in shown if links.option and not links.is_cut]
    return lines + [f"To follow those {reason} in a new run: {option}" for reason, option in rules]
