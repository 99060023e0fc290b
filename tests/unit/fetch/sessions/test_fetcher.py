"""Pages fetched with sessions: the state of one is never sent with another."""

import pytest

from shoal.core.errors import NoProxyLeft, NoSession
from shoal.core.http import Headers, Request, Response
from shoal.core.model import SECOND
from shoal.fetch.sessions.fetcher import SessionFetcher
from shoal.fetch.sessions.pool import SessionRules

SHOP = "https://shop.test"


class Host:
    """Responds as the test sets it, and records the sessions of its requests."""

    def __init__(self):
        self.asked, self.status, self.body, self.location = [], 200, b"page", None

    async def fetch(self, request):
        self.asked.append(request)
        if isinstance(self.status, Exception):
            raise self.status
        if self.location and request.on_hop:
            await request.on_hop(self.location)
        return Response(url=request.url, status=self.status, headers=Headers(), body=self.body)

    def keys(self):
        return [request.identity.key if request.identity else None for request in self.asked]

    async def close(self):
        pass


@pytest.fixture
def host():
    return Host()


def fetcher(host, size=1, login=None, **more):
    return SessionFetcher(host, SessionRules(size=size), login=login, **more)


async def visit(fetching, path="/", origin=SHOP, **more):
    return await fetching.fetch(Request(url=f"{origin}{path}", **more))


async def test_each_host_has_sessions_of_its_own_unless_the_run_shares_them(host):
    for per_host, count in ((True, 2), (False, 1)):
        host.asked.clear()
        fetching = fetcher(host, per_host=per_host)
        await visit(fetching)
        await visit(fetching, origin="https://other.test")
        assert len(set(host.keys())) == count


async def test_robots_txt_is_asked_for_under_our_own_name(host):
    await visit(fetcher(host), "/robots.txt")
    assert host.keys() == [None]


async def test_a_status_that_a_step_wants_to_see_is_no_block(host):
    fetching = fetcher(host, also={403})
    host.status = 403
    for _ in range(6):
        await visit(fetching)
    assert len(set(host.keys())) == 1


async def test_a_connection_error_is_not_charged_to_the_session(host):
    fetching = SessionFetcher(host, SessionRules(size=1, max_uses=1))
    host.status = NoProxyLeft("none", SECOND)
    for _ in range(5):
        with pytest.raises(NoProxyLeft):
            await visit(fetching)
    assert len(set(host.keys())) == 1


async def test_the_result_of_a_login_is_sent_by_its_session_to_its_host_alone(host):
    async def login(session, name, send):
        await send(Request(url=f"{SHOP}/login", post=b"user=me"))
        session.set_header(name, "Authorization", f"Bearer {session.number}")

    fetching = fetcher(host, login=login, per_host=False)
    await visit(fetching)
    await visit(fetching, origin="https://other.test")
    await visit(fetching, origin="http://shop.test")
    first, page, elsewhere, in_the_clear = host.asked
    assert first.post == b"user=me" and first.identity.key == page.identity.key
    assert page.headers["Authorization"] == "Bearer 0"
    assert "Authorization" not in elsewhere.headers
    assert "Authorization" not in in_the_clear.headers
    await fetching.close()


async def test_a_session_that_was_logged_out_is_replaced_without_using_an_attempt(host):
    logins = []

    async def login(session, name, send):
        logins.append(session.key)

    fetching = fetcher(host, login=login)
    await visit(fetching, "/other")
    host.status = 401
    with pytest.raises(NoSession):
        await visit(fetching)
    # Refused at once by a new login too: the page itself is refused, and the session stays.
    for _ in range(3):
        assert (await visit(fetching)).status == 401
    assert len(set(logins)) == len(logins) == 2
    await fetching.close()


async def test_only_a_redirect_to_what_the_login_fetched_before_its_form_ends_a_session(host):
    async def login(session, name, send):
        await send(Request(url=f"{SHOP}/login?lang=en"))
        await send(Request(url=f"{SHOP}/login", post=b"user=me"))
        await send(Request(url=f"{SHOP}/account"))

    hops = []

    async def on_hop(url):
        hops.append(url)

    fetching = fetcher(host, login=login)
    host.location = f"{SHOP}/account"
    await visit(fetching, on_hop=on_hop)
    host.location = f"{SHOP}/login?next=/"
    with pytest.raises(NoSession):
        await visit(fetching, on_hop=on_hop)
    assert hops == [f"{SHOP}/account"]
    await fetching.close()


async def test_a_busy_host_does_not_end_a_session(host):
    logins = []

    async def login(session, name, send):
        logins.append(session.key)

    fetching = fetcher(host, login=login)
    host.status = 503
    assert (await visit(fetching)).status == 503
    host.status = 200
    await visit(fetching)
    assert len(logins) == 1
    await fetching.close()


async def test_without_a_login_a_401_is_an_answer_like_any_other(host):
    host.status = 401
    assert (await visit(fetcher(host))).status == 401
