"""The crawl benchmark's judge, its clock and its tables."""

import json
from xml.etree import ElementTree

import pytest

from tools.bench.crawl.check import WrongOutput, check
from tools.bench.crawl.field import racers
from tools.bench.crawl.race import Result
from tools.bench.crawl.report import write_docs, write_json
from tools.bench.crawl.site import Truth
from tools.bench.crawl.summary import figures, rows

ORIGIN = "http://127.0.0.1:8000"
TRUTHS = [Truth("/a", "A", 1), Truth("/b", "B", 2)]
GOOD = [
    {"url": f"{ORIGIN}/b#part", "title": "B", "links": 2},
    {"url": f"{ORIGIN}/a", "title": "A", "links": 1},
]


def result(racer: str, seconds: float, task: str = "A", **changes) -> Result:
    facts = {
        "task": task,
        "racer": racer,
        "pages": 1_000,
        "seconds": seconds,
        "crawl_seconds": seconds / 2,
        "cpu": seconds,
        "store_cpu": 0.0,
        "memory_mb": 100.0,
        "others": 0.0,
    }
    return Result(**(facts | changes))


def test_lines_in_any_order_and_with_fragments_are_right_and_wrong_output_is_found_out():
    check(map(json.dumps, GOOD), TRUTHS, ORIGIN)
    for lines, says in (
        (GOOD[:1], "1 of 2 pages missing"),
        ([*GOOD, GOOD[0]], "1 lines too many"),
        ([GOOD[0], {**GOOD[1], "title": "Â"}], "1 of 2 pages missing"),
        ([GOOD[0], {**GOOD[1], "links": 0}], "1 of 2 pages missing"),
    ):
        with pytest.raises(WrongOutput, match=says):
            check(map(json.dumps, lines), TRUTHS, ORIGIN)


def test_a_row_is_the_median_of_its_heats_without_those_that_others_disturbed():
    (row,) = rows([result("bare", seconds) for seconds in (1, 2, 10)], racers())
    assert (row.whole_rate, row.rate, row.cpu_ms, row.heats) == (500, 1_000, 2, 3)
    (row,) = rows([result("bare", 10, others=1.2), result("bare", 2)], racers())
    assert (row.whole_rate, row.heats) == (500, 1)
    (row,) = rows([result("bare", 10, others=1.2)], racers())
    assert (row.whole_rate, row.others) == (100, 1.2)


def test_ratios_are_held_to_bars_by_both_clocks():
    found = rows([result("shoal-sqlite-1", 1), result("scrapy", 6)], racers())
    by_name = {figure.scenario: figure for figure in figures(found)}
    assert by_name["A shoal-sqlite-1 / scrapy, crawling"].verdict == "met"
    assert by_name["A shoal-sqlite-1 / scrapy, start to end"].value == 6


def test_the_page_and_the_chart_are_made_from_the_json(tmp_path):
    heats = [result("shoal-sqlite-1", 1), result("scrapy", 6), result("bare", 2, task="B")]
    about = {
        "pages": 5_000,
        "rounds": 1,
        "began": "2026-02-15T12:00:00",
        "machine": {"system": "Linux", "cpus": 2},
        "versions": {"python": "3.11"},
    }
    write_json(tmp_path / "crawl.json", rows(heats, racers()), heats, about)
    page = tmp_path / "results.md"
    page.write_text("Before\n<!-- bench-crawl: make bench-crawl -->\nold\n<!-- end -->\nafter\n")
    write_docs(tmp_path / "crawl.json", page)
    text = page.read_text()
    assert "old" not in text and text.endswith("\n<!-- end -->\nafter\n")
    assert "| Scrapy | 333 | 167 |" in text and "The machine was in use" not in text
    picture = ElementTree.parse(tmp_path / "benchmarks-crawl.svg")
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Shoal, SQLite, 1 worker", "2,000"} <= set(texts)
