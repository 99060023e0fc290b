from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
import pytest_asyncio

from shoal.fetch.http.engines import open_engine
from shoal.fetch.tor.fetcher import TorEgress, TorFetcher
from shoal.fetch.tor.tor import Tor
from tests.conftest import or_skip
from tests.integration.tor.target import Target
from tests.servers.process import find_program
from tests.servers.tor import TorNetwork

UP = timedelta(seconds=90)
# A network of which nobody is there: a Tor of it never comes up, and asks nobody but this machine.
NOBODY = f"""
TestingTorNetwork 1
DirAuthority nobody orport=1 no-v2 v3ident={"A" * 40} 127.0.0.1:1 {"A" * 40}
"""


@pytest.fixture(scope="package")
def tor_network() -> Iterator[TorNetwork]:
    """A private Tor network."""
    with or_skip(TorNetwork) as network:
        yield network


@pytest.fixture
def lonely_torrc(tmp_path):
    """A file that makes a Tor belong to a network of nobody."""
    or_skip(lambda: find_program("tor", "tor"))
    file = tmp_path / "nobody.torrc"
    file.write_text(NOBODY)
    return file


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tor(tor_network: TorNetwork) -> AsyncIterator[Tor]:
    """A Tor that is up, for all tests of a module."""
    opened = await Tor.open(tor_network.torrc)
    try:
        await opened.wait_until_up(UP)
        yield opened
    finally:
        await opened.close()


@pytest_asyncio.fixture(loop_scope="module")
async def target() -> AsyncIterator[Target]:
    """A site that Tor's exits can reach."""
    async with Target() as site:
        yield site


def fetcher_by(tor: Tor, *, allow: tuple[str, ...] = (), **rules: object) -> TorFetcher:
    """Return a fetcher by this Tor; closing it ends the Tor."""
    direct = open_engine(egress=TorEgress(allow), user_agent="shoal-test/1.0")
    return TorFetcher(direct, tor, **rules)  # type: ignore[arg-type]
