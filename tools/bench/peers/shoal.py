"""Shoal with everything on: an item for each task, counts, and politeness over a thousand hosts."""

from typing import Any

from tools.bench.child import Gate
from tools.bench.draining import claimer
from tools.bench.loading import enqueue


async def load(gate: Gate, *, number: int, address: str, jobs: int) -> dict[str, Any]:
    """Make the jobs."""
    return await enqueue(gate, number=number, address=address, count=jobs)


async def work(gate: Gate, *, number: int, address: str, loops: int) -> dict[str, Any]:
    """Do jobs until none is left."""
    return await claimer(gate, number=number, address=address, loops=loops)
