"""A hostile origin, and a fetcher for each engine."""

import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shoal.fetch.contract import Fetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http.engines import ENGINES, open_engine
from tests.conftest import or_skip
from tests.integration.fetch.hostile import Origin
from tests.integration.fetch.nginx import Nginx
from tests.servers.process import find_program

LOOPBACK = "127.0.0.0/8"
USER_AGENT = "shoal-test/1.0"
OpenFetcher = Callable[..., Fetcher]


async def loopback(name: str) -> list[str]:
    """Resolves every name to this machine."""
    return ["127.0.0.1"]


@dataclass(frozen=True)
class Certificate:
    """A self-signed certificate."""

    file: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        return context


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine; every test that uses it runs with each."""
    return str(request.param)


@pytest.fixture
async def make_fetcher(engine: str) -> AsyncIterator[OpenFetcher]:
    """Opens fetchers that are closed after the test."""
    opened: list[Fetcher] = []

    def make(*args: object, egress: Egress | None = None, **more: object) -> Fetcher:
        door = egress or Egress([LOOPBACK], lookup=loopback)
        fetcher = open_engine(engine, *args, egress=door, user_agent=USER_AGENT, **more)  # type: ignore[arg-type]
        opened.append(fetcher)
        return fetcher

    yield make
    for fetcher in opened:
        await fetcher.close()


@pytest.fixture
def fetcher(make_fetcher: OpenFetcher) -> Fetcher:
    """A fetcher that may connect to this machine, by any name."""
    return make_fetcher()


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    """A server that sends what the test sets."""
    async with Origin() as server:
        yield server


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate for site.test and this machine."""
    openssl = or_skip(lambda: find_program("openssl", "openssl"))
    folder = tmp_path_factory.mktemp("certificate")
    made = Certificate(folder / "cert.pem", folder / "key.pem")
    names = "subjectAltName=DNS:site.test,IP:127.0.0.1"
    command = f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=site.test -addext {names}"
    subprocess.run(
        [openssl, *command.split(), "-keyout", made.key, "-out", made.file],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return made


@pytest.fixture
async def tls_origin(certificate: Certificate) -> AsyncIterator[Origin]:
    """The same server behind TLS."""
    async with Origin(tls=certificate.context()) as server:
        yield server


@pytest.fixture(scope="session")
def nginx(certificate: Certificate) -> Iterator[Nginx]:
    """A real web server that speaks HTTP/2."""
    with or_skip(lambda: Nginx(certificate.file, certificate.key)) as server:
        yield server
