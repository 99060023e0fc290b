"""Stops a site after some pages until it is told to go on, and says when it has served as many as wanted."""

import asyncio


class Gate:
    """Counts the pages of a site since it was last told to hold; while it is closed, requests wait."""

    def __init__(self) -> None:
        self._served = self._passed = 0
        self._limit: int | None = None
        self._awaited: list[int] = []
        self._opened = asyncio.Event()

    def obey(self, order: str) -> None:
        """Do what a line says: `hold` after a number of pages, `go`, `tell` when a number was served."""
        match order.split():
            case ["hold", count]:
                self._limit, self._served, self._passed = int(count), 0, 0
                self._opened.clear()
            case ["go"]:
                self._limit = None
                self._opened.set()
            case ["tell", count]:
                self._awaited.append(int(count))
                self._tell()

    def count(self, *, is_gated: bool) -> None:
        """Count a page; `is_gated` if it had to pass the gate."""
        self._served += 1
        self._passed += is_gated
        self._tell()

    async def enter(self) -> None:
        """Return at once, or as soon as the gate opens."""
        while self._limit is not None and self._passed >= self._limit:
            await self._opened.wait()

    def _tell(self) -> None:
        for count in [one for one in self._awaited if self._served >= one]:
            self._awaited.remove(count)
            print(f"served {count}", flush=True)
