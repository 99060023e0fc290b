"""The crawl benchmark's pages, its judge, its clock and its pictures."""

import json
import os
import sys
from collections import deque
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urljoin
from xml.etree import ElementTree

import pytest

from tools.bench.crawl.chart import chart
from tools.bench.crawl.check import WrongOutput, check
from tools.bench.crawl.cpu import busy, cpu_of, family_of, pin, there, wait_for_quiet
from tools.bench.crawl.field import RUNNERS, Heat, racers
from tools.bench.crawl.measure import CommandFailed, run
from tools.bench.crawl.peers import PINS, SHOWN, versions
from tools.bench.crawl.profile import GROUPS, group_of, profile_markdown, profile_table, shares
from tools.bench.crawl.race import Result
from tools.bench.crawl.report import table, write_docs, write_json
from tools.bench.crawl.site import INDEX, Manual, Truth
from tools.bench.crawl.summary import figures, rows
from tools.bench_crawl import main

ORIGIN = "http://127.0.0.1:8000"


class Reader(HTMLParser):
    """Reads a title and the links of a page with nothing but the standard library."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.title, self.links, self._in_title = "", [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self._in_title = tag == "title"
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_data(self, data):
        if self._in_title:
            self.title, self._in_title = data, False


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


def test_a_page_is_what_is_known_of_it():
    manual = Manual(300)
    for number in (0, 1, 3, 4, 77, 299):
        truth, html = manual.page(number)
        read = Reader(html)
        assert (read.title, len(read.links)) == (truth.title, truth.links)


def test_pages_are_the_same_every_time_and_of_the_size_of_real_ones():
    manual = Manual()
    sizes = [len(manual.page(number)[1].encode()) for number in range(0, 5_000, 100)]
    links = [manual.page(number)[0].links for number in range(0, 5_000, 100)]
    assert manual.page(123) == Manual().page(123)
    assert 10_000 < min(sizes) <= max(sizes) < 61_000
    assert 20 <= min(links) <= max(links) <= 200


@pytest.mark.long
def test_every_page_can_be_reached_from_the_index():
    manual = Manual(250)
    numbers = {f"{ORIGIN}{path}": number for number, path in enumerate(manual.paths)}
    waiting, seen = deque([f"{ORIGIN}{INDEX}"]), {f"{ORIGIN}{INDEX}"}
    while waiting:
        url = waiting.popleft()
        for href in Reader(manual.page(numbers[url])[1]).links:
            link = urldefrag(urljoin(url, href)).url
            if link.startswith(ORIGIN) and link not in seen:
                seen.add(link)
                waiting.append(link)
    assert seen == set(numbers)


TRUTHS = [Truth("/a", "A", 1), Truth("/b", "B", 2)]
GOOD = [
    {"url": f"{ORIGIN}/b#part", "title": "B", "links": 2},
    {"url": f"{ORIGIN}/a", "title": "A", "links": 1},
]


def test_lines_in_any_order_and_with_fragments_are_right():
    check(map(json.dumps, GOOD), TRUTHS, ORIGIN)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (GOOD[:1], "1 of 2 pages missing"),
        ([*GOOD, GOOD[0]], "1 lines too many"),
        ([GOOD[0], {**GOOD[1], "title": "Â"}], "1 of 2 pages missing"),
        ([GOOD[0], {**GOOD[1], "links": 0}], "1 of 2 pages missing"),
    ],
    ids=["missing", "twice", "misread", "miscounted"],
)
def test_wrong_output_is_found_out(lines, says):
    with pytest.raises(WrongOutput, match=says):
        check(map(json.dumps, lines), TRUTHS, ORIGIN)


def start(code: str, folder: Path, timeout: float = 30):
    cores = os.sched_getaffinity(0)
    return run([sys.executable, "-c", code], folder=folder, cores=cores, env={"A": "1"}, timeout=timeout)


def test_a_command_is_measured_with_its_children(tmp_path):
    child = "x = bytearray(60_000_000); sum(range(3_000_000)); import time; time.sleep(0.5)"
    usage = start(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])", tmp_path)
    assert usage.seconds > 0.5
    assert usage.cpu > 0.02
    assert usage.memory_mb > 60


def test_a_command_that_fails_says_why(tmp_path):
    with pytest.raises(CommandFailed, match="no such luck") as caught:
        start("import sys; print('no such luck'); sys.exit(3)", tmp_path)
    assert caught.value.code == 3


def test_a_command_that_hangs_is_ended(tmp_path):
    with pytest.raises(CommandFailed, match="-9"):
        start("import time; time.sleep(60)", tmp_path, timeout=0.3)


def test_a_program_that_is_on_one_core_starts_others_on_the_rest(tmp_path):
    everything = os.sched_getaffinity(0)
    pin([os.getpid()], {min(everything)})
    try:
        cores = there({max(everything)})
        code = "import os; print(os.sched_getaffinity(0))"
        usage = run([sys.executable, "-c", code], folder=tmp_path, cores=cores, env={}, timeout=30)
    finally:
        os.sched_setaffinity(0, everything)
    assert usage.said.strip() == str({max(everything)})


def test_a_core_that_the_machine_lacks_means_any():
    assert there({10_000}) == os.sched_getaffinity(0)


def test_waiting_for_quiet_ends(monkeypatch):
    monkeypatch.setattr("tools.bench.crawl.cpu.LOOK", 0.05)
    before = busy()
    wait_for_quiet(timedelta(seconds=0.2))
    assert busy() >= before > 0


def test_the_processor_time_of_a_family_is_read():
    sum(range(1_000_000))
    assert cpu_of(os.getpid()) > 0
    assert family_of(os.getpid())[0] == os.getpid()


def test_a_row_is_the_median_of_its_heats():
    (row,) = rows([result("bare", seconds) for seconds in (1, 2, 10)], racers())
    assert (row.whole_rate, row.rate, row.cpu_ms, row.heats) == (500, 1_000, 2, 3)


def test_a_heat_that_others_disturbed_does_not_count_where_there_is_a_calm_one():
    (row,) = rows([result("bare", 10, others=1.2), result("bare", 2)], racers())
    assert (row.whole_rate, row.heats) == (500, 1)
    (row,) = rows([result("bare", 10, others=1.2)], racers())
    assert (row.whole_rate, row.others) == (100, 1.2)


def test_ratios_are_held_to_bars_by_both_clocks():
    found = rows([result("shoal-sqlite-1", 1), result("scrapy", 6)], racers())
    by_name = {figure.scenario: figure for figure in figures(found)}
    assert by_name["A shoal-sqlite-1 / scrapy, crawling"].verdict == "met"
    assert by_name["A shoal-sqlite-1 / scrapy, start to end"].value == 6
    assert by_name["A shoal-sqlite-1, memory a worker"].verdict == "met"


def test_every_racer_has_a_name_of_its_own_and_a_command(tmp_path):
    everyone = racers()
    assert len({racer.name for racer in everyone}) == len(everyone)
    heat = Heat(
        task="A", urls=tmp_path / "urls.txt", folder=tmp_path, host="127.0.0.1:1", peers=Path("python")
    )
    for racer in everyone:
        files = [word for word in racer.command(heat) if str(word).startswith(str(RUNNERS))]
        assert [Path(str(file).partition(":")[0]).exists() for file in files] == [True]


def test_the_peers_are_pinned_and_no_address_is_given():
    assert set(versions()) == set(SHOWN)
    assert "://" not in PINS.read_text()


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
    write_docs(tmp_path / "crawl.json", tmp_path)
    page = (tmp_path / "benchmarks-crawl.md").read_text()
    assert "{{" not in page
    assert "The machine was in use" not in page
    assert "| Scrapy | 333 | 167 |" in page
    ElementTree.parse(tmp_path / "benchmarks-crawl.svg")


def test_the_chart_shows_every_row_with_its_figure():
    found = rows([result("shoal-sqlite-1", 1), result("wrk", 0.01), result("bare", 2, task="B")], racers())
    picture = ElementTree.fromstring(chart(found))
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"Shoal, SQLite, 1 worker", "2,000", "200,000 →", "1,000"} <= set(texts)
    widths = [float(bar.get("width")) for bar in picture.iter("{http://www.w3.org/2000/svg}rect")]
    assert max(widths) == widths[0]


def test_the_table_names_both_tasks():
    shown = table(rows([result("bare", 1), result("bare", 2, task="B")], racers()))
    assert "Task A" in shown
    assert "Task B" in shown


def test_a_name_that_means_nobody_is_refused_with_a_hint(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "A-scrappy"])
    with pytest.raises(SystemExit, match="Did you mean 'A-scrapy'"):
        main()


def test_the_names_are_listed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench", "--list", "--only", "B-shoal-*"])
    assert main() == 0
    assert capsys.readouterr().out.split()[0] == "B-shoal-sqlite-1"


@pytest.mark.parametrize(
    ("file", "group"),
    [
        ("fetch/http/wreq.py", "fetch"),
        ("scrape/parsing.py", "parse"),
        ("scrape/links/traps.py", "links"),
        ("core/urls.py", "links"),
        ("scrape/page.py", "step"),
        ("step", "step"),
        ("worker/settling/settlements.py", "settle"),
        ("queue/sqlite/thread.py", "settle"),
        ("worker/ipc/protocol.py", "IPC"),
        ("worker/scheduler.py", "loop"),
        ("", "loop"),
    ],
)
def test_every_file_of_a_profile_has_a_group(file, group):
    assert group_of(file) == group


def test_a_profile_is_shown_in_shares_of_the_whole():
    found = shares({"scrape/parsing.py": 3.0, "fetch/egress.py": 1.0})
    assert sum(found.values()) == pytest.approx(1)
    assert profile_table({"A": found}).splitlines()[1].split()[:5] == ["A", "25", "%", "75", "%"]
    assert profile_markdown({"A": found}).splitlines()[2].startswith("| A | 25 % | 75 % |")
    assert profile_markdown({"A": found}).count("--:") == len(GROUPS)
    assert profile_markdown({}) == profile_table({}) == ""


def test_a_profiled_worker_says_how_long_each_file_ran(tmp_path):
    into = tmp_path / "profile.json"
    busy = (
        f"import sys; sys.path.insert(0, {str(RUNNERS)!r}); sys.argv = ['shoal.worker.process.main']\n"
        "import shoal_profiled\n"
        "from shoal.core.values import read_duration\n"
        "while shoal_profiled.samples < 60: read_duration('delay', '5m')\n"
        "import os; os._exit(0)  # as a worker ends"
    )
    run(
        [sys.executable, "-c", busy],
        folder=tmp_path,
        cores=there({0}),
        env={"BENCH_PROFILE": str(into)},
        timeout=100,
    )
    seconds = json.loads(into.read_text())
    assert max(seconds, key=seconds.get) == "core/values.py"
