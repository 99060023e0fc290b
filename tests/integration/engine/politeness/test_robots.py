"""robots.txt: asked for once, and known to every worker of the queue from then on."""

import time

from tests.integration.engine.origin import Answer

OBEDIENT = """
    obedient = Scraper("obedient", rate=None, per_host=64)

    @obedient.step
    async def page(page: Page):
        yield {"url": page.url}
"""


async def test_robots_txt_that_one_worker_read_is_known_to_the_next_run(bench, origin):
    rules = "User-agent: *\nDisallow: /hidden"
    origin.answer = lambda path: Answer(rules if path == "/robots.txt" else "<p>page</p>")
    urls = [f"{origin.url}/{name}" for name in ("shown", "hidden")]
    for _ in range(2):
        summary = await bench.run(OBEDIENT, urls, workers=2)
        (letter,) = await bench.dead(summary.run.id)
        assert summary.snapshot.stats.completed == 1
        assert letter.task.url == f"{origin.url}/hidden" and "RobotsDenied" in letter.error
    # Two workers may have asked at the same moment in the first run; nobody did in the second.
    assert 1 <= origin.visits["/robots.txt"] <= 2


async def test_a_redirect_to_a_page_that_robots_txt_forbids_is_not_followed(bench, origin):
    def answer(path):
        if path == "/robots.txt":
            return Answer("User-agent: *\nDisallow: /hidden")
        return Answer(status=301, headers={"Location": "/hidden"}) if path == "/shown" else Answer()

    origin.answer = answer
    summary = await bench.run(OBEDIENT, [f"{origin.url}/shown"])
    (letter,) = await bench.dead(summary.run.id)
    assert "RobotsDenied" in letter.error
    assert origin.visits == {"/robots.txt": 1, "/shown": 1}


TURNS = """
    turns = Scraper("turns", rate="2/s")

    @turns.step
    async def page(page: Page):
        yield {"url": page.url}
"""


async def test_robots_txt_takes_a_turn_of_its_host(bench, origin):
    moments = {}

    def answer(path):
        moments.setdefault(path, time.monotonic())
        return Answer("<p>page</p>", status=404 if path == "/robots.txt" else 200)

    origin.answer = answer
    summary = await bench.run(TURNS, [f"{origin.url}/page"])
    assert summary.snapshot.stats.completed == 1
    assert moments["/page"] - moments["/robots.txt"] > 0.4
