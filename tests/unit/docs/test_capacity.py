"""The table of the capacity page is what the figures give, and the figures are those that it names."""

import re

from tests.unit.docs.pages import DOCS
from tools import capacity

PAGE = (DOCS / "explanation" / "capacity.md").read_text()


def test_the_table_is_computed():
    shown = re.search(r"<!-- capacity.*?-->\n(.*?)\n<!-- end -->", PAGE, re.S)
    assert shown and shown[1] == capacity.table(), "run: python -m tools.capacity"


def test_the_formulas_name_the_figures_that_are_used():
    for figure in (
        f"{capacity.WORKER_CPU * 1e3:g} ms ÷ {capacity.UTILISATION:g}",
        f" {capacity.POSTGRES.server_cpu * 1e3:g} ms",
        f" {capacity.POSTGRES.stored:g} bytes",
        f" {capacity.POSTGRES.wal / 1e3:g} kB",
        f" {capacity.REDIS.server_cpu * 1e3:g} ms",
        f" {capacity.REDIS.stored:g} bytes",
        f"latency ÷ {capacity.CONCURRENCY}",
        f"{capacity.WORKER_MEMORY / 1e6:g} MB each",
    ):
        assert figure in PAGE, figure


def test_the_workers_cost_is_that_of_the_queues_page():
    rows = (DOCS / "explanation" / "queues.md").read_text()
    assert re.search(rf"^\| PostgreSQL \|.*\| {capacity.WORKER_CPU * 1e3:g} \|", rows, re.M)
