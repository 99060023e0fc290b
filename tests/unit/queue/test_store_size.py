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


async def test_of_several_servers_the_sum_is_given_without_the_figures_of_one(tmp_path):
    files = [f"sqlite:///{tmp_path}/{name}.db" for name in "ab"]
    async with open_queue(files) as queue:
        size = await queue.size()
    async with open_queue(files[0]) as first:
        one = await first.size()
    assert size.bytes > one.bytes
    assert size.text == "2 servers together"
