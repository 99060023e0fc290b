"""Measures what the statistics of fields cost: runs with and without them, in turn, over the same pages."""

import asyncio
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from tests.integration.engine.origin import Origin
from tools.nights.runs import Store
from tools.nights.shop import Shop, Tonight

# What the command runs, but for the items that are read at its end.
WITHOUT = """
from shoal.__main__ import start
from shoal.fleet.run import judgement

async def read_profile(queue, run, stats, cut="", rules=()):
    return judgement.profile_without_items(run, stats, cut), lambda step, field, kind: None

judgement.read_profile = read_profile
start()
"""
LINK = "<li class='menu-item'><a class='menu-link' href='https://shop.example/{n}'>Category {n}</a></li>\n"


async def measure(folder: Path, products: int, rounds: int, size: int) -> None:
    """Print the CPU time of a page with the statistics and without; pages have `size` bytes."""
    menu = "".join(LINK.format(n=n) for n in range(size // len(LINK)))
    shop = Shop(products)
    shop.change(Tonight(html=lambda page, _: f"{page}<nav><ul>{menu}</ul></nav>"))
    times: dict[bool, list[float]] = {True: [], False: []}
    async with Origin(shop) as origin:
        for number in range(rounds + 1):
            for has_statistics in (True, False) if number % 2 else (False, True):
                store = Store(folder / f"{number}{has_statistics}", origin.url)
                seconds, pages = await _cpu_of_run(store, origin.url, has_statistics)
                if number:  # the first round reads all files
                    times[has_statistics].append(seconds / pages * 1e6)
    pairs = zip(times[True], times[False], strict=True)
    shares = ", ".join(f"{more / less - 1:+.1%}" for more, less in pairs)
    more, less = (statistics.median(times[one]) for one in (True, False))
    print(
        f"{products:,} products of {size:,} B: {more:,.0f} µs of CPU a page with statistics, {less:,.0f} "
        f"without ({more / less - 1:+.1%}; rounds {shares})",
        flush=True,
    )


async def _cpu_of_run(store: Store, url: str, has_statistics: bool) -> tuple[float, int]:
    start = ["-m", "shoal"] if has_statistics else ["-c", WITHOUT]
    words = ["run", "shop.py", f"--url={url}/list/0", f"--queue={store.queue}", "--json"]
    return await asyncio.to_thread(_run, [*start, *words], store.folder)


def _run(words: list[str], folder: Path) -> tuple[float, int]:
    with (folder / "out").open("w+") as out:
        process = subprocess.Popen(
            [sys.executable, *words], cwd=folder, stdout=out, stderr=subprocess.DEVNULL
        )
        _, process.returncode, usage = os.wait4(process.pid, 0)  # of the process and all below it
        out.seek(0)
        row = json.loads(out.read().splitlines()[-1])
    return usage.ru_utime + usage.ru_stime, row["pages"]
