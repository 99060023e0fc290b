"""Queries by name: every one is valid, and any number of rows can be written."""

import re

import apsw
import pytest

from shoal.queue.sqlite.store import QUERIES, ROWS, query_for_rows

NAMES = sorted(QUERIES)
# Tables that may be large: no query of a verb may scan all of one.
LARGE = "task|ready|delayed|expiry|item|reject|dead|expired|failure|host_queue|host"
# Read by users, once per run, or when a user changes a run.
RARE = {
    "purge_host_queues",
    "worker_read",
    "purge_workers",
    "purge_step_groups",
    "run_host_queues",
    "run_hosts",
    "host_shorten",
}


def explain(store, name):
    """Return the steps of a query's plan."""
    text = QUERIES[name]
    values = [None] * text.count("?") or dict.fromkeys(re.findall(r":(\w+)", text))
    return [row[3] for row in store.connection.execute(f"EXPLAIN QUERY PLAN {text}", values)]


@pytest.mark.parametrize("name", NAMES)
def test_every_query_can_be_prepared_and_walks_through_no_large_table(store, name):
    walks = [step for step in explain(store, name) if re.match(rf"SCAN ({LARGE})\b", step)]
    assert not walks or name in RARE


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 31, 33, 127, 128, 129, 511, 513, 1100])
def test_rows_go_in_however_many_they_are(store, count):
    rows = [(1, place, 0) for place in range(count)]
    assert store.run_many("ready_add", rows) == count
    found = store.connection.execute("SELECT host_queue, place, attempt FROM ready ORDER BY place")
    assert list(found) == rows


@pytest.mark.parametrize("name", [name for name in NAMES if "VALUES (?" in QUERIES[name]])
def test_no_statement_is_too_long_for_apsw_to_keep(name):
    assert len(query_for_rows(name, ROWS[-1])) < 16_384


def test_a_row_that_breaks_a_rule_of_the_table_is_not_passed_over(store):
    with pytest.raises(apsw.ConstraintError):
        store.run_many("ready_add", [(1, 1, 0), (1, 1, 0)])
