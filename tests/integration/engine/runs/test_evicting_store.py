from tests.conftest import or_skip
from tests.integration.engine.conftest import Bench
from tests.servers.redis import RedisServer

EVICTING = {"maxmemory": "200mb", "maxmemory-policy": "allkeys-lru"}
ONE_STEP = """
books = Scraper("books")

@books.step
async def listing(page):
    yield {"n": 1}
"""


async def test_a_run_on_a_server_that_evicts_says_so_at_its_start(tmp_path, origin):
    with or_skip(lambda: RedisServer(settings=EVICTING)) as server:
        bench = Bench(tmp_path, server.url())
        summary = await bench.run(ONE_STEP, [f"{origin.url}/one"])
    assert summary.snapshot.stats.completed == 1
    (said,) = [line for line in bench.witness.said_lines if "evicts" in line]
    assert said.startswith("This run may lose tasks and results without an error. The server evicts keys")
