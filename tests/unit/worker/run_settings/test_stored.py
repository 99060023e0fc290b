"""What a run stores of its settings: no secret, absolute paths, and one name for each setting."""

from datetime import timedelta

import pytest

from shoal.worker.run_settings import merged, replaced, storable


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("proxies", "http://me:hush@p.test:80"),
        ("proxies", ["p.test:80:me:hush"]),
        ("proxies", {"from": ["http://me:hush@p.test:80"], "strategy": "random"}),
        ("proxies", list),
        ("tokens", ["hush"]),
        ("tokens", {"from": ["hush"], "hosts": "a.test"}),
        ("headers", {"Authorization": "Bearer hush"}),
        ("headers", {"X-Access": "Bearer hush"}),
        ("headers", {"Referer": "http://me:hush@a.test/"}),
        ("user_agent", "see http://me:hush@a.test/"),
        ("sites", {"a.test": {"headers": {"Authorization": "Bearer hush"}}}),
    ],
)
def test_a_secret_is_not_stored_and_is_named(key, value):
    kept, withheld = storable({key: value, "rate": "2/s"})
    assert (kept, withheld) == ({"rate": "2/s"}, [key])


def test_a_secret_is_stored_by_its_reference_and_a_path_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "proxies.txt").write_text("me:hush@p.test:80")
    given = {
        "proxies": "proxies.txt strategy=random",
        "tokens": "env:NAME hosts=a.test",
        "cache": "10m disk:pages",
        "warc": "a.warc.gz",
        "headers": {"Accept": "text/html"},
        "timeout": timedelta(seconds=90),
        "allow_private": ("10.0.0.0/8",),
        "tor": "off",
    }
    kept, withheld = storable(given)
    assert not withheld
    assert kept == {
        "proxies": f"{tmp_path}/proxies.txt strategy=random",
        "tokens": "env:NAME hosts=a.test",
        "cache": f"10m disk:{tmp_path}/pages",
        "warc": f"{tmp_path}/a.warc.gz",
        "headers": {"Accept": "text/html"},
        "timeout": 90.0,
        "allow_private": ["10.0.0.0/8"],
        "tor": "off",
    }


def test_the_later_name_of_a_setting_replaces_the_earlier_and_hosts_add_up():
    assert replaced({"delay": 2, "per_host": 1}, {"rate": "5/s"}) == {"per_host": 1, "rate": "5/s"}
    both = merged({"allow_private": ["a:1"], "rate": 1}, {"allow_private": ["b", "a:1"], "delay": 3})
    assert both == {"delay": 3, "allow_private": ["a:1", "b"]}
