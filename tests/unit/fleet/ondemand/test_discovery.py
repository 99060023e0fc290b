"""Which worker gets the next call."""

import random

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND
from shoal.fleet.ondemand.client import (
    MAX_FAILURES,
    STRATEGIES,
    ListeningWorker,
    WorkerDirectory,
    read_strategy,
)
from shoal.worker.ipc.calls import ListenerHealth, ListenerRecord


def member(name, *, mine=0, others=0, chosen=0, is_up=True):
    listed = ListenerRecord(worker_id=name, address="http://127.0.0.1:1", run_id="r")
    turn = {} if chosen is None else {"chosen": chosen}
    return ListeningWorker(listed, mine=mine, others=others, is_up=is_up, **turn)


def directory(strategy, *members):
    made = WorkerDirectory(None, "pages", None, strategy=strategy, interval=SECOND)
    made._members = {one.listed.worker_id: one for one in members}
    return made


def names(made, count):
    return [made.pick().listed.worker_id for _ in range(count)]


def test_the_least_loaded_is_chosen_whichever_balancer_caused_the_load():
    a, b, c = member("a", mine=1, others=1), member("b", others=3), member("c", mine=1)
    assert names(directory("least_loaded", a, b, c), 1) == ["c"]


def test_of_equals_each_has_its_turn():
    assert names(directory("least_loaded", *map(member, "abc")), 6) == list("abcabc")


def test_round_robin_goes_round_whatever_the_load():
    assert names(directory("round_robin", member("a", mine=9), member("b")), 4) == list("abab")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_first_calls_of_many_callers_reach_every_worker(strategy):
    random.seed(1)
    firsts = {
        names(directory(strategy, *(member(name, chosen=None) for name in "abc")), 1)[0] for _ in range(60)
    }
    assert firsts == set("abc")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_worker_that_is_down_or_was_tried_is_never_chosen(strategy):
    up, tried = member("up"), member("tried")
    made = directory(strategy, member("down", is_up=False), tried, up)
    assert {made.pick(but=[tried]) for _ in range(20)} == {up}
    assert made.pick(but=[tried, up]) is None


def test_an_unknown_strategy_is_refused_with_a_hint():
    with pytest.raises(InvalidSetting, match="Did you mean 'round_robin'"):
        read_strategy("round-robin")


def test_one_missed_check_takes_a_worker_down_and_several_give_up_its_calls():
    one = member("a")
    one.mark_failed("it does not respond")
    assert not one.is_up and not one.lost.is_set()
    for _ in range(MAX_FAILURES - 1):
        one.mark_failed("it does not respond")
    assert one.lost.is_set()


def test_a_worker_that_passes_a_check_in_between_keeps_its_calls():
    one = member("a", mine=2)
    for _ in range(2 * MAX_FAILURES):
        one.mark_failed("it does not respond")
        one.mark_healthy(ListenerHealth(in_hand=5))
    assert one.is_up and not one.lost.is_set() and one.load == 5


def test_a_lost_worker_that_is_healthy_again_can_be_called():
    one = member("a")
    for _ in range(MAX_FAILURES):
        one.mark_failed("it does not respond")
    given_up = one.lost
    one.mark_healthy(ListenerHealth(in_hand=0))
    assert given_up.is_set() and one.is_up and not one.lost.is_set()


def test_a_worker_that_is_stopping_is_not_chosen():
    one = member("a")
    one.mark_healthy(ListenerHealth(in_hand=0, stopping=True))
    assert not one.is_up
