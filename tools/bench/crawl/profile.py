"""Where a worker spends its CPU time: the share of each group of files."""

from collections.abc import Mapping, Sequence

# The first beginning of a file's path that fits decides.
_GROUPS = (
    ("fetch/", "fetch"),
    ("scrape/parsing/", "parse"),
    ("scrape/links/", "links"),
    ("scrape/scope", "links"),
    ("core/urls", "links"),
    ("scrape/", "step"),
    ("step", "step"),
    ("worker/requests/", "step"),
    ("worker/settling/", "settle"),
    ("queue/", "settle"),
    ("worker/ipc/", "IPC"),
    ("", "loop"),
)
EXPLANATION = """
The CPU time of a worker's main thread is sampled in a run of its own on SQLite. **step** has your code, the
items and the selectors, **links** the URLs, **settle** the calls of the queue, **IPC** the messages to the
supervisor, **loop** the event loop and the scheduling of tasks."""
GROUPS = tuple(dict.fromkeys(group for _, group in _GROUPS))


def group_of(file: str) -> str:
    """Return the group of a file of Shoal; the event loop's own time has none."""
    return next(group for beginning, group in _GROUPS if file.startswith(beginning))


def shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the share of each group, from the seconds of each file."""
    found = dict.fromkeys(GROUPS, 0.0)
    for file, spent in seconds.items():
        found[group_of(file)] += spent
    whole = sum(found.values()) or 1.0
    return {group: spent / whole for group, spent in found.items()}


def profile_lines(profiles: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """Return a line for each task: the percentage of each group."""
    return [(task, *(f"{100 * found[group]:.0f} %" for group in GROUPS)) for task, found in profiles.items()]


def profile_table(profiles: Mapping[str, Mapping[str, float]]) -> str:
    """Return the profiles in columns; nothing without any."""
    if not profiles:
        return ""
    lines: Sequence[tuple[str, ...]] = [("CPU time of a worker", *GROUPS), *profile_lines(profiles)]
    return "\n".join(f"{first:22}" + "".join(f"{cell:>8}" for cell in rest) for first, *rest in lines)


def profile_markdown(profiles: Mapping[str, Mapping[str, float]]) -> str:
    """Return the profiles as a table of the page; nothing without any."""
    if not profiles:
        return ""
    lines = [("CPU time of a worker", *GROUPS), ("---", *["--:"] * len(GROUPS)), *profile_lines(profiles)]
    return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), EXPLANATION])
