"""Five tokens with a hundred requests a window each, against a host that enforces it, by real workers."""

import os
import signal

import pytest

from tests.integration.engine.conftest import Bench
from tests.integration.tokens.limited import LimitedApi

TOKENS = [f"secret-token-{number}" for number in range(5)]
WINDOW = 4.0  # seconds
WINDOWS = int(os.environ.get("SHOAL_TOKEN_WINDOWS", "3"))
BACKENDS = ["sqlite", *(["redis", "postgres", "rabbitmq"] if "SHOAL_TOKEN_WINDOWS" in os.environ else [])]
SCRAPER = """
    api = Scraper("api", rate=None, robots=False, retries=0, {settings})

    @api.step
    async def page(page: Page):
        yield {{"url": page.url, **page.json()}}
"""


def tokens(api):
    return f"tokens={{'from': {TOKENS!r}, 'hosts': '{api.url}'}}"


def urls(api, count):
    return [f"{api.url}/{number}" for number in range(count)]


def used_share(api):
    """Return how much of the budget was used in the windows that lie between the first and the last."""
    windows = api.windows()
    whole = [windows.get(number, 0) for number in range(min(windows) + 1, max(windows))]
    return sum(whole) / (len(whole) * len(TOKENS) * api.limit), len(whole)


@pytest.fixture(params=BACKENDS)
def any_bench(request, tmp_path):
    if request.param == "sqlite":
        return Bench(tmp_path, f"sqlite:///{tmp_path}/queue.db")
    return Bench(tmp_path, request.getfixturevalue(f"{request.param}_url"))


async def used(bench, window):
    """Use up a few windows, and never a request too many; return how much of them was used."""
    style = "github" if "sqlite" in bench.queue_url else "ietf"
    pages = 500 * WINDOWS
    async with LimitedApi(TOKENS, window=window, style=style) as api:
        summary = await bench.run(SCRAPER.format(settings=tokens(api)), urls(api, pages), workers=3)
    share, count = used_share(api)
    name = bench.queue_url.partition(":")[0]
    print(f"{name}: {api.over} over, {share:.1%} used of {count} whole windows of {window:g} s")
    assert api.over == 0
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (pages, 0)
    assert len(api.asked) == pages  # nothing was asked twice
    assert summary.ending.tally.retried == 0
    return share if count else 0.0


@pytest.mark.alone
async def test_no_request_comes_too_many_and_the_budget_is_used(any_bench):
    shares = []
    # A machine that is too busy to send 500 requests in a window is given a longer one.
    while not shares or (max(shares) < 0.95 and len(shares) < 3):
        shares.append(await used(any_bench, WINDOW * 2 ** len(shares)))
    assert max(shares) >= 0.95


@pytest.mark.long
async def test_windows_that_begin_with_a_request_and_slow_answers_are_kept_to(bench):
    async with LimitedApi(TOKENS[:2], limit=25, window=2, style="draft", at_fixed_times=False) as api:
        api.after = 0.05
        given = f"tokens={{'from': {TOKENS[:2]!r}, 'hosts': '{api.url}'}}"
        summary = await bench.run(SCRAPER.format(settings=given), urls(api, 150), workers=3)
    assert api.over == 0
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (150, 0)
    assert summary.ending.tally.postponed.get("TokensResting", 0) > 0


@pytest.mark.long
async def test_workers_that_are_killed_leave_nothing_over_the_limit(bench):
    killed = []

    def kill_one(snapshot, pool):
        if snapshot.stats.completed and pool.pids and len(killed) < 3:
            killed.append(pool.pids[0])
            os.kill(pool.pids[0], signal.SIGKILL)

    bench.witness.on_saw = kill_one
    # A task whose step was running when its worker was killed has used an attempt; it must have another one.
    scraper = SCRAPER.replace("retries=0", "retries=3")
    async with LimitedApi(TOKENS, limit=30, window=4, style="draft") as api:
        api.after = 0.05
        summary = await bench.run(scraper.format(settings=tokens(api)), urls(api, 300), workers=3)
    assert len(killed) >= 2
    assert api.over == 0
    assert (summary.snapshot.stats.completed, summary.snapshot.stats.dead) == (300, 0)
