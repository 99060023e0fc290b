"""Encrypted connections to every server, with an authority of its own and client certificates."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from shoal.core.errors import HandshakeFailed, InvalidSetting, QueueRefused, QueueUnavailable
from shoal.core.model import Task
from shoal.queue.address import shown_queue
from shoal.queue.open import open_queue
from tests.conformance.helpers import claim_one
from tests.conftest import or_skip
from tests.servers.certificates import Certificates
from tests.servers.postgres import USER, PostgresServer
from tests.servers.process import free_port, wait_until
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

AT_ONCE = 10.0  # seconds in which a final error must be reported; retries go on for thirty
HBA = "local all all trust\nhostssl all all 127.0.0.1/32 cert\n"
SCRAPER = """\
from shoal import Scraper, Task

echo = Scraper("echo", rate=None)

@echo.seeds
def names():
    for number in range(20):
        yield Task(step="greet", payload={"name": number})

@echo.step(fetch=None)
async def greet(task):
    yield {"name": task.payload["name"]}
"""


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with Certificates(USER) as made:
        yield made


@pytest.fixture(scope="module")
def encrypted_postgres(certificates: Certificates) -> Iterator[PostgresServer]:
    """A PostgreSQL that only accepts clients with a certificate."""
    settings = {
        "ssl": "on",
        "ssl_cert_file": str(certificates.certificate),
        "ssl_key_file": str(certificates.key),
        "ssl_ca_file": str(certificates.authority),
    }
    with or_skip(lambda: PostgresServer(settings=settings)) as server:
        (server.folder / "data" / "pg_hba.conf").write_text(HBA)
        server.restart()
        yield server


@pytest.fixture(scope="module")
def encrypted_redis(certificates: Certificates) -> Iterator[SimpleNamespace]:
    """A Redis with a port that only accepts clients with a certificate."""
    port = free_port()
    settings = {
        "tls-port": str(port),
        "tls-cert-file": str(certificates.certificate),
        "tls-key-file": str(certificates.key),
        "tls-ca-cert-file": str(certificates.authority),
    }
    with or_skip(lambda: RedisServer(settings=settings)) as server:
        yield SimpleNamespace(port=port, plain=server.port)


@pytest.fixture(scope="module")
def encrypted_rabbitmq(certificates: Certificates) -> Iterator[SimpleNamespace]:
    """A RabbitMQ with a port that only accepts clients with a certificate."""
    port = free_port()
    config = (
        f"listeners.ssl.1 = 127.0.0.1:{port}\n"
        f"ssl_options.cacertfile = {certificates.authority}\n"
        f"ssl_options.certfile = {certificates.certificate}\n"
        f"ssl_options.keyfile = {certificates.key}\n"
        "ssl_options.verify = verify_peer\n"
        "ssl_options.fail_if_no_peer_cert = true\n"
    )
    with or_skip(lambda: RabbitServer(more_config=config)) as server:
        wait_until(lambda: _listens(port), "the encrypted port to open", 30.0)
        yield SimpleNamespace(port=port, plain=server.port)


@pytest.fixture(params=["postgresql", "redis", pytest.param("rabbitmq", marks=pytest.mark.long)])
def secured(request: pytest.FixtureRequest, certificates: Certificates) -> SimpleNamespace:
    """Addresses of one server: the right one, and ones that cannot work."""
    return {"postgresql": _postgresql, "redis": _redis, "rabbitmq": _rabbitmq}[request.param](
        request, certificates
    )


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _postgresql(request: pytest.FixtureRequest, certificates: Certificates) -> SimpleNamespace:
    port = request.getfixturevalue("encrypted_postgres").port

    def url(authority: object, *, host: str = "127.0.0.1", client: bool = True) -> str:
        keys = (
            f"&sslcert={certificates.client_certificate}&sslkey={certificates.client_key}" if client else ""
        )
        return f"postgresql://{USER}@{host}:{port}/postgres?sslmode=verify-full&sslrootcert={authority}{keys}"

    return SimpleNamespace(url=url, no_client="requires a valid client certificate")


def _redis(request: pytest.FixtureRequest, certificates: Certificates) -> SimpleNamespace:
    port = request.getfixturevalue("encrypted_redis").port

    def url(authority: object, *, host: str = "127.0.0.1", client: bool = True) -> str:
        keys = f"&ssl_certfile={certificates.client_certificate}&ssl_keyfile={certificates.client_key}"
        return f"rediss://{host}:{port}/0?ssl_ca_certs={authority}{keys if client else ''}"

    return SimpleNamespace(url=url, no_client="requires a client certificate")


def _rabbitmq(request: pytest.FixtureRequest, certificates: Certificates) -> SimpleNamespace:
    port, state = request.getfixturevalue("encrypted_rabbitmq").port, request.getfixturevalue("redis_url")

    def url(authority: object, *, host: str = "127.0.0.1", client: bool = True) -> str:
        keys = (
            f"&certfile={certificates.client_certificate}&keyfile={certificates.client_key}" if client else ""
        )
        return f"amqps://guest:guest@{host}:{port}/?cafile={authority}{keys}&state={state}"

    return SimpleNamespace(url=url, no_client="requires? a client certificate")


async def refusal(
    url: str, kind: type[Exception] | tuple[type[Exception], ...], within: float = AT_ONCE
) -> str:
    """Return the message of opening this address, which must fail at once with an error of this kind."""
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        async with open_queue(url) as queue:
            await queue.start_run("books")
    assert time.monotonic() - began < within
    return str(caught.value)


async def test_tasks_pass_through_an_encrypted_connection(secured, certificates):
    async with open_queue(secured.url(certificates.authority)) as queue:
        run = await queue.start_run("books")
        await queue.enqueue(run.id, [Task(url=f"https://{number}.test/") for number in range(5)])
        claimed = [await claim_one(queue, run) for _ in range(5)]
        assert len({lease.task.url for lease in claimed}) == 5


async def test_a_certificate_of_another_authority_is_refused_at_once(secured, certificates):
    said = await refusal(secured.url(certificates.other_authority), HandshakeFailed)
    assert "its certificate cannot be verified: self-signed certificate in certificate chain" in said


async def test_a_certificate_for_another_host_is_refused_at_once(secured, certificates):
    said = await refusal(secured.url(certificates.authority, host="localhost"), HandshakeFailed)
    assert "not valid for 'localhost'" in said


async def test_a_server_that_requires_a_client_certificate_says_so(secured, certificates):
    # RabbitMQ may reset the connection before its alert is read; then it is tried again.
    url = secured.url(certificates.authority, client=False)
    said = await refusal(url, (QueueRefused, QueueUnavailable), within=60.0)
    assert re.search(secured.no_client, said)


async def test_a_certificate_file_that_is_missing_is_named(secured, tmp_path):
    said = await refusal(secured.url(tmp_path / "none.pem"), InvalidSetting)
    assert f"{tmp_path}/none.pem, which cannot be read: no such file or directory" in said


async def test_a_file_that_is_no_certificate_is_refused_at_once(secured, certificates):
    said = await refusal(secured.url(certificates.client_key), HandshakeFailed)
    assert "contains no certificate" in said


@pytest.mark.long
async def test_tls_to_a_port_without_it_is_named(encrypted_rabbitmq, certificates, redis_url):
    url = f"amqps://127.0.0.1:{encrypted_rabbitmq.plain}/?cafile={certificates.authority}&state={redis_url}"
    assert "does not use TLS on this port" in await refusal(url, HandshakeFailed)


async def test_options_of_tls_need_its_scheme():
    assert "Write rediss://" in await refusal("redis://localhost/0?ssl_cert_reqs=none", InvalidSetting)


@pytest.mark.parametrize(
    "url",
    [
        "rediss://localhost/0?ssl_password=correct-horse&ssl_certfile=/none.pem",
        "rediss://localhost/0?ssl_password=correct-horse&ssl_bogus=1",
    ],
)
async def test_the_password_of_a_key_is_not_shown(url):
    assert "correct-horse" not in await refusal(url, InvalidSetting)
    assert "correct-horse" not in shown_queue(url)


@pytest.mark.long
@pytest.mark.parametrize("secured", ["redis"], indirect=True)
def test_a_fleet_works_over_encrypted_connections(secured, certificates, tmp_path):
    (tmp_path / "echo.py").write_text(SCRAPER)
    command = [sys.executable, "-m", "shoal", "run", "echo.py", "--workers", "2"]
    done = subprocess.run(
        [*command, "--queue", secured.url(certificates.authority), "--out", "names.csv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "names.csv").read_text().splitlines()) == 21
