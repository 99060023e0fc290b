import asyncio
import mmap
import os
import signal
import time
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.worker.ipc.step_markers import (
    CELLS,
    LOOP_CELL,
    NO_STEP,
    PROGRESS_CELLS,
    SIZE,
    StepMarkers,
    make_file,
)

WORD = 8


def running(markers):
    return [marker.number for marker in markers.running_steps()]


async def test_a_step_is_marked_while_its_own_code_runs_and_not_while_it_waits(markers):
    seen = []

    async def step():
        seen.append(running(markers))
        await asyncio.sleep(0)
        seen.append(running(markers))
        return "done"

    task = asyncio.create_task(_drive(markers, 7, step()))
    await asyncio.sleep(0)
    assert running(markers) == []
    assert await task == "done"
    assert seen == [[7], [7]]
    assert running(markers) == []


async def test_an_error_and_a_cancellation_pass_through(markers):
    async def broken():
        await asyncio.sleep(0)
        raise KeyError("price")

    with pytest.raises(KeyError):
        await _drive(markers, 1, broken())

    async def hanging():
        await asyncio.sleep(100)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await _drive(markers, 2, hanging())
    assert running(markers) == []


def test_steps_in_threads_have_a_cell_each(markers):
    with markers.mark_thread(1), markers.mark_thread(2):
        assert sorted(running(markers)) == [1, 2]
    assert running(markers) == []


def test_more_threads_than_cells_go_unmarked_but_run(markers):
    from contextlib import ExitStack

    with ExitStack() as stack:
        for number in range(1, CELLS + 5):
            stack.enter_context(markers.mark_thread(number))
        assert len(running(markers)) == CELLS - 1
    assert running(markers) == []


def test_the_markers_of_a_dead_process_can_be_read(markers):
    child = os.fork()
    if child == 0:
        with markers.mark_thread(42):
            os._exit(1)
    os.waitpid(child, 0)
    assert running(markers) == [42]


def states_of(markers, file):
    """Return the memory of a worker that goes from step to step, and what is true of each moment."""
    memory, found = mmap.mmap(file, SIZE), []
    for number in (1, 0, 2, 0, 2, 3):
        markers._set(LOOP_CELL, number)
        found.append((bytes(memory), markers.running_steps()))
    memory.close()
    return found


def test_in_whatever_order_a_reader_sees_the_words_of_a_marker_it_reads_what_was_true_or_nothing():
    file = make_file()
    markers, memory = StepMarkers(file), mmap.mmap(file, SIZE)
    states = states_of(markers, file)
    truths = [truth for _, truth in states]
    changing = [
        offset
        for offset in range(0, SIZE, WORD)
        if len({found[offset : offset + WORD] for found, _ in states}) > 1
    ]
    for sources in product(range(len(states)), repeat=len(changing)):
        memory[:] = states[0][0]
        for offset, source in zip(changing, sources, strict=True):
            memory[offset : offset + WORD] = states[source][0][offset : offset + WORD]
        assert markers.running_steps() in ([], *truths)
    memory.close()
    markers.close()
    os.close(file)


@given(st.lists(st.integers(0, 5), min_size=len(NO_STEP), max_size=len(NO_STEP)))
def test_bytes_of_different_markers_never_form_a_third_one(sources):
    file = make_file()
    markers, memory = StepMarkers(file), mmap.mmap(file, SIZE)
    states = states_of(markers, file)
    memory[: len(sources)] = bytes(states[source][0][offset] for offset, source in enumerate(sources))
    assert markers.running_steps() in ([], *(truth for _, truth in states))
    memory.close()
    markers.close()
    os.close(file)


def test_a_reader_next_to_a_busy_writer_sees_no_step_that_began_before_the_writer(markers):
    began = time.monotonic()
    writer = os.fork()
    if writer == 0:
        markers.beat()
        while True:
            for number in (7, 0, 8, 0):
                markers._set(LOOP_CELL, number)
            markers.beat()
    try:
        last = looks = seen = 0
        while seen < 1_000 or looks < 5_000:
            for marker in markers.running_steps():
                assert marker.number in (7, 8) and began <= marker.since <= time.monotonic()
                seen += 1
            beats = markers.beats()
            assert beats is None or beats >= last
            last, looks = beats or last, looks + 1
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)


def test_the_beats_of_the_event_loop_are_counted(markers):
    assert markers.beats() == 0
    markers.beat()
    markers.beat()
    assert markers.beats() == 2


async def _drive(markers, number, step):
    return await markers.run_marked(number, step)


def test_tasks_in_progress_are_seen_through_the_same_file_and_beside_the_beat(markers):
    markers.mark_progress(3, 1)
    markers.mark_progress(PROGRESS_CELLS + 5, 1)
    markers.mark_progress(7, 1)
    markers.mark_progress(7, 0)
    markers.beat()
    assert markers.in_progress([3, 4, 7, PROGRESS_CELLS + 5]) == {3, PROGRESS_CELLS + 5}
    assert markers.beats() == 1
