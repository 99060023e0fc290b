"""A small site that every test has to itself, and a client at its first shop."""

from collections.abc import AsyncIterator

import pytest

from shoal.demo.site import Site
from tests.unit.demo.client import Client


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Two shops with a hundred products each: every kind of trouble is there."""
    async with Site(shops=2, products=200) as site:
        yield site


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    """A connection to the first shop."""
    async with Client(site.seeds[0]) as client:
        yield client
