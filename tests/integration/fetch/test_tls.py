"""TLS: which certificates are trusted, and which protocol is negotiated."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from shoal.core.errors import BrokenAnswer, FetchError, FetchTimeout, TlsFailed
from shoal.core.http import Request
from shoal.fetch.egress import Egress
from tests.integration.fetch.hostile import Origin, page
from tests.integration.fetch.nginx import LONG, PAGE


def fetch(fetcher, url, seconds=10):
    return fetcher.fetch(Request(url=url, timeout=timedelta(seconds=seconds)))


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted(fetcher, tls_origin):
    tls_origin.on("/", page())
    for host in ("127.0.0.1", "site.test"):
        with pytest.raises(
            TlsFailed,
            match=f"{host}:{tls_origin.port}: its (TLS|certificate) cannot be trusted: ",
        ):
            await fetch(fetcher, tls_origin.url(host=host))
    assert tls_origin.asked == []


async def test_it_is_trusted_when_the_operator_says_so(make_fetcher, certificate, tls_origin):
    fetcher = make_fetcher(authorities=certificate.file)
    tls_origin.on("/", page())
    for host in ("127.0.0.1", "site.test"):
        assert (await fetch(fetcher, tls_origin.url(host=host))).body == b"hello"


async def test_a_certificate_for_another_name_is_not_trusted(make_fetcher, certificate, tls_origin):
    fetcher = make_fetcher(authorities=certificate.file)
    with pytest.raises(TlsFailed):
        await fetch(fetcher, tls_origin.url(host="other.test"))
    assert tls_origin.asked == []


@pytest.mark.parametrize("fault", ["expired", "other.test", "unknown"])
async def test_the_reason_is_named_or_the_command_that_shows_it(make_fetcher, tmp_path, engine, fault):
    ours, more = trustme.CA(), {}
    ours.cert_pem.write_to_path(tmp_path / "authority.pem")
    if fault == "expired":
        more["not_after"] = datetime.now(UTC) - timedelta(days=1)
    signer = trustme.CA() if fault == "unknown" else ours
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    signer.issue_cert("other.test" if fault == "other.test" else "site.test", **more).configure_cert(context)
    async with Origin(tls=context) as origin:
        with pytest.raises(TlsFailed) as caught:
            await fetch(make_fetcher(authorities=tmp_path / "authority.pem"), origin.url(host="site.test"))
    said = str(caught.value)
    if engine == "wreq":
        assert f"openssl s_client -connect site.test:{origin.port} -servername site.test" in said
        assert "has expired, is for another host, or nobody known has signed it" in said
    else:
        assert {"expired": "expired", "other.test": "mismatch", "unknown": "issuer"}[fault] in said
    assert origin.asked == []


async def test_a_host_that_does_not_speak_tls_fails(make_fetcher, origin):
    async def plain(reader, writer):
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(TlsFailed):
        await fetch(make_fetcher(), f"https://127.0.0.1:{port}/")
    server.close()
    await server.wait_closed()


async def test_a_host_that_only_speaks_tls_gives_no_answer_in_the_clear(fetcher, tls_origin):
    with pytest.raises(BrokenAnswer):
        await fetch(fetcher, tls_origin.url().replace("https:", "http:"))


async def test_a_handshake_that_drags_on_is_cut_off_at_the_deadline(fetcher, origin):
    with pytest.raises(FetchTimeout):
        await fetch(fetcher, origin.url().replace("http:", "https:"), seconds=0.3)


async def test_a_real_server_is_understood(engine, make_fetcher, certificate, nginx):
    fetcher = make_fetcher(authorities=certificate.file)
    response = await fetch(fetcher, nginx.url(f"/moved?{engine}"))
    assert response.url == nginx.url(f"/page.txt?{engine}")
    assert response.redirects == (nginx.url(f"/moved?{engine}"),)
    assert response.body.decode() == PAGE
    assert [response.headers[f"X-{number}"] for number in range(20)] == [LONG] * 20
    spoken = "HTTP/2.0" if engine == "wreq" else "HTTP/1.1"
    assert await nginx.spoken(engine, 2) == [f"{spoken} /moved", f"{spoken} /page.txt"]


async def test_many_pages_are_fetched_over_few_connections(make_fetcher, certificate, nginx):
    fetcher = make_fetcher(authorities=certificate.file)
    responses = await asyncio.gather(*(fetch(fetcher, nginx.url(), seconds=60) for _ in range(30)))
    assert {response.body.decode() for response in responses} == {PAGE}


async def test_an_inner_address_is_refused_over_tls_as_well(make_fetcher, certificate, tls_origin):
    fetcher = make_fetcher(egress=Egress(), authorities=certificate.file)
    with pytest.raises(FetchError, match="--allow-private"):
        await fetch(fetcher, tls_origin.url())
    assert tls_origin.connections == 0
