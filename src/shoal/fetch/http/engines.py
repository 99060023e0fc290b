"""Opens an HTTP fetcher by the name of its engine."""

from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.fetch.contract import DEFAULT_LIMITS, Fetcher, Limits
from shoal.fetch.egress import Egress

with suppress(ImportError):
    # Loaded before workers are forked. Where wreq cannot be installed, aiohttp must still work.
    import shoal.fetch.http.wreq  # noqa: F401

ENGINES = ("wreq", "aiohttp")


def open_engine(
    engine: str = "wreq",
    limits: Limits = DEFAULT_LIMITS,
    *,
    egress: Egress,
    user_agent: str,
    authorities: Path | None = None,
) -> Fetcher:
    """Return a fetcher that uses this engine; raises InvalidSetting if it is unknown or not installed."""
    if engine == "wreq":
        from shoal.fetch.http.wreq import WreqFetcher

        return WreqFetcher(limits, egress=egress, user_agent=user_agent, authorities=authorities)
    if engine == "aiohttp":
        from shoal.fetch.http.aiohttp import AioHttpFetcher

        return AioHttpFetcher(limits, egress=egress, user_agent=user_agent, authorities=authorities)
    close = get_close_matches(engine, ENGINES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known engines are {', '.join(ENGINES)}"
    raise InvalidSetting("engine", f"{engine!r} is not an HTTP engine; {hint}")
