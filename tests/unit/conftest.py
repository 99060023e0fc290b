"""A queue in a file of its own, which most tests of what stands above the queues take."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shoal.queue.contract import Queue
from shoal.queue.open import open_queue


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as opened:
        yield opened
