"""Each server's queue in turn: reached directly, and through a proxy that makes trouble."""

from collections.abc import AsyncIterator

import pytest

from shoal.queue.contract import Queue
from shoal.queue.open import open_queue
from tests.integration.stands import STANDS, Stand, proxy, shaky, talk  # noqa: F401 - fixtures


@pytest.fixture(params=list(STANDS))
def stand(request: pytest.FixtureRequest) -> Stand:
    return STANDS[request.param](request.getfixturevalue)


@pytest.fixture
async def queue(stand: Stand) -> AsyncIterator[Queue]:
    async with open_queue(stand.url) as queue:
        yield queue
        for run in await queue.runs():  # the broker serves all tests
            await queue.purge(run.id)
