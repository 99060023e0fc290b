"""How the budget of a token is shared: which worker may reserve what, and when."""

from datetime import timedelta

from shoal.fetch.tokens import budget as budgets
from shoal.fetch.tokens.budget import (
    TokenBudget,
    advance,
    clear_rejections,
    lower,
    open_epoch,
    pause,
    record_rejection,
    report,
)
from shoal.fetch.tokens.rate_limit_headers import RateLimit

HOLD_TIMEOUT = 60.0


def reserve(budget, worker="a", wanted=1, outstanding=0):
    return budgets.reserve(budget, worker, wanted, outstanding=outstanding, hold=HOLD_TIMEOUT)


def rate_limit(left, seconds=10):
    return RateLimit(left=left, limit=100, resets_in=timedelta(seconds=seconds))


def an_open(left=99):
    probing, _ = reserve(TokenBudget())
    return open_epoch(probing, "a", rate_limit(left), outstanding=0)


def test_an_unknown_budget_is_asked_about_by_one_request_of_one_worker():
    budget, got = reserve(TokenBudget(), "a", wanted=50)
    assert got == 1
    assert reserve(budget, "b", wanted=50)[1] == 0
    assert reserve(budget, "a", wanted=50, outstanding=1)[1] == 0


def test_what_the_first_answer_tells_is_shared_out_and_never_twice():
    budget = an_open(left=99)
    budget, first = reserve(budget, "a", wanted=60)
    budget, second = reserve(budget, "b", wanted=60)
    assert (first, second) == (60, 39)
    assert reserve(budget, "c")[1] == 0


def test_what_is_handed_back_can_be_reserved_again():
    budget, _ = reserve(an_open(left=10), "a", wanted=10)
    budget = report(budget, "a", outstanding=0, returned=4, epoch=budget.epoch)
    assert reserve(budget, "b", wanted=10)[1] == 4


def test_what_is_handed_back_after_its_window_is_gone():
    budget, _ = reserve(an_open(left=10), "a", wanted=10)
    epoch = budget.epoch
    budget = advance(budget, 10)
    assert not budget.is_known and budget.epoch == epoch + 1
    assert report(budget, "a", outstanding=0, returned=4, epoch=epoch).left is None


def test_requests_that_are_late_are_taken_off_the_next_window():
    budget, late = reserve(an_open(left=50), "b", wanted=30)
    budget, got = reserve(advance(budget, 10), "a")
    assert got == 1
    assert open_epoch(budget, "a", rate_limit(99), outstanding=0).left == 99 - late == 69


def test_a_worker_that_died_loses_what_it_held_when_its_requests_must_be_over():
    budget, _ = reserve(an_open(left=50), "dead", wanted=20)
    budget = advance(budget, HOLD_TIMEOUT + 1)
    assert not budget.held


def test_one_that_died_while_asking_for_all_is_followed_by_another():
    budget, _ = reserve(TokenBudget(), "dead")
    assert reserve(advance(budget, HOLD_TIMEOUT - 1), "b")[1] == 0
    assert reserve(advance(budget, HOLD_TIMEOUT), "b")[1] == 1


def test_less_than_we_believed_is_believed_and_not_added_to():
    budget, _ = reserve(an_open(left=90), "a", wanted=30)
    budget = lower(budget, 5)
    assert budget.left == 5
    assert report(budget, "a", outstanding=0, returned=30, epoch=budget.epoch).left == 5


def test_more_than_we_believed_is_not_believed():
    assert lower(an_open(left=10), 80).left == 10


def test_a_resting_token_is_tried_again_when_its_time_is_over():
    budget = pause(an_open(left=50), 30.0)
    assert reserve(budget, "a")[1] == 0
    assert reserve(advance(budget, 31), "a", wanted=9)[1] == 1


def test_a_host_that_tells_nothing_needs_no_reservation():
    budget = open_epoch(reserve(TokenBudget())[0], "a", RateLimit(), outstanding=0)
    assert budget.is_free
    assert advance(budget, 10_000).is_free


def test_a_limit_that_is_reported_later_counts_from_the_start():
    budget = open_epoch(reserve(TokenBudget())[0], "a", RateLimit(), outstanding=0)
    assert not lower(budget, 7).is_free
    assert reserve(lower(budget, 7), "b", wanted=9)[1] == 1


def test_two_pages_that_refuse_a_token_retire_it_and_one_does_not():
    once = record_rejection(an_open(), "page", "401")
    assert not record_rejection(once, "page", "401").retired
    assert record_rejection(once, "other", "401").retired == "401"
    assert not record_rejection(clear_rejections(once), "other", "401").retired


def test_a_retired_token_is_not_used_again():
    budget = record_rejection(record_rejection(an_open(), "page", "401"), "other", "401")
    assert reserve(budget)[1] == 0
    assert reserve(advance(budget, 10_000))[1] == 0
    assert not budget.is_free


def test_the_runs_that_use_a_token_are_remembered_up_to_a_bound():
    budget = TokenBudget()
    for number in range(20):
        budget = budgets.used_by(budget, f"run {number}", 3)
    assert (budget.number, len(budget.runs), budget.runs[0]) == (3, budgets.MAX_RUNS, "run 19")


def test_a_host_that_does_not_count_the_request_it_answers_is_not_asked_once_too_often():
    assert an_open(left=100).left == 99
