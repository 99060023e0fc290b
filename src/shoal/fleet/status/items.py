"""A random sample of a run's items."""

import random
from collections.abc import AsyncIterator

from shoal.core.model import StoredItem


async def sample_of(
    source: AsyncIterator[StoredItem], size: int, chance: random.Random | None = None
) -> list[StoredItem]:
    """Return `size` random items of a stream in their order; only these are held in memory."""
    draw = chance or random.Random()
    kept: list[StoredItem] = []
    seen = 0
    async for item in source:
        seen += 1
        if len(kept) < size:
            kept.append(item)
        elif (place := draw.randrange(seen)) < size:
            kept[place] = item
    return sorted(kept, key=lambda item: item.id)
