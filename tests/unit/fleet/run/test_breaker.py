from shoal.fleet.run.pool import MAX_KILLERS, Breaker


def test_different_tasks_that_kill_their_workers_in_a_row_are_a_crash_loop():
    breaker = Breaker()
    for number in range(MAX_KILLERS):
        assert breaker.reason is None
        breaker.record_death({f"t{number}"})
    assert breaker.reason.startswith("CrashLoop: 5 different tasks in a row")


def test_one_task_that_kills_every_worker_is_no_crash_loop():
    breaker = Breaker()
    for _ in range(100):
        breaker.record_death({"t1"})
    assert breaker.reason is None and breaker.deaths == 1


def test_tasks_that_are_known_to_kill_and_are_left_at_the_end_of_a_run_are_tried_to_their_end():
    breaker = Breaker()
    for number in range(20):
        breaker.record_death({f"t{number}"})
        breaker.record_completed(number + 1)
    for number in range(20):
        breaker.record_death({f"t{number}"})
    assert breaker.reason is None


def test_many_steps_that_run_when_a_worker_dies_are_one_death():
    breaker = Breaker()
    breaker.record_death({f"t{number}" for number in range(30)})
    assert breaker.reason is None and breaker.deaths == 1


def test_a_completed_task_resets_the_count():
    breaker = Breaker()
    for number in range(20 * MAX_KILLERS):
        if number % 3 == 0:
            breaker.record_completed(number + 1)
        breaker.record_death({f"t{number}"})
        assert breaker.reason is None
    deaths = breaker.deaths
    breaker.record_completed(1)
    assert breaker.deaths == deaths > 0, "nothing new was completed"
