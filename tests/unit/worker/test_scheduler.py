"""What a worker does next, decided with a clock that only the test moves."""

from shoal.core.model import MINUTE, SECOND, ZERO, Done, Grant, Release, Task
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.scheduler import (
    MAX_CALLS_PER_SLOT,
    MAX_POLL_INTERVAL_SECONDS,
    Polling,
    Scheduler,
    Stop,
)
from shoal.worker.slots import HORIZON, SLOW
from tests.unit.builders import make_lease


def lease(number, *, host=None, start_in=ZERO, partition=""):
    url = f"https://{host or f'h{number}.test'}/{number}"
    return make_lease(
        Task(url=url, step="page", partition=partition), task_id=f"t{number}", start_in=start_in
    )


class Desk:
    """A scheduler, its clock, and the numbers that the supervisor's channel would give."""

    def __init__(self, **options):
        self.now = 100.0
        polling = Polling(options.get("gap", ZERO), uniform=options.pop("uniform", max))
        self.scheduler = Scheduler(
            **{"lease": MINUTE, "gap": ZERO, "concurrency": 4, "batch": 10, "polling": polling} | options
        )
        self._next = 1

    def accept(self, *leases, at=None, **options):
        numbers = range(self._next, self._next + len(leases))
        self._next = numbers.stop
        claimed_at = self.now if at is None else at
        return self.scheduler.accept(leases, numbers, claimed_at, self.now, **options)

    def claim(self, count, **options):
        return self.accept(*(lease(self._next + index, **options) for index in range(count)))

    def start(self):
        return [number for number, _ in self.scheduler.start_due(self.now)]

    def finish(self, number, make_outcome=Done):
        held = self.scheduler.started_lease(number)
        self.scheduler.finish(number, make_outcome(held), self.now)
        self.scheduler.forget(held)

    def after_claim(self, grant):
        """Return what follows a claim; time then passes until the next one."""
        following = self.scheduler.after_claim(grant, self.now, self.now)
        self.now += following.wait + following.yield_for
        return following

    def change_pause(self, pause):
        return self.scheduler.change_settings(ZERO, pause, self.now)

    @property
    def claim_size(self):
        return self.scheduler.next_claim_size(self.now)


# Claim


def test_a_new_worker_claims_a_task_for_each_slot_and_one_beyond():
    assert Desk(concurrency=4, batch=50).claim_size == 8
    assert Desk(concurrency=4, batch=3).claim_size == 3


def test_a_worker_claims_again_when_half_of_a_full_claim_is_used():
    desk = Desk(concurrency=4, batch=10)
    desk.claim(8)
    assert desk.start() == [1, 2, 3, 4]
    assert desk.claim_size == 0, "the high mark is reached"
    for number in (1, 2, 3):
        desk.now += 10 * HORIZON  # so slow that nothing more than a few is prefetched
        desk.finish(number)
        desk.start()
    assert desk.claim_size == 0
    desk.finish(4)
    desk.start()
    desk.finish(5)
    assert desk.claim_size == 2, "below the low mark"


def test_a_worker_with_quick_tasks_prefetches_a_whole_batch():
    desk = Desk(concurrency=4, batch=10)
    desk.claim(4)
    for number in desk.start():
        desk.now += 0.001
        desk.finish(number)
    assert desk.claim_size == 10


def test_little_prefetched_is_a_reason_to_claim_at_once():
    desk = Desk(batch=10)
    desk.claim(6, start_in=MINUTE)
    assert not desk.scheduler.is_low
    desk.scheduler.take_prefetched()
    desk.claim(5, start_in=MINUTE)
    assert desk.scheduler.is_low


def test_while_all_slots_are_stuck_prefetched_leases_go_to_other_workers():
    desk = Desk(concurrency=1, batch=10)
    desk.claim(3)
    assert desk.start() == [1]
    assert desk.scheduler.take_unreachable(desk.now) == []
    desk.now += HORIZON + 0.1
    assert [number for number, _ in desk.scheduler.take_unreachable(desk.now)] == [2, 3]
    assert desk.claim_size == 0


