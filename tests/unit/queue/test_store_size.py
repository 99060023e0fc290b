"""What is said of the size of a store."""

from shoal.core.model import Task
from shoal.queue.open import open_queue


async def test_free_space_of_a_file_is_named_if_it_is_worth_naming(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/a.db") as queue:
        assert (await queue.size()).text == "the database file"
        run = await queue.start_run("books", run_id="r")
        await queue.enqueue(run.id, [Task(url=f"http://a.example/{n:0900}") for n in range(300)])
        await queue.purge(run.id)
        assert (await queue.size()).text.endswith(" MB are free for reuse")
