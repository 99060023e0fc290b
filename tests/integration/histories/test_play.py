"""Short random histories on SQLite: one that holds, and clients and stores that the judge must convict."""

import runpy
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shoal.queue.sqlite.queue import SqliteQueue
from tests.integration import chaos
from tools.histories.judge import figures, judge
from tools.histories.play import Cast, play

UNFENCED = Path(chaos.__file__).parent / "unfenced" / "sitecustomize.py"
AHEAD = timedelta(seconds=2)
AT_ONCE = timedelta(0)  # it is convicted by what comes before the drain


def on(folder, *, ahead=()):
    """Return what opens the file of a test; the clients of these numbers have clocks that are ahead."""

    async def open_client(number):
        skew = AHEAD if number in ahead else timedelta(0)
        return await SqliteQueue.open(folder / "queue.db", now=lambda: datetime.now(UTC) + skew)

    return open_client


@pytest.mark.long
async def test_a_history_of_many_clients_breaks_no_rule_and_has_seen_all_there_is_to_see(tmp_path):
    record = await play(on(tmp_path), Cast(seed=7, most_waiting=40, seconds=2.0, clients=4))
    assert judge(record) == {}
    counted = figures(record)
    assert min(counted.completed, counted.gaps, counted.lost_leases, counted.refused) > 0


@pytest.mark.long
async def test_a_client_that_asks_and_says_that_it_did_not_is_convicted(tmp_path):
    record = await play(on(tmp_path), Cast(seed=7, most_waiting=40, seconds=1.5, clients=3, liars=1))
    assert list(judge(record)) == ["hasty"]


@pytest.mark.long
async def test_a_store_without_a_fence_is_convicted(tmp_path, monkeypatch):
    monkeypatch.setattr(SqliteQueue, "_settle", SqliteQueue._settle)  # and so restored afterwards
    runpy.run_path(str(UNFENCED))
    record = await play(on(tmp_path), Cast(seed=7, most_waiting=40, seconds=2.0, clients=4))
    assert list(judge(record)) == ["doubled"]
