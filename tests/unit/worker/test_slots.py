import math

from shoal.worker.slots import CONCURRENCY, HORIZON, MAX_LOOP_LAG, MAX_SLOW, SLOW, ConcurrencySlots


def test_no_more_requests_are_in_flight_than_files_allow():
    for concurrency, files, expected in (
        (None, math.inf, (CONCURRENCY, MAX_SLOW)),
        (None, 512, (CONCURRENCY, 512 - CONCURRENCY)),
        (None, 32, (32, 0)),
        (800, 512, (512, 0)),
        (8, 512, (8, 0)),
    ):
        slots = ConcurrencySlots(concurrency, files)
        assert (slots.concurrency, slots.max_slow) == expected


def test_the_longer_tasks_take_the_fewer_are_prefetched():
    quick, slow = ConcurrencySlots(4), ConcurrencySlots(4)
    assert quick.prefetch_limit(50, 0.0) == 4, "nothing is known yet"
    quick.take(1, 0.0)
    slow.take(1, 0.0)
    quick.leave(1, 0.01)
    slow.leave(1, 2 * HORIZON)
    assert (quick.prefetch_limit(50, 2 * HORIZON), slow.prefetch_limit(50, 2 * HORIZON)) == (50, 2)


def test_while_no_slot_becomes_free_nothing_is_prefetched():
    slots, now = ConcurrencySlots(1), 100.0
    slots.take(1, now)
    assert not slots.is_stuck(now) and slots.prefetch_limit(50, now) == 1
    now += HORIZON + 0.1
    assert slots.is_stuck(now) and slots.prefetch_limit(50, now) == 0
    slots.leave(1, now)
    assert not slots.is_stuck(now)
    slots.take(2, now)
    assert not slots.is_stuck(now)


def test_requests_become_slow_in_the_order_in_which_they_began_to_wait():
    slots = ConcurrencySlots(None)
    for number in (1, 2, 3):
        slots.take(number, 0.0)
        slots.wait_for_host(number, number / 100)
    assert slots.next_slow_at == 0.01 + SLOW
    assert not slots.free_slow(0.05)
    assert slots.free_slow(0.01 + SLOW) and slots.taken == 2
    assert slots.next_slow_at == 0.02 + SLOW


def test_while_the_event_loop_lags_no_request_counts_as_slow():
    slots, late = ConcurrencySlots(None), SLOW + 2 * MAX_LOOP_LAG
    slots.take(1, 0.0)
    slots.wait_for_host(1, 0.0)
    assert not slots.free_slow(late) and slots.taken == 1
    assert slots.next_slow_at == late + SLOW, "it is examined again"
    assert slots.free_slow(late + SLOW)


def test_a_task_that_gave_up_its_turn_does_not_hold_up_the_next_step():
    slots = ConcurrencySlots(1)
    assert slots.begin_step(1, 0.0)
    assert not slots.begin_step(2, 0.0) and not slots.begin_step(3, 0.0)
    assert slots.end_step(2) is None
    assert slots.end_step(1) == 3
    assert slots.end_step(3) is None
