"""Every backend goes through random histories beside the model; queues broken on purpose are found out."""

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conformance.backends import Bench, Place, VirtualClock
from tests.conformance.faults import FAULTS
from tests.conformance.histories import Histories

SETTINGS = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Sixteen shards make histories slow, and so does a broker; the plain server has gone through these scripts.
FEWER = settings(SETTINGS, max_examples=40)
SLOW = ("redis-cluster", "rabbitmq")
# A negative control needs no smallest example, and must not depend on luck.
HUNT = settings(SETTINGS, phases=[Phase.generate], derandomize=True, print_blob=False, database=None)


def test_every_history_goes_as_the_rules_say(place: Place) -> None:
    # One queue for all examples: its connections live in one event loop.
    with asyncio.Runner() as runner:
        opening = place.bench()
        bench = runner.run(opening.__aenter__())
        try:
            chosen = FEWER if place.backend in SLOW else SETTINGS
            run_state_machine_as_test(machine_on(bench, runner), settings=chosen)
        finally:
            runner.run(opening.__aexit__(None, None, None))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_queue_that_breaks_a_rule_is_found_out(fault: str) -> None:
    clock = VirtualClock()
    bench = Bench(FAULTS[fault](clock.now), clock)
    with asyncio.Runner() as runner, pytest.raises(AssertionError):
        run_state_machine_as_test(machine_on(bench, runner), settings=HUNT)


def machine_on(bench: Bench, runner: asyncio.Runner) -> type[Histories]:
    """Return the state machine that drives this bench."""
    return type("HistoriesOnABench", (Histories,), {"bench": bench, "loop": runner.get_loop()})
