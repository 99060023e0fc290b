"""A small site per test, and a client connected to its first shop."""

from collections.abc import AsyncIterator

import pytest

from shoal.demo.site import DemoSite
from tests.unit.demo.client import Client


@pytest.fixture
async def site() -> AsyncIterator[DemoSite]:
    """Two shops with a hundred products each: every kind of fault occurs."""
    async with DemoSite(shops=2, products=200) as site:
        yield site


@pytest.fixture
async def client(site: DemoSite) -> AsyncIterator[Client]:
    """A connection to the first shop."""
    async with Client(site.seeds[0]) as client:
        yield client
