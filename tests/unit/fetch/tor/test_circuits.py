"""Which circuit a request uses."""

from hypothesis import given
from hypothesis import strategies as some

from shoal.core.http import Identity
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.tor import fetcher as tor_fetcher
from shoal.fetch.tor.fetcher import Circuits


def identity_of(key):
    return Identity(key=key, cookies=CookieJar())


def test_a_host_has_one_circuit_and_another_host_has_another():
    known = Circuits()
    assert known.take("a.test") is known.take("a.test")
    assert known.take("a.test").name != known.take("b.test").name


def test_a_host_gets_another_circuit_after_so_many_requests():
    known = Circuits(renew=3)
    names = [known.take("a.test").name for _ in range(9)]
    assert len(set(names)) == 3 and names == sorted(names, key=names.index)
    assert [names.count(name) for name in dict.fromkeys(names)] == [3, 3, 3]


def test_of_many_that_fail_together_the_first_renews():
    known = Circuits()
    old = known.take("a.test")
    assert [known.renew(old) for _ in range(5)] == [True, False, False, False, False]
    assert known.take("a.test").name != old.name


def test_a_renewed_circuit_has_no_cookies_of_the_old_one():
    known = Circuits()
    old = known.take("a.test")
    old.identity.cookies.store("http://a.test/", "a.test", ["who=me"])
    known.renew(old)
    assert known.take("a.test").identity.cookies.header("http://a.test/", "a.test") is None


def test_renewing_a_host_renews_all_its_sessions_and_no_other_host():
    known = Circuits()
    mine, yours, other = known.take("a.test"), known.take("a.test", identity_of("you")), known.take("b.test")
    known.renew_host("a.test")
    assert known.take("a.test") is not mine and known.take("a.test", identity_of("you")) is not yours
    assert known.take("b.test") is other
    known.renew_all()
    assert known.take("b.test") is not other
    assert known.renewed == 4


@given(some.lists(some.tuples(some.sampled_from("abcdefgh"), some.sampled_from("xyz")), max_size=60))
def test_names_are_never_given_to_two(visits):
    known, owners = Circuits(renew=2), {}
    for host, who in visits:
        owners.setdefault(known.take(host, identity_of(who)).name, set()).add((host, who))
    assert all(len(owner) == 1 for owner in owners.values())


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(tor_fetcher, "MAX_SESSIONS", 10)
    known = Circuits()
    for number in range(100):
        known.take("a.test", identity_of(str(number)))
    assert len(known._known.get("a.test")) <= 10
