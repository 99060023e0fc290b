"""Which secrets are known before a run starts."""

import pytest

from shoal.core.redact import is_secret_header
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.secrets import all_secrets, headers_towards, secrets_of


@pytest.mark.parametrize(
    ("url", "password"),
    [
        ("postgresql://me:pass1234@db/x", "pass1234"),
        ("redis://:pa%2Fss@db/0", "pa/ss"),
        ("amqp://me:first@mq/?state=redis://:second@db/0", "first"),
        ("amqp://me:first@mq/?state=redis://:second@db/0", "second"),
        ("postgresql://me:half@whole@db/x", "half@whole"),
    ],
)
def test_passwords_in_the_queues_url_are_known(url, password):
    assert password in secrets_of(url, {})


def test_a_queue_without_a_password_has_no_secret():
    assert secrets_of("sqlite:///shoal.db", {"Accept": "text/html"}) == []


def test_a_header_is_known_with_its_scheme_and_without_and_a_cookie_by_its_values():
    headers = {"Authorization": "Bearer abc", "Cookie": "sid=one; theme=two"}
    assert {"Bearer abc", "abc", "one", "two"} <= set(secrets_of("sqlite:///x", headers))


@pytest.mark.parametrize(
    "name", ["X-Api-Key", "x-csrf-token", "X-Session", "X-Signature", "Proxy-Authorization"]
)
def test_headers_with_such_names_are_secret(name):
    assert is_secret_header(name)


@pytest.mark.parametrize("name", ["Accept", "Accept-Language", "User-Agent", "Referer", "X-Requested-With"])
def test_headers_with_such_names_are_not(name):
    assert not is_secret_header(name)


SECRET = {"Authorization": "Bearer x"}


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("https://a.test/x", ["Accept", "Authorization", "X-Api-Key"]),
        ("http://a.test/x", ["Accept"]),  # by a link, download or request of the https page
        ("https://b.test/x", ["Accept"]),
        ("https://cdn.test/x", ["Accept", "X-Api-Key"]),  # out of scope, and named
        ("http://cdn.test/x", ["Accept"]),
    ],
)
def test_secret_headers_go_to_hosts_in_scope_and_to_named_ones_and_never_from_https_to_http(url, sent):
    own = {"headers": {"X-Api-Key": "k"}}
    settings = ScraperSettings.read(headers={"Accept": "x", **SECRET}, sites={"a.test": own, "cdn.test": own})
    assert sorted(headers_towards(settings, url, origin="https://a.test/")) == sent


def test_tokens_proxies_and_variables_are_known(tmp_path):
    (tmp_path / "proxies.txt").write_text("http://me:proxy-pass@10.0.0.1:80\nsocks5://10.0.0.2:80\n")
    settings = ScraperSettings.read(
        tokens={"from": "env:MINE", "hosts": "api.test"}, proxies=str(tmp_path / "proxies.txt")
    )
    environment = {
        "MINE": "token-1,token-2",
        "SHOAL_SECRET": "of the fleet",
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=trace,x=y",
        "HOME": "/root",
    }
    found = set(all_secrets("sqlite:///x", settings, environment))
    assert {"token-1", "token-2", "proxy-pass", "of the fleet", "trace"} <= found
    assert "/root" not in found


def test_a_missing_token_file_has_no_secrets(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("abcdef")
    settings = ScraperSettings.read(tokens={"from": f"file:{file}", "hosts": "api.test"})
    assert "abcdef" in all_secrets("sqlite:///x", settings, {})
    file.unlink()
    assert all_secrets("sqlite:///x", settings, {}) == []
