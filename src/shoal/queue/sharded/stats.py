"""Counts of several servers, added; parcels are not counted."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from shoal.core.model import OUTBOX_STEP, Counts, Stats

_NAMES = [field.name for field in fields(Counts)]
_NONE = Counts()


def parcels_in(stats: Stats) -> Counts:
    """Return the counts of a server's parcels."""
    return stats.steps.get(OUTBOX_STEP, _NONE)


def add_stats(replies: Iterable[Stats]) -> Stats:
    """Return the counts of a run on all servers."""
    found = list(replies)
    totals = _add(found)
    for stats in found:
        for name, count in _add([parcels_in(stats)]).items():
            totals[name] -= count
    return Stats(
        **totals,
        steps=_add_groups(stats.steps for stats in found),
        partitions=_add_groups(stats.partitions for stats in found),
        lost=sum(stats.lost for stats in found),
    )


def add_counts(counts: Iterable[Counts]) -> Counts:
    """Add counts."""
    return Counts(**_add(counts))


def _add_groups(groups: Iterable[Mapping[str, Counts]]) -> dict[str, Counts]:
    by_name: dict[str, list[Counts]] = {}
    for group in groups:
        for name, counts in group.items():
            if name != OUTBOX_STEP:
                by_name.setdefault(name, []).append(counts)
    return {name: add_counts(some) for name, some in by_name.items()}


def _add(counts: Iterable[Counts]) -> dict[str, Any]:
    totals = dict.fromkeys(_NAMES, 0)
    for one in counts:
        for name in _NAMES:
            totals[name] += getattr(one, name)
    return totals
