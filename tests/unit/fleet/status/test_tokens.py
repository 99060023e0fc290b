"""Token status and the check of tokens: by name, never by value."""

import pytest

from shoal.core.errors import InvalidSetting, UnknownRun
from shoal.fetch.tokens import budget as budgets
from shoal.fetch.tokens.pool import TokenPool
from shoal.fetch.tokens.rate_limit_headers import RateLimit
from shoal.fetch.tokens.token import TokenSource
from shoal.fleet.status.doctor import CheckStatus, examine
from shoal.fleet.status.tokens import TokenStatus, forget, tokens
from shoal.scrape.scraper import Scraper


async def used(queue, *texts):
    """Use every token once, as one run; return the run."""
    run = await queue.start_run("api")
    pool = await TokenPool.open(queue, TokenSource(given=texts), run_id=run.id)
    for _ in texts:
        await pool.finish(await pool.acquire(), RateLimit(left=0, limit=10))
    await pool.close()
    return run


async def test_the_tokens_of_a_run_are_listed_by_number_and_hash(queue):
    run = await used(queue, "s3cret-a", "s3cret-b")
    found = await tokens(queue, run.id)
    assert [one.row().token.split(" (")[0] for one in found] == ["token 1", "token 2"]
    assert {one.state for one in found} == {"resting"}
    assert "s3cret" not in repr(found)
    other = await queue.start_run("api")
    assert await tokens(queue, other.id) == []
    with pytest.raises(UnknownRun):
        await tokens(queue, "nope")


async def test_what_is_known_of_a_token_can_be_forgotten(queue):
    await used(queue, "a", "b", "c")
    one, *_ = await tokens(queue)
    assert await forget(queue, one.key[:6]) == 1
    assert await forget(queue, "retired") == 0
    with pytest.raises(InvalidSetting, match="knows no token 'zzz'"):
        await forget(queue, "zzz")
    assert await forget(queue, "all") == 2


def test_a_retired_token_says_why_and_nothing_of_what_is_left():
    budget = budgets.record_rejection(
        budgets.record_rejection(budgets.TokenBudget(left=5, is_known=True), "a", "x"), "b", "x"
    )
    row = TokenStatus("abcdef", budget).row()
    assert (row.state, row.why, row.left) == ("retired", "x", None)


@pytest.mark.parametrize(
    ("variable", "health", "says"),
    [
        ("s3cret-a,s3cret-b", CheckStatus.GOOD, "2 for https://api.test"),
        ("", CheckStatus.BAD, "holds no token"),
    ],
)
async def test_the_doctor_counts_them_and_names_their_hosts(tmp_path, monkeypatch, variable, health, says):
    monkeypatch.setenv("API_TOKENS", variable)
    scraper = Scraper("api", tokens="env:API_TOKENS hosts=api.test")
    found = {one.what: one async for one in examine(f"sqlite:///{tmp_path}/queue.db", scraper)}["tokens"]
    assert found.health is health
    assert says in found.says and "s3cret" not in found.says
