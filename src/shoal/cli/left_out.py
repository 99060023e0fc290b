"""Lines about what a run has left out: missing pages and items, links not followed, first errors."""

import shlex
from collections.abc import Collection

from shoal.cli.console import counted, size_text
from shoal.cli.resume_command import again_command
from shoal.fleet.job import Job
from shoal.fleet.status.findings import EmptyFields, RunFindings
from shoal.fleet.status.progress import Snapshot
from shoal.worker.counters import FileCounts, format_counts, top_counts
from shoal.worker.left_out import DEPTH, LOST, SKIPPED, TRAPS

MAX_SHOWN = 3  # examples of missing pages
MAX_ERRORS = 5  # error classes of dead letters


def left_out_lines(snapshot: "Snapshot", job: "Job") -> list[str]:
    """Return the closing lines of a run: its cuts, its missing pages, its skipped links and their options."""
    reason = snapshot.reason if snapshot.is_cut else snapshot.lost_tasks
    lines = [f"Not complete: {reason}."] if reason else []
    if snapshot.stats.lost:
        lines.append(
            "To restore lost seeds, enqueue the same source into the run; lost links need a new run, "
            "because the pages that contain them are done."
        )
    lines += missing_lines(snapshot)
    lines += _links_not_followed(snapshot)
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


def hook_lines(snapshot: "Snapshot") -> list[str]:
    """Return the hooks of a run that failed, a line each."""
    failed = [record for record in snapshot.hooks.values() if record.has_failed]
    return [f"The hook {one.hook} failed: {one.error} (in process {one.process})." for one in failed]


def running_hook_lines(snapshot: "Snapshot") -> list[str]:
    """Return the hooks of a run that are called at this moment, a line each."""
    running = [record for record in snapshot.hooks.values() if record.is_running]
    return [f"The hook {one.hook} is running (in process {one.process})." for one in running]


def reservation_lines(snapshot: "Snapshot") -> list[str]:
    """Return that counts are lower bounds, after a worker was killed."""
    return [LOST] if snapshot.lost_counts else []


def file_words(files: "FileCounts") -> list[str]:
    """Return the files of a run in a few words, each only if there are any."""
    words = [f"{counted(files.stored, 'file')} ({size_text(files.bytes)})"] if files.stored else []
    words += [f"{counted(files.unchanged, 'file')} unchanged"] if files.unchanged else []
    words += [f"{counted(files.known, 'file')} stored before"] if files.known else []
    refused = ", ".join(f"{count:,} {reason}" for reason, count in sorted(files.refused.items()))
    total = sum(files.refused.values())
    return words + ([f"{counted(total, 'file')} refused ({refused})"] if total else [])


def missing_lines(snapshot: "Snapshot") -> list[str]:
    """Return how many pages were missing, with examples."""
    missing = snapshot.missing
    if not missing.count:
        return []
    examples = f", for example {', '.join(missing.examples[:MAX_SHOWN])}" if missing.examples else ""
    return [f"Missing: {counted(missing.count, 'page')} that links led to (404, 410){examples}."]


def skipped_link_lines(snapshot: "Snapshot") -> list[str]:
    """Return a line for each reason why links were not followed."""
    lines = []
    for why, links in snapshot.not_followed.items():
        example = f", for example {links.example}" if links.example else ""
        option = f"; to follow them in a new run: {links.option}" if links.option else ""
        if why.startswith(SKIPPED):
            lines.append(f"Skipped by a step: {links.count:,} {why.removeprefix(SKIPPED)}{example}")
        else:
            lines.append(f"Links not followed: {links.count:,} {why}{example}{option}")
    return lines


def _links_not_followed(snapshot: "Snapshot") -> list[str]:
    lines, shown = [], []
    for title, by_step in (("Skipped by a step", True), ("Links not followed", False)):
        found = {
            reason.removeprefix(SKIPPED): links
            for reason, links in snapshot.not_followed.items()
            if reason.startswith(SKIPPED) == by_step
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


def error_lines(found: RunFindings, *, shown: Collection[str]) -> list[str]:
    """Return the first errors of classes that are not shown already, in one line each."""
    new = [f"First {name}: {message}" for name, message in found.errors.items() if name not in shown]
    if len(new) > MAX_ERRORS:
        more = counted(len(new) - MAX_ERRORS, "more error class", "more error classes")
        return [*new[:MAX_ERRORS], f"Not shown here: {more}."]
    return new


def item_lines(found: RunFindings, snapshot: Snapshot, first_page: str | None) -> list[str]:
    """Return the first reason of a reject, and warnings about items that are missing or empty.

    `first_page` is a page that a step was given: the first tasks of a run may be missing pages.
    """
    stats, fetched = snapshot.stats, snapshot.pages
    lines = [f"First reject: {found.reject}"] if found.reject else []
    if fetched and not (stats.items or stats.rejected or stats.remaining):
        look = shlex.join(["shoal", "shell", first_page or "URL"])
        pages = counted(fetched, "page")
        lines.append(f"Warning: {pages} gave no items. Try the selectors on a page: {look}")
    return [*lines, *map(_warn_of_empty_fields, found.empty)]


def _warn_of_empty_fields(empty: EmptyFields) -> str:
    names, looked_at = ", ".join(empty.fields), counted(empty.items, "item")
    if empty.items == 1:
        return f"Warning: empty in the only item of step {empty.step}: {names}."
    return f"Warning: empty in all {looked_at} of step {empty.step} that were looked at: {names}."
