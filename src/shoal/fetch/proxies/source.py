"""Where a worker's proxies come from, and when they change."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from shoal.core.errors import InvalidSetting, ShoalError
from shoal.core.http import Proxy
from shoal.core.proxies import MAX_PROXIES, Provider, ProxyRules, read_file, read_proxy_list
from shoal.core.tasks import call_function
from shoal.core.text import shorten

CHECK_INTERVAL_SECONDS = 2.0  # between two checks of a file
PROVIDER_TIMEOUT_SECONDS = 30.0  # that a provider may take
log = logging.getLogger("shoal.proxies")


class ProxySource:
    """Reads the proxies of the rules: from a list, a file, or a function."""

    def __init__(self, rules: ProxyRules, *, salt: bytes = b"") -> None:
        self._rules, self._salt = rules, salt
        self._stamp: tuple[int, int] | None = None
        self._last_failure = ""

    async def read(self) -> Sequence[Proxy]:
        """Return the current proxies; raises InvalidSetting."""
        if self._rules.provider:
            return await self._call_provider(self._rules.provider)
        if self._rules.file:
            self._stamp = _stamp(self._rules.file)
            return await asyncio.to_thread(read_file, self._rules.file, salt=self._salt)
        return read_proxy_list(self._rules.listed, what="entry", salt=self._salt)

    async def changes(self) -> Sequence[Proxy]:
        """Wait for a change, and return the new proxies; one that cannot be read is logged and ignored."""
        while True:
            await asyncio.sleep(self._interval())
            if self._rules.file and _stamp(self._rules.file) in (None, self._stamp):
                continue
            try:
                proxies = await self.read()
            except ShoalError as error:
                self._log_failure(str(error))
            else:
                self._last_failure = ""
                return proxies

    def _interval(self) -> float:
        if self._rules.provider:
            return self._rules.refresh.total_seconds()
        return CHECK_INTERVAL_SECONDS if self._rules.file else float(1 << 30)

    async def _call_provider(self, provider: Provider) -> Sequence[Proxy]:
        try:
            async with asyncio.timeout(PROVIDER_TIMEOUT_SECONDS):
                found = await call_function(provider)
        except TimeoutError:
            raise InvalidSetting(
                "proxies", f"function did not return within {PROVIDER_TIMEOUT_SECONDS:g} s"
            ) from None
        except Exception as error:
            # Its text may contain an address with a password.
            raise InvalidSetting("proxies", f"function failed: {type(error).__name__}") from None
        return read_proxy_list(_lines(found), what="entry", salt=self._salt)

    def _log_failure(self, text: str) -> None:
        if text != self._last_failure:
            log.warning("The old proxies stay in use: %s", shorten(text, 300))
        self._last_failure = text


def _lines(found: object) -> list[str]:
    if isinstance(found, str):
        return found.splitlines()
    if not isinstance(found, (list, tuple, set, frozenset)) or len(found) > MAX_PROXIES:
        raise InvalidSetting("proxies", "function must return a list of addresses")
    return list(found)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return what identifies a version of a file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
