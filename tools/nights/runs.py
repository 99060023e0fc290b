"""Runs of the shop's scraper as a user types them."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCRAPER = Path(__file__).with_name("scraper.py")


@dataclass(frozen=True)
class Typed:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def row(self) -> dict[str, Any]:
        """The last line of its JSON."""
        return json.loads(self.out.splitlines()[-1])


async def shoal(*words: str, folder: Path, environment: Mapping[str, str] = {}) -> Typed:
    """Type a command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "shoal",
        *words,
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "160"} | dict(environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return Typed(process.returncode or 0, out.decode(), err.decode())


class Store:
    """A folder with a queue, in which each night is a run."""

    def __init__(self, folder: Path, site: str, queue: str = "") -> None:
        self.folder, self._site = folder, site
        self.queue = queue or f"sqlite:///{folder}/shoal.db"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(SCRAPER, folder / "shop.py")

    def copy(self, folder: Path) -> "Store":
        """Return a copy of a store on SQLite."""
        shutil.copytree(self.folder, folder)
        return Store(folder, self._site)

    async def size(self) -> str:
        """Say how many runs the store has, and how large it is."""
        runs = await shoal("runs", "--json", f"--queue={self.queue}", folder=self.folder)
        status = await shoal("status", "newest", "--json", f"--queue={self.queue}", folder=self.folder)
        held = status.row["store"]["bytes"]
        return f"{len(runs.out.splitlines())} runs in {held / 1e6:,.1f} MB"

    async def night(
        self, *words: str, settings: Sequence[str] = (), environment: Mapping[str, str] = {}
    ) -> Typed:
        """Scrape the shop."""
        given = [f"--set={setting}" for setting in settings]
        url = f"--url={self._site}/list/0"
        queue = f"--queue={self.queue}"
        return await shoal(
            "run", "shop.py", url, queue, *given, *words, folder=self.folder, environment=environment
        )
