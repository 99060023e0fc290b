"""Which occurrences are due, skipped and missed."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from shoal.core.run_outcome import RunOutcome, Verdict
from shoal.fleet.schedule.plan import (
    GRACE,
    MAX_HISTORY,
    MAX_WAITING,
    OccurrenceState,
    ScheduleRecord,
    advance,
    ended,
    paused,
    run_now,
    scheduled,
    started,
)
from shoal.fleet.schedule.rows import OccurrenceRow, sign_of

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DUE, STARTING, RUNNING = OccurrenceState.DUE, OccurrenceState.STARTING, OccurrenceState.RUNNING
CANCELLING, ENDED = OccurrenceState.CANCELLING, OccurrenceState.ENDED
SKIPPED, MISSED = OccurrenceState.SKIPPED, OccurrenceState.MISSED


def every_minute(**more):
    return scheduled(ScheduleRecord(name="often", table={"scraper": "books", "every": "1m", **more}), NOON)


def states(record):
    return [one.state for one in record.occurrences]


def running(record):
    run_id = record.open[0].run_id
    record = started(run_id, STARTING, NOON)(record)
    return started(run_id, RUNNING, NOON)(record)


def test_an_occurrence_is_recorded_once_and_its_run_is_named_by_its_time():
    record = advance(every_minute(), NOON + MINUTE)
    assert advance(record, NOON + MINUTE) == record
    (one,) = record.occurrences
    assert (one.run_id, one.state, one.at) == ("often_20260215_120100", DUE, NOON + MINUTE)


def test_a_clock_that_is_behind_records_nothing_again():
    record = advance(every_minute(), NOON + 2 * MINUTE)
    assert advance(record, NOON - MINUTE) == record
    assert scheduled(record, NOON - MINUTE).next_at == NOON + 3 * MINUTE


def test_by_default_what_is_due_while_a_run_is_not_over_is_skipped():
    record = advance(running(advance(every_minute(), NOON + MINUTE)), NOON + 2 * MINUTE)
    assert states(record) == [RUNNING, SKIPPED]
    assert record.occurrences[1].reason == "run often_20260215_120100 was not over"


def test_with_wait_it_follows_the_run_and_only_so_many_wait():
    record = running(advance(every_minute(overlap="wait"), NOON + MINUTE))
    for minute in range(2, MAX_WAITING + 4):
        record = advance(record, NOON + minute * MINUTE)
    assert states(record) == [RUNNING, *[DUE] * MAX_WAITING, SKIPPED, SKIPPED]
    assert record.open[0].state is RUNNING


def test_with_cancel_it_ends_the_run_before_and_takes_the_place_of_one_that_has_not_begun():
    record = advance(running(advance(every_minute(overlap="cancel"), NOON + MINUTE)), NOON + 2 * MINUTE)
    assert states(record) == [CANCELLING, DUE]
    assert states(advance(record, NOON + 3 * MINUTE)) == [CANCELLING, SKIPPED, DUE]


def test_after_a_downtime_one_run_makes_up_for_all_that_was_missed():
    record = advance(_nightly(), NOON + timedelta(days=3))
    assert [(one.state, one.is_late) for one in record.occurrences] == [(DUE, True)]
    assert record.next_at == datetime(2026, 2, 19, 2, tzinfo=UTC)


def test_after_a_downtime_nothing_runs_if_it_says_so():
    record = advance(_nightly(missed="skip"), NOON + timedelta(days=3))
    assert states(record) == [MISSED] and not record.open
    assert record.occurrences[0].reason == "no coordinator was there until 2026-02-19 02:00 UTC"


def test_an_occurrence_that_is_due_now_stands_for_those_that_were_missed_before_it():
    record = advance(_nightly(), datetime(2026, 2, 18, 2, 0, 30, tzinfo=UTC))
    assert states(record) == [MISSED, DUE]
    assert record.occurrences[1].at == datetime(2026, 2, 18, 2, tzinfo=UTC)


def test_a_coordinator_that_is_late_by_less_than_the_grace_misses_nothing():
    record = advance(every_minute(overlap="wait"), NOON + MINUTE + GRACE)
    assert states(record) == [DUE] * 6


def test_years_of_downtime_cost_no_more_than_a_day():
    record = advance(every_minute(missed="skip", every="1s"), NOON + timedelta(days=20_000))
    assert len(record.occurrences) <= MAX_HISTORY + MAX_WAITING + 1


def test_an_occurrence_that_waits_for_its_jitter_survives_an_edit():
    record = _nightly(jitter="3h")
    within = datetime(2026, 2, 16, 2, 0, 1, tzinfo=UTC)
    assert advance(record, within) == record
    edited = scheduled(replace(record, table=record.table | {"overlap": "wait"}), within)
    assert [one.at.hour for one in advance(edited, within + timedelta(hours=3)).occurrences] == [2]


def test_jitter_longer_than_the_time_between_two_occurrences_drops_none():
    table = {"scraper": "books", "cron": "* * * * *", "jitter": "1h", "overlap": "wait"}
    record = scheduled(ScheduleRecord(name="often", table=table), NOON)
    for second in range(0, 601, 5):
        record = advance(record, NOON + timedelta(seconds=second))
        assert states(record).count(DUE) >= second // 60 - 1
    assert [one.at - NOON for one in record.occurrences][:9] == [MINUTE * count for count in range(1, 10)]


def test_what_waits_for_the_run_before_does_not_begin_after_a_pause_except_by_hand():
    record = running(advance(every_minute(overlap="wait"), NOON + MINUTE))
    record = paused(run_now(advance(record, NOON + 2 * MINUTE), NOON), NOON + 2 * MINUTE)
    assert states(record) == [RUNNING, SKIPPED, DUE]
    assert record.next_at is None and record.occurrences[-1].is_manual
    assert record.occurrences[1].reason == "the schedule was paused"


def test_a_run_that_was_to_be_cancelled_and_ended_by_itself_has_its_own_outcome():
    record = advance(running(advance(every_minute(overlap="cancel"), NOON + MINUTE)), NOON + 2 * MINUTE)
    run_id = record.open[0].run_id
    complete = Verdict(outcome=RunOutcome.COMPLETE)
    assert ended(run_id, complete, NOON)(record).find(run_id).outcome == "complete"
    cancelled = Verdict(outcome=RunOutcome.CANCELLED, reason="2 left")
    assert ended(run_id, cancelled, NOON)(record).find(run_id).reason == "the next one was due"


def test_run_now_waits_for_the_run_before_and_can_be_repeated_within_a_second():
    record = run_now(run_now(running(advance(every_minute(), NOON + MINUTE)), NOON), NOON)
    assert [one.run_id for one in record.open] == [
        "often_20260215_120100",
        "often_20260215_120000_now",
        "often_20260215_120000_now_2",
    ]


def test_run_now_does_not_put_off_the_next_occurrence():
    record = run_now(every_minute(), NOON + timedelta(seconds=70))
    assert scheduled(record, NOON).next_at == NOON + MINUTE


def test_an_occurrence_that_has_ended_is_not_begun_or_ended_again():
    record = running(advance(every_minute(), NOON + MINUTE))
    over = ended("often_20260215_120100", Verdict(outcome=RunOutcome.COMPLETE, warnings=["w"]), NOON)(record)
    assert states(over) == [ENDED] and sign_of(OccurrenceRow.from_occurrence(over.occurrences[0])) == "~"
    assert started("often_20260215_120100", STARTING, NOON)(over) == over
    assert (
        ended("often_20260215_120100", Verdict(outcome=RunOutcome.FAILED, reason="again"), NOON)(over) == over
    )


def test_the_history_is_bounded_and_forgets_nothing_that_is_open():
    record = running(advance(every_minute(), NOON + MINUTE))
    for minute in range(2, 300):
        record = advance(record, NOON + minute * MINUTE)
    assert len(record.occurrences) == MAX_HISTORY + 1
    assert record.open[0].run_id == "often_20260215_120100"


def _nightly(**more):
    table = {"scraper": "books", "cron": "0 2 * * *", **more}
    return scheduled(ScheduleRecord(name="nightly", table=table), NOON)
