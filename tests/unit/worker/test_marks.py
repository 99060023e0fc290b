import asyncio
import mmap
import os
import signal
import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.worker.marks import CELLS, LOOP_CELL, NO_STEP, SIZE, Marks, make_file

WORD = 8


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


def states_of(marks, file):
    """Return the memory of a worker that goes from step to step, and what is true of each moment."""
    memory, found = mmap.mmap(file, SIZE), []
    for number in (1, 0, 2, 0, 2, 3):
        marks._set(LOOP_CELL, number)
        found.append((bytes(memory), marks.running()))
    memory.close()
    return found


def test_in_whatever_order_a_reader_sees_the_words_of_a_mark_it_reads_what_was_true_or_nothing():
    file = make_file()
    marks, memory = Marks(file), mmap.mmap(file, SIZE)
    states = states_of(marks, file)
    truths = [truth for _, truth in states]
    changing = [
        place
        for place in range(0, SIZE, WORD)
        if len({found[place : place + WORD] for found, _ in states}) > 1
    ]
    for sources in product(range(len(states)), repeat=len(changing)):
        memory[:] = states[0][0]
        for place, source in zip(changing, sources, strict=True):
            memory[place : place + WORD] = states[source][0][place : place + WORD]
        assert marks.running() in ([], *truths)
    memory.close()
    marks.close()
    os.close(file)


@given(st.lists(st.integers(0, 5), min_size=len(NO_STEP), max_size=len(NO_STEP)))
def test_bytes_of_different_marks_never_make_up_a_third_one(sources):
    file = make_file()
    marks, memory = Marks(file), mmap.mmap(file, SIZE)
    states = states_of(marks, file)
    memory[: len(sources)] = bytes(states[source][0][place] for place, source in enumerate(sources))
    assert marks.running() in ([], *(truth for _, truth in states))
    memory.close()
    marks.close()
    os.close(file)


def test_a_reader_beside_a_busy_writer_sees_no_step_that_began_before_the_writer(marks):
    began = time.monotonic()
    writer = os.fork()
    if writer == 0:
        marks.beat()
        while True:
            for number in (7, 0, 8, 0):
                marks._set(LOOP_CELL, number)
            marks.beat()
    try:
        last = looks = seen = 0
        while seen < 1_000 or looks < 5_000:
            for mark in marks.running():
                assert mark.number in (7, 8) and began <= mark.since <= time.monotonic()
                seen += 1
            beats = marks.beats()
            assert beats is None or beats >= last
            last, looks = beats or last, looks + 1
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)


def test_the_event_loop_s_turns_are_counted(marks):
    assert marks.beats() == 0
    marks.beat()
    marks.beat()
    assert marks.beats() == 2


async def _drive(marks, number, step):
    return await marks.in_loop(number, step)
