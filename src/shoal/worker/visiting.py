"""What a worker shows its hosts: API tokens that the fleet shares out, and visitors with their cookies."""

import os
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.core.errors import LoginFailed
from shoal.core.exchange import Request, Response
from shoal.fetch.answer import accepted
from shoal.fetch.contract import Fetcher
from shoal.queue.contract import Queue
from shoal.scrape.login import Login, LoginSession
from shoal.scrape.settings import ScraperSettings
from shoal.scrape.tokens import TokenSettings

if TYPE_CHECKING:
    from shoal.fetch.sessions.fetcher import Fill, Send
    from shoal.fetch.sessions.session import Session
    from shoal.fetch.tokens.token import Source

# What these need is loaded by those who use it: every other run begins sooner without.


async def with_tokens(settings: ScraperSettings, queue: Queue, fetcher: Fetcher, *, run_id: str) -> Fetcher:
    """Return the fetcher with the tokens that the settings ask for around it, or as it is."""
    told = settings.tokens
    if told is None:
        return fetcher
    from shoal.fetch.tokens.fetcher import TokenFetcher
    from shoal.fetch.tokens.pool import TokenPool
    from shoal.fetch.tokens.token import Placement

    pool = await TokenPool.open(queue, source_of(told), run_id=run_id)
    placement = Placement(origins=told.origins, header=told.header, form=told.form, query=told.query)
    return TokenFetcher(fetcher, pool, placement, queue=queue)


def source_of(told: TokenSettings) -> "Source":
    """Return where the tokens of a setting come from."""
    from shoal.fetch.tokens.token import Source

    return Source(
        given=told.given,
        file=told.file,
        variable=told.variable,
        provider=told.provider,
        bucket=told.bucket,
    )


def as_visitors(settings: ScraperSettings, queue: Queue, fetcher: Fetcher, login: Login | None) -> Fetcher:
    """Return the fetcher with the sessions that the settings ask for around it, or as it is."""
    told = settings.sessions
    if told is None:
        return fetcher
    from shoal.fetch.sessions.fetcher import SessionFetcher
    from shoal.fetch.sessions.pool import SessionRules
    from shoal.fetch.sessions.profiles import profile_of
    from shoal.fetch.sparing import Sparing

    for name in told.profiles:
        profile_of(name)  # says what is wrong before the first page
    rules = SessionRules(
        size=told.size,
        max_uses=told.max_uses,
        max_age=told.max_age,
        profiles=told.profiles,
        logins=told.logins,
    )
    return SessionFetcher(
        fetcher,
        rules,
        per_host=told.per == "host",
        login=_fill(login, settings) if login else None,
        also=settings.statuses,
        block=settings.block,
        sparing=Sparing(queue),
    )


def _fill(login: Login, settings: ScraperSettings) -> "Fill":
    async def fill(session: "Session", origin: str, send: "Send") -> None:
        async def asked(request: Request) -> Response:
            return accepted(await send(request), also=settings.statuses)

        visitor = LoginSession(
            asked,
            session.say,
            number=session.number,
            origin=origin,
            gap=settings.delay,
            timeout=settings.timeout,
        )
        if await login(visitor) is False:
            raise LoginFailed("It returned False")

    return fill


def realm_of(settings: ScraperSettings, run_id: str) -> str:
    """Return who may see a kept page: those who may ask the same hosts, and show them the same."""
    parts = sorted(settings.allow_private)
    if settings.tokens:
        told = settings.tokens
        given = told.given or os.environ.get(told.variable or "", "")
        written = _digest(told.file) if told.file else ""
        # What a function gives is not known before it is asked, and may be another account's next time.
        asked = run_id if told.provider else ""
        shown = repr((sorted(told.origins), given, str(told.file), written, asked, told.header, told.query))
        parts.append("tokens " + blake2b(shown.encode(), digest_size=16).hexdigest())
    if settings.sessions:
        parts.append(f"sessions of {run_id}")
    return " ".join(parts)


def _digest(file: Path) -> str:
    """Return what the text of a file is known by; nothing of one that cannot be read."""
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""
