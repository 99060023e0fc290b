"""Opens an HTTP fetcher by the name of its engine."""

from contextlib import suppress
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint
from shoal.fetch.contract import DEFAULT_LIMITS, Fetcher, Limits
from shoal.fetch.egress import Egress
from shoal.fetch.http.client import RedirectingClient

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
    """Return a fetcher that uses this engine; raises InvalidSetting if it is unknown or not installed.

    `authorities` is a PEM file of the certificates to trust instead of the system's.
    """
    if engine == "wreq":
        from shoal.fetch.http.wreq import WreqEngine

        return RedirectingClient(WreqEngine(limits, user_agent, authorities), egress, limits)
    if engine == "aiohttp":
        from shoal.fetch.http.aiohttp import AioHttpEngine

        return RedirectingClient(AioHttpEngine(limits, user_agent, authorities), egress, limits)
    raise InvalidSetting("engine", f"{engine!r} is not an HTTP engine. {hint(engine, ENGINES)}")
