"""Lines about what a run has left out: missing pages and items, links not followed, first errors."""

import shlex
from collections.abc import Collection
from pprint import pformat

from shoal.cli.console import counted, size_text
from shoal.core.model import Counts
from shoal.fleet.status.findings import EmptyFields, RunFindings
from shoal.fleet.status.progress import Snapshot
from shoal.worker.counters import FileCounts, WorkerCounters, top_counts
from shoal.worker.left_out import LOST, SKIPPED, title_of

MAX_ERRORS = 5  # error classes of dead letters
MAX_SHOWN = 3  # examples of missing pages


def stats_lines(snapshot: "Snapshot") -> list[str]:
    """Return the statistics that the scraper has counted itself, as Scrapy prints them."""
    stats = dict(snapshot.scraper_stats)
    return [f"Stats:\n{pformat(stats)}"] if stats else []


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
        lines.append(f"{title_of(why)}: {links.count:,} {why.removeprefix(SKIPPED)}{example}{option}")
    return lines


def first_error_lines(tally: WorkerCounters) -> list[str]:
    """Return the first error of the most frequent classes, with its traceback."""
    lines = []
    for kind, count in top_counts(tally.errors):
        if kind in tally.first_errors:
            first, *traceback = tally.first_errors[kind].split("\n")
            lines.append(f"First of {count:,} {kind}: {first}" if count > 1 else f"{kind}: {first}")
            lines += [f"  {line}" for line in traceback]
    return lines


def error_lines(found: RunFindings, *, shown: Collection[str]) -> list[str]:
    """Return the first errors of classes that are not shown already, in one line each."""
    new = [f"First {name}: {message}" for name, message in found.errors.items() if name not in shown]
    if len(new) > MAX_ERRORS:
        more = counted(len(new) - MAX_ERRORS, "more error class", "more error classes")
        return [*new[:MAX_ERRORS], f"Not shown here: {more}."]
    return new


def retry_words(stats: Counts, tally: WorkerCounters, now: float) -> str | None:
    """Return which tasks a run waits for, if all that are left wait for a retry; `now` is the time of day."""
    if not stats.delayed or stats.pending or stats.leased or not tally.first_errors:
        return None
    kind = top_counts(tally.errors, 1)[0][0]
    error = tally.first_errors.get(kind, "").partition("\n")[0]
    left = tally.last_retry_at - now
    when = f", all within {left:,.0f} s" if left >= 1 else ""
    return f"a retry of {counted(stats.delayed, 'task')}{when} ({kind}{f': {error}' if error else ''})"


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
    told = {(finding.step, finding.field) for finding in snapshot.findings}
    for empty in found.empty:
        names = [name for name in empty.fields if (empty.step, name) not in told]
        lines += [_warn_of_empty_fields(empty, names)] if names else []
    return lines


def _warn_of_empty_fields(empty: EmptyFields, names: Collection[str]) -> str:
    if empty.items == 1:
        return f"Warning: empty in the only item of step {empty.step}: {', '.join(names)}."
    looked_at = counted(empty.items, "item")
    return f"Warning: empty in all {looked_at} of step {empty.step} that were looked at: {', '.join(names)}."