def test_a_worker_that_pauses_prefetches_nothing_and_handles_one_task_at_a_time():
    desk = Desk(concurrency=4, pause=(SECOND, 3 * SECOND))
    assert desk.claim_size == 1
    desk.claim(2)
    assert desk.start() == [1]
    desk.finish(1)
    assert desk.start() == [] and desk.scheduler.next_start_at(desk.now) == desk.now + 3
    desk.now += 3
    assert desk.start() == [2]


def test_a_worker_claims_nothing_while_it_pauses_because_the_start_would_be_missed():
    desk = Desk(concurrency=4, pause=(SECOND, 3 * SECOND))
    desk.claim(1)
    desk.finish(*desk.start())
    assert (desk.claim_size, desk.scheduler.rest_left(desk.now)) == (0, 3.0)
    desk.now += 3
    assert (desk.claim_size, desk.scheduler.rest_left(desk.now)) == (1, 0.0)


def test_no_pause_follows_a_task_whose_start_was_missed():
    desk = Desk(concurrency=4, gap=SECOND, pause=(SECOND, 3 * SECOND))
    for is_late in (True, False):
        desk.claim(1)
        desk.now += 0.5
        ((number, start),) = desk.scheduler.start_due(desk.now)
        desk.now = start.due + is_late
        assert desk.scheduler.try_request(start, desk.now) is not is_late
        if is_late:
            desk.scheduler.miss_turn(start.lease)
        # The turn of a late one is used all the same, so its outcome says that its host was asked.
        desk.finish(number, Release)
        assert desk.scheduler.rest_left(desk.now) == (0.0 if is_late else 3.0)


def test_no_pause_follows_a_page_that_is_not_due():
    desk = Desk(concurrency=4, pause=(SECOND, 3 * SECOND))
    desk.claim(1)
    ((number, start),) = desk.scheduler.start_due(desk.now)
    desk.scheduler.miss_turn(start.lease)
    desk.finish(number, lambda lease: Done(lease, asked=False))
    assert desk.scheduler.rest_left(desk.now) == 0.0


def test_no_pause_follows_a_task_that_asked_nothing():
    desk = Desk(concurrency=4, pause=(SECOND, 3 * SECOND))
    desk.claim(2)
    desk.finish(*desk.start(), lambda lease: Release(lease, asked=False))
    assert desk.start() == [2]
    desk.finish(2)
    assert desk.scheduler.rest_left(desk.now) == 3.0


def test_all_workers_that_pause_are_needed_for_a_host_that_is_free_soon():
    polling = Polling(SECOND, may_rest=True, uniform=max)
    desk = Desk(gap=SECOND, pause=(SECOND, 3 * SECOND), polling=polling)
    soon = Grant(next_due=SECOND)
    assert max(desk.after_claim(soon).wait for _ in range(20)) == 1 + MAX_POLL_INTERVAL_SECONDS
    desk.change_pause(None)
    assert desk.after_claim(soon).wait > 1 + MAX_POLL_INTERVAL_SECONDS


def test_a_pause_can_be_set_changed_and_removed_while_a_worker_works():
    desk = Desk(concurrency=4)
    desk.claim(3)
    numbers = desk.start()
    desk.change_pause((SECOND, 9 * SECOND))
    for number in numbers:
        desk.finish(number)
    assert (desk.claim_size, desk.scheduler.rest_left(desk.now)) == (0, 9.0)
    desk.change_pause((SECOND, 2 * SECOND))
    assert desk.scheduler.rest_left(desk.now) == 2.0, "no longer than the new pause, and not at once"
    desk.now += 2
    assert desk.claim_size == 1
    desk.change_pause(None)
    assert desk.claim_size > 1


# After a claim


def test_a_drained_run_and_a_used_page_limit_end_the_worker():
    desk = Desk()
    assert desk.after_claim(Grant(drained=True)).end is ExitReason.DRAINED
    assert desk.after_claim(None).end is ExitReason.BUDGET
    assert desk.after_claim(Grant()).end is None


