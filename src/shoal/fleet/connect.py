"""Opens the queue and the project of a program: `shoal.connect`."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from shoal.fleet.app import App
from shoal.fleet.project.config import Config
from shoal.queue.address import one_address


class connect:
    """Connects to a queue: `async with shoal.connect("postgresql://…") as app`.

    The default address is SHOAL_QUEUE or the project's.
    Scrapers are named as in the project file of `folder`, or as FILE[:NAME].
    """

    def __init__(self, queue_url: str | None = None, *, folder: str | Path = ".") -> None:
        config = Config.read(Path(folder).absolute(), os.environ)
        config.export_others(os.environ)
        self._project, self._url = config.project, one_address(queue_url or config.queue)
        self._app: App | None = None

    def __await__(self) -> Generator[Any, None, App]:
        return self._open().__await__()

    async def __aenter__(self) -> App:
        self._app = await self._open()
        return self._app

    async def __aexit__(self, *exc: object) -> None:
        if self._app:
            await self._app.close()

    async def _open(self) -> App:
        return await App.open(self._url, self._project)
