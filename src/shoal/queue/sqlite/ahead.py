"""Preparing the next batch while the last one is being written."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from shoal.core.model import EnqueueReport


class Ahead:
    """Adds up the reports of batches, of which one at a time is under way."""

    def __init__(self) -> None:
        self.report = EnqueueReport()
        self._writing: asyncio.Task[EnqueueReport] | None = None

    async def add(self, batch: Coroutine[Any, Any, EnqueueReport]) -> None:
        """Wait for the last batch, and begin this one."""
        try:
            await self._finish()
        except BaseException:
            batch.close()
            raise
        self._writing = asyncio.create_task(batch)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self._finish()
        elif self._writing:
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _finish(self) -> None:
        writing, self._writing = self._writing, None
        if writing:
            self.report += await writing
