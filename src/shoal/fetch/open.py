"""Opens a fetcher by the name of its engine."""

from difflib import get_close_matches
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.fetch.contract import Fetcher
from shoal.fetch.egress import Egress
from shoal.fetch.limits import DEFAULT_LIMITS, Limits

ENGINES = ("wreq", "aiohttp")


def open_fetcher(
    engine: str = "wreq",
    limits: Limits = DEFAULT_LIMITS,
    *,
    egress: Egress,
    user_agent: str,
    authorities: Path | None = None,
) -> Fetcher:
    """Return a fetcher that uses the engine of this name; raises InvalidSetting."""
    # Imported when asked for: one engine must work where the other is not installed.
    if engine == "wreq":
        from shoal.fetch.http import HttpFetcher

        return HttpFetcher(limits, egress=egress, user_agent=user_agent, authorities=authorities)
    if engine == "aiohttp":
        from shoal.fetch.aio import AioHttpFetcher

        return AioHttpFetcher(limits, egress=egress, user_agent=user_agent, authorities=authorities)
    close = get_close_matches(engine, ENGINES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(ENGINES)}"
    raise InvalidSetting("engine", f"names no way to fetch: {engine!r}; {hint}")
