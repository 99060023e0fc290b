import asyncio
import os

import pytest

from shoal.worker.marks import CELLS, Marks, make_file


@pytest.fixture
def marks():
    file = make_file()
    found = Marks(file)
    yield found
    found.close()
    os.close(file)


def running(marks):
    return [mark.number for mark in marks.running()]


async def test_a_step_is_marked_while_its_own_code_runs_and_not_while_it_waits(marks):
    seen = []

    async def step():
        seen.append(running(marks))
        await asyncio.sleep(0)
        seen.append(running(marks))
        return "done"

    task = asyncio.create_task(_drive(marks, 7, step()))
    await asyncio.sleep(0)
    assert running(marks) == []
    assert await task == "done"
    assert seen == [[7], [7]]
    assert running(marks) == []


async def test_an_error_and_a_cancellation_pass_through(marks):
    async def broken():
        await asyncio.sleep(0)
        raise KeyError("price")

    with pytest.raises(KeyError):
        await _drive(marks, 1, broken())

    async def hanging():
        await asyncio.sleep(100)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await _drive(marks, 2, hanging())
    assert running(marks) == []


def test_steps_in_threads_have_a_cell_each(marks):
    with marks.in_thread(1), marks.in_thread(2):
        assert sorted(running(marks)) == [1, 2]
    assert running(marks) == []


def test_more_threads_than_cells_go_unmarked_but_run(marks):
    from contextlib import ExitStack

    with ExitStack() as stack:
        for number in range(1, CELLS + 5):
            stack.enter_context(marks.in_thread(number))
        assert len(running(marks)) == CELLS - 1
    assert running(marks) == []


def test_the_marks_of_a_dead_process_can_be_read(marks):
    child = os.fork()
    if child == 0:
        with marks.in_thread(42):
            os._exit(1)
    os.waitpid(child, 0)
    assert running(marks) == [42]


async def _drive(marks, number, step):
    return await marks.in_loop(number, step)
