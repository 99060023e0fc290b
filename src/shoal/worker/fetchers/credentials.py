"""Credentials that a worker sends to hosts: API tokens shared by the fleet, and sessions with cookies."""

from shoal.core.errors import LoginBroken, LoginFailed
from shoal.core.http import Request, Response
from shoal.core.redact import redacted
from shoal.fetch.contract import Fetcher
from shoal.fetch.sessions.fetcher import Fill, Send, SessionFetcher
from shoal.fetch.sessions.pool import Session, SessionRules
from shoal.fetch.shared_state import HostPauser
from shoal.fetch.status import accepted
from shoal.fetch.tokens.fetcher import TokenFetcher
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.token import TokenPlacement, TokenSource
from shoal.queue.contract import Queue
from shoal.scrape.login import Login, LoginSession
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.tokens import TokenSettings
from shoal.worker.failures.tracebacks import TracebackFormatter

# Errors in code, such as a variable that is not set; a login that is refused raises others.
CODE_ERRORS = (ImportError, NameError, AttributeError, TypeError, LookupError)
MAX_CODE_ERRORS = 3  # logins of a worker; a page that is broken for a moment can cause one, too


async def with_tokens(settings: ScraperSettings, queue: Queue, fetcher: Fetcher, *, run_id: str) -> Fetcher:
    """Return the fetcher with the tokens of the settings, or unchanged without any."""
    tokens = settings.tokens
    if tokens is None:
        return fetcher

    pool = await TokenPool.open(queue, token_source(tokens), run_id=run_id)
    placement = TokenPlacement(
        origins=tokens.origins, header=tokens.header, form=tokens.form, query=tokens.query
    )
    return TokenFetcher(fetcher, pool, placement, queue=queue)


def token_source(tokens: TokenSettings) -> TokenSource:
    """Return the source of the tokens in the settings."""
    return TokenSource(
        given=tokens.given,
        file=tokens.file,
        variable=tokens.variable,
        provider=tokens.provider,
        bucket=tokens.bucket,
    )


def with_sessions(settings: ScraperSettings, queue: Queue, fetcher: Fetcher, login: Login | None) -> Fetcher:
    """Return the fetcher with the sessions of the settings, or unchanged without any."""
    sessions = settings.sessions
    if sessions is None:
        return fetcher

    if sessions.profiles:
        from shoal.fetch.http.profiles import profile_of  # needs wreq, which aiohttp replaces

        for name in sessions.profiles:
            profile_of(name)  # raises for an unknown name before the first page
    rules = SessionRules(
        size=sessions.size,
        max_uses=sessions.max_uses,
        max_age=sessions.max_age,
        profiles=sessions.profiles,
        logins=sessions.logins,
    )
    return SessionFetcher(
        fetcher,
        rules,
        per_host=sessions.per == "host",
        login=_log_in_with(login, settings) if login else None,
        also=settings.statuses,
        block=settings.block,
        pauser=HostPauser(queue),
    )


def _log_in_with(login: Login, settings: ScraperSettings) -> Fill:
    call = _stop_if_broken(login)

    async def fill(session: Session, origin: str, send: Send) -> None:
        async def fetch(request: Request) -> Response:
            return accepted(await send(request), also=settings.statuses)

        login_session = LoginSession(
            fetch,
            session.set_header,
            number=session.number,
            origin=origin,
            gap=settings.delay,
            timeout=settings.timeout,
        )
        if await call(login_session) is False:
            raise LoginFailed("It returned False")

    return fill


def _stop_if_broken(login: Login) -> Login:
    """Return the login; it raises LoginBroken if its code fails each time. Waiting would not change that."""
    failures, has_succeeded = 0, False

    async def call(session: LoginSession) -> object:
        nonlocal failures, has_succeeded
        try:
            returned = await login(session)
        except CODE_ERRORS as error:
            failures += 1
            if has_succeeded or failures < MAX_CODE_ERRORS:
                raise
            line = TracebackFormatter().find_line(error, own=True)
            raise LoginBroken(failures, redacted(f"{type(error).__name__}: {error}") + line) from error
        has_succeeded = has_succeeded or returned is not False
        return returned

    return call
