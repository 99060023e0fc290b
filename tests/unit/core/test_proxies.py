"""Proxies are read in every common form, and no secret is shown."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.proxies import ProxyRules, endpoint, read_file, read_proxy_list, shares


def only(text, **more):
    (proxy,) = read_proxy_list([text], what="entry", **more)
    return proxy


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("http://proxy.test:80/", "http://proxy.test:80"),
        ("HTTPS://Proxy.Test:443", "https://proxy.test:443"),
        ("socks5://proxy.test:1080", "socks5h://proxy.test:1080"),
        ("socks5h://proxy.test:1080", "socks5h://proxy.test:1080"),
        ("http://me:word@proxy.test:80", "http://me:word@proxy.test:80"),
        ("me:word@proxy.test:80", "http://me:word@proxy.test:80"),
        ("proxy.test:80:me:wo:rd", "http://me:wo%3Ard@proxy.test:80"),
        ("http://me:w@rd@proxy.test:80", "http://me:w%40rd@proxy.test:80"),
        ("http://m%40e:w%2Frd@proxy.test:80", "http://m%40e:w%2Frd@proxy.test:80"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("socks5://me:word@[2001:db8::1]:1080", "socks5h://me:word@[2001:db8::1]:1080"),
    ],
)
def test_every_usual_form_is_read(text, url):
    assert only(text).url == url


@pytest.mark.parametrize(
    "text",
    [
        "proxy.test",
        "http://proxy.test",
        "http://me:s3cret@proxy.test",
        "http://me:s3cret@proxy.test:99999",
        "http://me:s3cret@:80",
        "http://me:s3cret@pro xy:80",
        "socks4://me:s3cret@proxy.test:80",
        "s3cret://proxy.test:80",
        "http://me:s3cret@[::zz]:80",
        "proxy.test:port:me:s3cret",
    ],
)
def test_an_invalid_line_is_reported_by_number_without_its_text(text):
    with pytest.raises(InvalidSetting, match=r"list line 3: ") as caught:
        read_proxy_list(["# mine", "10.0.0.1:80", text], what="list line")
    assert "s3cret" not in str(caught.value)
    assert "write http://user:password@host:port" in str(caught.value)


def test_the_name_tells_credentials_apart_and_keeps_them():
    one, other = only("a:s3cret@p.test:80", salt=b"x"), only("b:s3cret@p.test:80", salt=b"x")
    assert one.name.startswith("http://p.test:80#") and one.name != other.name
    assert only("p.test:80").name == "http://p.test:80"
    assert only("socks5://p.test:80").name == "socks5://p.test:80"
    assert "s3cret" not in f"{one!r} {one.name}"
    assert only("a:s3cret@p.test:80", salt=b"y").name != one.name


def test_duplicate_proxies_count_once():
    lines = ["p.test:80", "", "  # no", "http://P.test:80/", "p.test:81", "p.test:81:a:b", "a:b@p.test:81"]
    assert [proxy.url for proxy in read_proxy_list(lines, what="line")] == [
        "http://p.test:80",
        "http://p.test:81",
        "http://a:b@p.test:81",
    ]


def test_a_proxy_file_is_read_and_its_errors_are_reported(tmp_path):
    file = tmp_path / "proxies.txt"
    with pytest.raises(InvalidSetting, match=r"cannot be read from .*proxies\.txt: no such file"):
        read_file(file)
    file.write_text("\ufeff# all of them\r\np.test:80\r\n")
    assert [proxy.name for proxy in read_file(file)] == ["http://p.test:80"]
    file.write_text("p.test:80\nnope\n")
    with pytest.raises(InvalidSetting, match=r"proxies\.txt line 2: has no valid port"):
        read_file(file)
    file.write_text("# none yet\n")
    with pytest.raises(InvalidSetting, match="has no proxy"):
        read_file(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSetting, match="not text"):
        read_file(file)


def test_an_endpoint_is_where_the_proxy_listens():
    assert endpoint(only("me:w@rd@p.test:80")) == ("p.test", 80)
    assert endpoint(only("socks5://[::1]:1080")) == ("::1", 1080)


@pytest.mark.parametrize(("proxies", "workers"), [(50, 10), (7, 3), (3, 7), (1, 4), (5, 1)])
def test_slices_cover_every_proxy_and_every_worker(proxies, workers):
    slices = [shares(list(range(proxies)), place, workers) for place in range(workers)]
    assert all(slices)
    assert {one for part in slices for one in part} == set(range(proxies))
    if proxies >= workers:
        assert sum(map(len, slices)) == proxies


def test_rules_do_not_show_what_was_listed():
    assert "s3cret" not in repr(ProxyRules(listed=("http://me:s3cret@p.test:80",)))
