"""Every backend runs random histories beside the model; deliberately broken queues are detected."""

import asyncio
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import UnsatisfiedAssumption
from hypothesis.stateful import run_state_machine_as_test

from shoal.core.model import ZERO, Grant, RunSettings
from tests.conformance.backends import Bench, StoreUnderTest, VirtualClock
from tests.conformance.events import RUNS, Claimed
from tests.conformance.faults import FAULTS
from tests.conformance.helpers import ME, TEN, page
from tests.conformance.histories import Histories
from tests.conformance.model import ModelQueue

HISTORIES = int(os.environ.get("SHOAL_HISTORIES", "8"))
SETTINGS = settings(
    max_examples=HISTORIES,
    stateful_step_count=50,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# Sixteen shards make histories slow, and so do a broker and a pooler; the plain servers run the same code.
SLOW = ("redis-cluster", "rabbitmq", "pgbouncer")
ONE_TRY = RunSettings(host_delay=ZERO, max_attempts=1)
CLAIM = Claimed(
    ZERO,
    {"run_id": RUNS[0], "worker_id": ME, "limit": 1, "lease": TEN, "steps": None, "partitions": None},
)
# A negative control needs no minimal example, and must not depend on luck.
HUNT = settings(
    SETTINGS,
    max_examples=2_000,
    phases=[Phase.generate],
    derandomize=True,
    print_blob=False,
    database=None,
)


@pytest.mark.timeout(600)
def test_every_history_goes_as_the_rules_say(store: StoreUnderTest) -> None:
    # One queue for all examples: its connections live in one event loop.
    with asyncio.Runner() as runner:
        opening = store.bench()
        bench = runner.run(opening.__aenter__())
        try:
            count = max(1, HISTORIES // 4) if store.backend in SLOW else HISTORIES
            chosen = settings(SETTINGS, max_examples=count)
            run_state_machine_as_test(machine_on(bench, runner), settings=chosen)
        finally:
            runner.run(opening.__aexit__(None, None, None))


@pytest.mark.long
@pytest.mark.timeout(600)  # seconds: some take ten of processor time, which a busy machine makes minutes
@pytest.mark.parametrize("fault", FAULTS)
def test_a_queue_that_breaks_a_rule_is_found_out(fault: str) -> None:
    clock = VirtualClock()
    bench = Bench(FAULTS[fault](clock.now), clock)
    with asyncio.Runner() as runner, pytest.raises(AssertionError):
        run_state_machine_as_test(machine_on(bench, runner), settings=HUNT)


def test_time_that_passes_by_itself_between_two_calls_makes_no_queue_look_wrong() -> None:
    clock = VirtualClock()
    with asyncio.Runner() as runner:
        history = machine_on(Bench(ModelQueue(clock.now), clock), runner)()
        history.start(ONE_TRY, ONE_TRY, [page()])
        history.happen(CLAIM)
        history.counts_agree()
        runner.run(clock.forward(TEN))  # the lease is lost without a wait
        history.happen(CLAIM)
        history.counts_agree()
        history.teardown()


def test_a_history_in_which_a_call_stalls_counts_for_nothing() -> None:
    clock = VirtualClock()

    class Stalls(ModelQueue):
        async def claim(self, *args: Any, **named: Any) -> Grant:
            await clock.forward(TEN)
            return await super().claim(*args, **named)

    with asyncio.Runner() as runner:
        history = machine_on(Bench(Stalls(clock.now), clock), runner)()
        history.start(ONE_TRY, ONE_TRY, [page()])
        with pytest.raises(UnsatisfiedAssumption):
            history.happen(CLAIM)


def machine_on(bench: Bench, runner: asyncio.Runner) -> type[Histories]:
    """Return the state machine that drives this bench."""
    return type("HistoriesOnABench", (Histories,), {"bench": bench, "loop": runner.get_loop()})