def test_a_claim_by_an_old_plan_is_repeated_as_soon_as_the_plan_is_read():
    following = Desk().after_claim(Grant(outdated=True))
    assert following.refresh_plan and not following.wait and following.end is None


def test_after_a_claim_with_tasks_the_next_one_waits_for_nothing():
    following = Desk().after_claim(Grant(leases=[lease(1)]))
    assert (following.wait, following.yield_for) == (0, 0)


def test_a_worker_that_waits_for_settlements_polls_rarely_because_they_wake_it():
    desk = Desk()
    desk.claim(1)
    assert desk.after_claim(Grant()).wait == MAX_POLL_INTERVAL_SECONDS


# Accept


def test_leases_that_expired_on_their_way_are_released():
    desk = Desk(lease=MINUTE)
    leases = [lease(1), lease(2)]
    assert desk.accept(*leases, at=desk.now - 59) == []
    assert desk.accept(lease(3), at=desk.now - 61) == [lease(3)]
    assert desk.accept(lease(4), at=desk.now - 59, uncertainty=2.0) == [lease(4)]
    assert desk.scheduler.held == 4, "they are held until their release is settled"
    assert desk.start() == [1, 2]


def test_leases_of_a_claim_that_lost_its_lock_are_released():
    assert Desk().accept(lease(1), is_valid=False) == [lease(1)]


class Share:
    partitions = frozenset({"west"})
    fresh = True

    def is_fresh(self, now):
        return self.fresh


def test_leases_of_partitions_that_were_taken_away_are_released():
    desk = Desk(share=Share())
    mine, others = lease(1, partition="west"), lease(2, partition="east")
    assert desk.accept(mine, others) == [others]


def test_nothing_starts_by_an_old_plan():
    share = Share()
    desk = Desk(share=share)
    desk.claim(1, partition="west")
    share.fresh = False
    assert desk.start() == [] and desk.scheduler.next_start_at(desk.now) is None
    share.fresh = True
    assert desk.scheduler.next_start_at(desk.now) is not None and desk.start() == [1]


def test_a_call_is_accepted_once_and_while_there_is_room():
    desk = Desk(concurrency=1)
    assert desk.scheduler.may_accept_call(lease(1))
    desk.claim(1)
    assert not desk.scheduler.may_accept_call(lease(1)), "known"
    desk.claim(MAX_CALLS_PER_SLOT - 1)
    assert not desk.scheduler.may_accept_call(lease(99)), "full"


# Start


def test_a_lease_that_is_due_later_starts_then():
    desk = Desk()
    desk.accept(lease(1, start_in=5 * SECOND), lease(2))
    assert desk.start() == [2]
    assert desk.scheduler.next_start_at(desk.now) == desk.now + 5
    desk.now += 5
    assert desk.start() == [1]
    assert desk.scheduler.next_start_at(desk.now) is None


def test_without_a_free_slot_nothing_starts_and_no_timer_is_needed():
    desk = Desk(concurrency=2)
    desk.claim(3)
    assert desk.start() == [1, 2]
    assert desk.scheduler.next_start_at(desk.now) is None
    desk.finish(1)
    assert desk.scheduler.next_start_at(desk.now) == desk.now
    assert desk.start() == [3]


def test_a_slow_host_leaves_its_slot_to_the_next_task():
    desk = Desk(concurrency=1)
    desk.scheduler.slots.max_slow = 1
    desk.claim(2)
    assert desk.start() == [1]
    desk.scheduler.slots.wait_for_host(1, desk.now)
    assert desk.scheduler.slots.next_slow_at == desk.now + SLOW
    desk.now += SLOW
    assert desk.scheduler.slots.free_slow(desk.now)
    assert desk.start() == [2]


