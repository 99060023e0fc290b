"""The pages on logs and metrics say what is there."""

import re
from pathlib import Path

import pytest

from shoal.core import events
from shoal.fleet.status import stale
from shoal.fleet.telemetry import logs, metrics
from shoal.fleet.telemetry.metrics import (
    demand_family,
    exposition,
    outcome_families,
    pool_families,
    queue_family,
    schedule_families,
    tally_families,
)
from shoal.worker.counters import WorkerCounters
from shoal.worker.process.heartbeat import HEARTBEAT_INTERVAL, HOUR, IDLE_HEARTBEAT_INTERVAL

FOLDER = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = {name: (FOLDER / f"{name}.md").read_text() for name in ("logs", "metrics")}


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_run(name):
    for example in re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL):
        exec(example, {"__name__": "example"})


def test_every_event_is_listed_and_every_listed_one_is_there():
    known = {
        value
        for name, value in vars(events).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    table = PAGES["logs"].partition("| event | level |")[2].partition("\n\n")[0]
    listed = {
        word for row in table.splitlines()[2:] for word in re.findall(r"`([a-z ]+)`", row.split("|")[1])
    }
    assert listed == known


def test_every_metric_is_listed():
    class Pool:
        pids, restarts, in_hand = (), 0, 0

    families = [
        *tally_families(WorkerCounters()),
        *pool_families(Pool()),
        queue_family({}),
        demand_family(0),
        *outcome_families({}),
        *schedule_families([]),
    ]
    names = set(re.findall(r"^# TYPE (\S+)", exposition(iter(families)).decode(), re.MULTILINE))
    assert names == set(re.findall(r"`(shoal_\w+)`", PAGES["metrics"]))


def test_the_numbers_are_those_of_the_code():
    assert f"{logs.MAX_BYTES >> 20} MB" in PAGES["logs"]
    assert f"the last {logs.MAX_OLD_FILES} are kept" in PAGES["logs"]
    page = PAGES["metrics"]
    assert stale.MAX_SILENCE == 3 * HEARTBEAT_INTERVAL
    assert f"no heartbeat for {stale.MAX_SILENCE.total_seconds():g} seconds" in page
    busy, idle = HEARTBEAT_INTERVAL.total_seconds(), IDLE_HEARTBEAT_INTERVAL.total_seconds()
    assert f"every {busy:g} seconds, every {idle:g} from a worker that holds no task" in page
    assert f"for {stale.OLD.total_seconds() / 60:g} minutes" in page
    assert f"beyond {metrics.MAX_ERROR_CLASSES} of them" in page
    assert f"the newest {metrics.MAX_RUNS} runs" in page
    assert HOUR == 3600 and "in the last hour" in page
