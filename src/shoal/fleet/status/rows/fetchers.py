"""The rows of proxies, Tor processes, API tokens and the cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.fleet.status.rows.row import Row, TableColumns

MAX_HOSTS_SHOWN = 3  # that block a proxy, in a table


@dataclass(kw_only=True)
class TokenRow(Row):
    """An API token by name, and its remaining quota."""

    columns = TableColumns(
        ("token", "state", "left", "limit", "resets_in", "reserved", "why"), drops=("reserved", "limit")
    )
    token: str
    state: str
    left: int | None
    limit: int | None
    resets_in_seconds: float | None
    reserved: int
    why: str | None
    runs: list[str]


@dataclass(kw_only=True)
class CacheUseRow(Row):
    """How many pages of a run were found in the cache, and how many were not."""

    columns = TableColumns(("run_id", "hits", "misses", "hit_rate"))
    run_id: str
    hits: int
    misses: int
    hit_rate: float

    def cells(self) -> dict[str, Any]:
        """Return the hit rate in percent."""
        return {"hit_rate": f"{self.hit_rate:.1%}"}


@dataclass(kw_only=True)
class CacheRow(Row):
    """The response cache, and its use by runs."""

    entries: int
    bytes: int
    oldest_seconds: float | None
    runs: list[CacheUseRow]


@dataclass(kw_only=True)
class ProxyRow(Row):
    """A proxy, as the whole fleet sees it."""

    columns = TableColumns(
        (
            *("proxy", "state", "pages", "success", "dead", "refused", "slow", "blocked", "seconds"),
            *("last_fault", "back_in", "blocked_by", "workers"),
        ),
        drops=("seconds", "slow", "refused", "dead", "last_fault", "blocked", "blocked_by", "workers"),
        folds=("proxy", "blocked_by", "last_fault", "workers"),
    )
    proxy: str
    state: str
    pages: int
    dead: int
    refused: int
    slow: int
    blocked: int
    seconds: float | None
    last_fault: str | None
    benched_for: str | None
    back_in_seconds: float | None
    blocked_by: list[str]
    success: float | None  # the part of its requests that returned a page
    workers: list[str]  # at work, and may use it

    def cells(self) -> dict[str, Any]:
        """Return the success rate, the time per page with two digits, and the first hosts and workers."""
        return {
            "success": f"{self.success:.0%}" if self.success is not None else None,
            "seconds": f"{self.seconds:.2f}" if self.seconds is not None else None,
            "blocked_by": _first(self.blocked_by),
            "workers": _first(self.workers),
        }


@dataclass(kw_only=True)
class TorRow(Row):
    """The Tor process of a worker."""

    columns = TableColumns(("worker", "state", "says", "renewed", "restarts"), drops=("restarts", "renewed"))
    worker: str
    state: str
    says: str
    renewed: int  # circuits that were replaced
    restarts: int


def _first(names: Sequence[str]) -> str | None:
    more = ", …" if len(names) > MAX_HOSTS_SHOWN else ""
    return ", ".join(names[:MAX_HOSTS_SHOWN]) + more or None