def test_a_request_that_is_too_late_for_its_host_is_not_sent():
    desk = Desk(gap=SECOND)
    desk.accept(lease(1))
    desk.now += 0.5
    ((_, start),) = desk.scheduler.start_due(desk.now)
    assert desk.scheduler.try_request(start, start.due)
    assert not desk.scheduler.try_request(start, start.due + 0.5)


# End and release


def test_an_outcome_is_settled_at_once_when_the_next_claim_may_wait_for_it():
    desk = Desk(gap=SECOND)
    one = lease(1)
    assert desk.scheduler.should_settle_now(Done(one)), "nothing is left to start"
    desk.accept(one)
    assert not desk.scheduler.should_settle_now(Done(one))
    assert desk.scheduler.should_settle_now(Release(one, asked=False)), "its host is free"


def test_a_worker_without_a_gap_waits_for_no_host():
    assert not Desk(gap=ZERO).scheduler.frees_host(Release(lease(1), asked=False))


def test_a_stop_releases_what_is_prefetched_and_what_a_claim_still_brings():
    desk = Desk(concurrency=1)
    desk.claim(2)
    assert desk.start() == [1]
    assert [number for number, _ in desk.scheduler.stop(Stop.FINISH)] == [2]
    assert desk.accept(lease(3)) == [lease(3)], "claimed before the stop"
    assert desk.scheduler.started == [lease(1)] and desk.start() == []
    assert desk.scheduler.is_stopping and not desk.scheduler.is_releasing
    assert not desk.scheduler.may_accept_call(lease(4))
    desk.scheduler.stop(Stop.RELEASE)
    assert desk.scheduler.is_releasing


def test_changed_limits_release_what_was_planned_with_the_old_ones():
    desk = Desk()
    desk.claim(2, start_in=MINUTE)
    assert len(desk.scheduler.change_settings(SECOND, None, desk.now)) == 2
    assert desk.scheduler.frees_host(Release(lease(1), asked=False))


def test_a_lease_is_held_until_it_is_settled():
    desk = Desk()
    desk.claim(1)
    (number,) = desk.start()
    desk.scheduler.finish(number, Done(lease(number)), desk.now)
    assert not desk.scheduler.started and desk.scheduler.held == 1
    assert desk.scheduler.forget(lease(1)) == number
    assert desk.scheduler.held == 0 and desk.scheduler.forget(lease(1)) is None


def test_a_suspect_starts_first_and_beside_as_few_tasks_as_its_limit_says():
    desk = Desk(suspects={"t3": 2})
    desk.claim(4)
    assert desk.start() == [3, 1]
    desk.finish(1)
    assert desk.start() == [2]
    desk.finish(3)
    assert desk.start() == [4]


def test_nothing_starts_beside_a_suspect_that_has_ended_until_it_is_settled():
    desk = Desk(suspects={"t1": 1})
    desk.claim(2)
    assert desk.start() == [1]
    desk.scheduler.finish(1, Done(lease(1)), desk.now)
    assert desk.start() == [] and desk.scheduler.should_settle_now(Done(lease(1)))
    desk.scheduler.forget(lease(1))
    assert desk.start() == [2]


def test_a_suspect_of_its_own_runs_alone_and_takes_another_turn_because_it_waits_for_the_others():
    desk = Desk(suspects={"t5": 1})
    desk.claim(4)
    assert desk.start() == [1, 2, 3, 4]
    for number in (1, 2):
        desk.finish(number)
    desk.claim(2)
    assert desk.start() == []
    for number in (3, 4):
        desk.finish(number)
    ((number, start),) = desk.scheduler.start_due(desk.now)
    assert number == 5 and start.needs_turn
    assert desk.scheduler.next_claim_size(desk.now) == 0
    desk.finish(5)
    assert desk.start() == [6]


def test_a_suspect_that_is_released_before_it_starts_limits_nothing_any_more():
    desk = Desk(suspects={"t1": 1})
    desk.claim(1)
    desk.scheduler.take_prefetched()
    desk.scheduler.forget(lease(1))
    desk.claim(4)
    assert desk.start() == [2, 3, 4, 5]
