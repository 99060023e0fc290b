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


def test_the_figures_beside_the_formula_are_those_of_the_benchmarks():
    results = (DOCS / "reference" / "results.md").read_text()
    for figure in ("118 µs", "554 bytes", "44 µs"):
        assert figure in PAGE and figure in results, figure
    by_links = results.partition("| task B |")[2]
    row = re.search(r"^\| Shoal, PostgreSQL, 1 worker \|(.*)$", by_links, re.M)
    assert row
    worker, store = (float(cell) for cell in row[1].split("|")[2:4])
    assert f"took the worker {worker:g} ms and PostgreSQL {store:g} ms" in PAGE
    assert f"the workers by {worker / (capacity.WORKER_CPU * 1e3):.1f} " in PAGE
    assert f"those of PostgreSQL by {store / (capacity.POSTGRES.server_cpu * 1e3):.1f}." in PAGE
