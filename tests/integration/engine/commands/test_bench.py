"""`shoal bench`: a queue measured from here."""

from shoal.queue.open import open_queue
from tests.integration.engine.shell import typed


async def test_a_queue_is_measured_and_left_as_it_was(tmp_path):
    url = f"sqlite:///{tmp_path}/queue.db"
    answer = await typed("bench", "--queue", url, "--tasks", "1000", "--json", folder=tmp_path)
    figures = {row["what"]: row["figure"] for row in answer.rows}
    assert answer.code == 0
    assert list(figures) == [
        "round trip",
        "enqueue, new",
        "enqueue, known",
        "claim and settle",
        "a claim of 100, median",
        "a claim of 100, one in a hundred",
    ]
    assert min(figures.values()) > 0
    async with open_queue(url) as queue:
        assert await queue.runs() == []


async def test_too_few_tasks_to_measure_are_refused(tmp_path):
    answer = await typed("bench", "--tasks", "5", folder=tmp_path)
    assert answer.code == 2 and "--tasks" in answer.err
