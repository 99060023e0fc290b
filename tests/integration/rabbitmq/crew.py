"""Workers and producers in processes of their own, and what they report as a line of JSON."""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

ROOT = Path(__file__).parents[3]


async def reports_of(program: str, orders: Sequence[dict[str, Any]], within: float = 90) -> list[Any]:
    """Run a program once for each order, all at the same time, and return what they report."""
    processes = await asyncio.gather(*(_spawn(program, order) for order in orders))
    try:
        async with asyncio.timeout(within):
            answers = await asyncio.gather(*(process.communicate() for process in processes))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    for process, (_, complaint) in zip(processes, answers, strict=True):
        assert process.returncode == 0, complaint.decode()
    return [json.loads(answer) for answer, _ in answers]


async def _spawn(program: str, orders: dict[str, Any]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", f"{__package__}.{program}", json.dumps(orders)),
        stdout=PIPE,
        stderr=PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
