"""Opens the API tokens of a worker; imported only for a scraper that has some."""

from shoal.fetch.contract import Fetcher
from shoal.fetch.tokens.fetcher import TokenFetcher
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.token import TokenPlacement, TokenSource
from shoal.queue.contract import Queue
from shoal.scrape.settings.tokens import TokenSettings


async def with_tokens(tokens: TokenSettings, queue: Queue, fetcher: Fetcher, *, run_id: str) -> Fetcher:
    """Return the fetcher with these tokens, which the workers of the queue share."""
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
