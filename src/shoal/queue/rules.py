"""What every backend asks of its callers, and the names it gives."""

import re
import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO, Outcome, RunSettings

_RUN_ID = re.compile(r"[A-Za-z0-9_.-]{1,100}")


def new_run_id(now: datetime) -> str:
    """Return a run id that sorts by time: `20260215_120000_ab12`."""
    return f"{now:%Y%m%d_%H%M%S}_{secrets.token_hex(2)}"


def check_run(scraper: str, settings: RunSettings, run_id: str | None) -> None:
    """Raise InvalidSetting unless a run can be made of these."""
    if not scraper or not scraper.isprintable():
        raise InvalidSetting("scraper", f"must be a printable name, got {scraper!r}")
    if run_id is not None and not _RUN_ID.fullmatch(run_id):
        raise InvalidSetting(
            "run_id", f"must be 1 to 100 letters, digits, '_', '-' or '.', got {run_id[:120]!r}"
        )
    if settings.host_delay < ZERO:
        raise InvalidSetting("host_delay", f"must not be negative, got {settings.host_delay}")
    if settings.per_host < 1:
        raise InvalidSetting("per_host", f"must be at least 1, got {settings.per_host}")
    if settings.max_attempts < 1:
        raise InvalidSetting("max_attempts", f"must be at least 1, got {settings.max_attempts}")
    if settings.ttl is not None and settings.ttl <= ZERO:
        raise InvalidSetting("ttl", f"must be more than zero, got {settings.ttl}")


def check_claim(limit: int, lease: timedelta) -> None:
    """Raise InvalidSetting unless a claim can be made with these."""
    if limit < 1:
        raise InvalidSetting("limit", f"must be at least 1, got {limit}")
    if lease <= ZERO:
        raise InvalidSetting("lease", f"must be more than zero, got {lease}")


def in_runs(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[int]]]:
    """Return the positions to obey, cut where the run changes; of two outcomes for a lease, the first."""
    first: dict[tuple[str, int], int] = {}
    for position, outcome in enumerate(outcomes):
        first.setdefault((outcome.lease.task_id, outcome.lease.token), position)
    for run_id, positions in groupby(first.values(), key=lambda p: outcomes[p].lease.run_id):
        yield run_id, list(positions)
