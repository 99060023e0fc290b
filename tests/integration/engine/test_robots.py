"""robots.txt: asked for once, and known to every worker of the queue from then on."""

from tests.integration.engine.origin import Answer

OBEDIENT = """
    obedient = Scraper("obedient", rate=None, per_host=64)

    @obedient.step
    async def page(page: Page):
        yield {"url": page.url}
"""


async def test_what_one_worker_was_told_the_workers_of_the_next_run_know(bench, origin):
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
