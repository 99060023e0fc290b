"""Why links are left out of a run: the option that follows them, and which reasons make the run partial."""

from collections.abc import Iterable

from shoal.queue.contract import SharedNotes

ROBOTS = "forbidden by robots.txt"
SKIPPED = "skipped: "  # by a step; the reason follows
TRAPS, DEPTH = "traps", "depth"

# By the reason, or its first word for traps. The names of `shoal.scrape.links.filter` are repeated here, so
# that a reader of the counts need not load the parser.
_CUTS = {"trap:": TRAPS, "too deep": DEPTH}
_OPTIONS = {
    "trap:": "--set max_per_pattern=1000000",
    "too deep": "--set max_depth=100",
    "out of scope": "--set scope=site or --set scope=any",
    ROBOTS: "--set robots=false",
}
_REASONS = {
    TRAPS: "links that look endless were not followed (max_per_pattern)",
    DEPTH: "links deeper than max_depth were not followed",
}
_TOPIC = "runs with links cut"


def option_for(reason: str) -> str | None:
    """Return the option that follows links which were left out for a reason, if there is one."""
    return _OPTIONS.get(_kind(reason))


def cut_of(reason: str) -> str | None:
    """Return whether a reason makes its run partial, and by what: traps or depth. Other reasons are rules."""
    return _CUTS.get(_kind(reason))


def describe_cuts(cuts: Iterable[str]) -> str:
    """Return why a run that has no tasks left is partial."""
    return "; ".join(_REASONS.get(cut, cut) for cut in cuts)


async def note_cuts(queue: SharedNotes, run_id: str, cuts: Iterable[str]) -> None:
    """Record that links of a run were cut."""
    await queue.write_notes(_TOPIC, {f"{run_id} {cut}": b"" for cut in cuts})


async def cuts_of(queue: SharedNotes, run_id: str) -> tuple[str, ...]:
    """Return by what links of a run were cut."""
    keys = {f"{run_id} {cut}": cut for cut in (TRAPS, DEPTH)}
    found = await queue.notes(_TOPIC, list(keys))
    return tuple(cut for key, cut in keys.items() if key in found)


async def forget_cuts(queue: SharedNotes, run_id: str) -> None:
    """Remove what was recorded of a run."""
    await queue.write_notes(_TOPIC, {f"{run_id} {cut}": None for cut in (TRAPS, DEPTH)})


def _kind(reason: str) -> str:
    return "trap:" if reason.startswith("trap:") else reason
