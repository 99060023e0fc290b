"""Where a worker's proxies come from, and what is new there."""

import asyncio
import inspect
import logging
from collections.abc import Sequence
from pathlib import Path

from shoal.core.errors import InvalidSetting, ShoalError, shorten
from shoal.core.exchange import Way
from shoal.core.ways import MOST_PROXIES, Provider, ProxyRules, read_file, read_ways

LOOK_EVERY = 2.0  # seconds between two looks at a file
PATIENCE = 30.0  # seconds that a provider may take
log = logging.getLogger("shoal.proxies")


class Source:
    """Reads the proxies that the rules name: from a list, a file, or a function."""

    def __init__(self, rules: ProxyRules, *, salt: bytes = b"") -> None:
        self._rules, self._salt = rules, salt
        self._stamp: tuple[int, int] | None = None
        self._complaint = ""

    async def read(self) -> Sequence[Way]:
        """Return the proxies of now; raises InvalidSetting."""
        if self._rules.provider:
            return await self._ask(self._rules.provider)
        if self._rules.file:
            self._stamp = _stamp(self._rules.file)
            return await asyncio.to_thread(read_file, self._rules.file, salt=self._salt)
        return read_ways(self._rules.listed, what="entry", salt=self._salt)

    async def changes(self) -> Sequence[Way]:
        """Wait for other proxies, and return them; what cannot be read is told, and the old ones stay."""
        while True:
            await asyncio.sleep(self._pause())
            if self._rules.file and _stamp(self._rules.file) in (None, self._stamp):
                continue
            try:
                ways = await self.read()
            except ShoalError as error:
                self._complain(str(error))
            else:
                self._complaint = ""
                return ways

    def _pause(self) -> float:
        if self._rules.provider:
            return self._rules.refresh.total_seconds()
        return LOOK_EVERY if self._rules.file else float(1 << 30)

    async def _ask(self, provider: Provider) -> Sequence[Way]:
        try:
            async with asyncio.timeout(PATIENCE):
                if inspect.iscoroutinefunction(provider):
                    found = await provider()
                else:
                    found = await asyncio.to_thread(provider)
                    found = await found if inspect.isawaitable(found) else found
        except TimeoutError:
            raise InvalidSetting("proxies", f"did not come from their function in {PATIENCE:g} s") from None
        except Exception as error:
            # Its text may hold an address with a password.
            raise InvalidSetting(
                "proxies", f"did not come from their function: {type(error).__name__}"
            ) from None
        return read_ways(_lines(found), what="entry", salt=self._salt)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            log.warning("The old proxies stay in use: %s", shorten(text, 300))
        self._complaint = text


def _lines(found: object) -> list[str]:
    if isinstance(found, str):
        return found.splitlines()
    if not isinstance(found, (list, tuple, set, frozenset)) or len(found) > MOST_PROXIES:
        raise InvalidSetting("proxies", "must come from their function as a list of addresses")
    return list(found)


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return by what a changed file is known; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
