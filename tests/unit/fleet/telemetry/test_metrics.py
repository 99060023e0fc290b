"""Metrics in Prometheus format: conventional names, few labels, and a server that survives bad requests."""

import asyncio
import re
import sys
from datetime import timedelta
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from shoal.core.errors import InvalidInput, InvalidSetting, QueueUnavailable
from shoal.core.model import Counts, Done, Task
from shoal.core.values import read_host_port
from shoal.fleet.project.file import Project
from shoal.fleet.schedule.plan import OccurrenceState, advance, started
from shoal.fleet.schedule.store import Schedules
from shoal.fleet.status import at_work
from shoal.fleet.status.progress import ProgressReader
from shoal.fleet.telemetry import setup
from shoal.fleet.telemetry.metrics import (
    MAX_ERROR_CLASSES,
    MAX_PROXIES,
    PoolMetrics,
    QueueMetrics,
    exposition,
    few,
    need_library,
    queue_family,
    tally_families,
)
from shoal.fleet.telemetry.setup import MetricsServer
from shoal.queue.open import open_queue
from shoal.registry.extras import install_command
from shoal.worker.counters import MetricCounters, WorkerCounters
from shoal.worker.ipc.http_server import MAX_HEAD_BYTES


def parsed(text):
    families = list(text_string_to_metric_families(text.decode()))
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def counted():
    measures = MetricCounters()
    for _ in range(3):
        measures.count_task("done", "page")
    measures.count_task("retry", 'a step "with" words')
    measures.count_fetch(0.02, 200)
    measures.count_fetch(99.0, None)
    return WorkerCounters(items=5, bytes=1000, errors={"FetchTimeout": 2}, measures=measures)


def test_worker_counts_are_rendered_in_prometheus_format():
    found = parsed(exposition(tally_families(counted())))
    assert found["shoal_tasks_total", ("outcome", "done"), ("step", "page")] == 3
    assert found["shoal_tasks_total", ("outcome", "retry"), ("step", 'a step "with" words')] == 1
    assert found["shoal_errors_total", ("class", "FetchTimeout")] == 2
    assert found["shoal_responses_total", ("status", "2xx")] == 1
    assert (found["shoal_items_total",], found["shoal_pages_bytes_total",]) == (5, 1000)


def test_requests_through_proxies_are_counted_and_the_last_of_many_proxies_together():
    measures = MetricCounters()
    for number in range(MAX_PROXIES + 2):
        measures.count_proxy("page", f"http://p{number}.test:80")
    measures.count_proxy("slow", "http://p0.test:80")
    found = parsed(exposition(tally_families(WorkerCounters(measures=measures))))
    first, other = ("proxy", "http://p0.test:80"), ("proxy", "other")
    assert found["shoal_proxy_requests_total", ("outcome", "page"), first] == 1
    assert found["shoal_proxy_requests_total", ("outcome", "slow"), first] == 1
    assert found["shoal_proxy_requests_total", ("outcome", "page"), other] == 2


def test_the_histogram_is_cumulative_and_ends_with_all():
    found = parsed(exposition(tally_families(counted())))
    buckets = {labels[0][1]: value for (name, *labels), value in found.items() if name.endswith("_bucket")}
    assert (buckets["0.01"], buckets["0.025"], buckets["60.0"], buckets["+Inf"]) == (0, 1, 1, 2)
    assert found["shoal_fetch_seconds_count",] == 2
    assert found["shoal_fetch_seconds_sum",] == pytest.approx(99.02)


def test_names_and_units_are_conventional():
    text = exposition(tally_families(counted())).decode()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)", text, re.MULTILINE):
        assert name.startswith("shoal_")
        assert name.endswith("_total") == (kind == "counter")


def test_a_worker_that_measures_nothing_has_metrics_all_the_same():
    assert parsed(exposition(tally_families(WorkerCounters(items=1))))["shoal_items_total",] == 1


def test_the_number_of_error_classes_is_limited_and_no_count_decreases():
    counts = {f"Error{number}": 1 for number in range(MAX_ERROR_CLASSES + 7)}
    before = few(counts)
    assert len(before) == MAX_ERROR_CLASSES + 1 and before["other"] == 7
    counts["Error55"] += 1000
    after = few(counts)
    assert all(after[name] >= before[name] for name in before)


def test_the_states_of_a_queue_are_labels_of_one_gauge():
    found = parsed(exposition(iter([queue_family({"books": [Counts(pending=4), Counts(dead=1)]})])))
    assert found["shoal_queue_tasks", ("scraper", "books"), ("state", "pending")] == 4
    assert found["shoal_queue_tasks", ("scraper", "books"), ("state", "dead")] == 1


async def test_schedules_are_measured_by_their_next_and_last_occurrence_and_what_was_missed(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        schedules = Schedules(queue, Project(tmp_path))
        record = await schedules.add("often", {"scraper": "books", "every": "1h", "missed": "skip"})
        first = record.next_at
        await schedules.update("often", lambda found: advance(found, first + timedelta(minutes=30)))
        (begun,) = (await schedules.run_now("often")).open
        await schedules.update("often", started(begun.run_id, OccurrenceState.STARTING, first))
        found, often = parsed(await QueueMetrics(queue, schedules.all).text()), ("schedule", "often")
    assert found["shoal_schedule_next_timestamp_seconds", often] == (first + timedelta(hours=1)).timestamp()
    assert found["shoal_schedule_last_timestamp_seconds", often] == begun.at.timestamp()
    states = {key[2]: count for key, count in found.items() if key[0] == "shoal_schedule_occurrences"}
    assert states == {("state", "missed"): 1, ("state", "starting"): 1}


async def test_a_queue_is_measured_without_urls_hosts_and_runs(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        for _ in range(2):
            run = await queue.start_run("books")
            await queue.enqueue(run.id, [Task(url=f"https://example.com/{n}") for n in range(3)])
        await queue.beat("w1", run_id=run.id, info={"memory": 1 << 20})
        grant = await queue.claim("w1", run_id=run.id, limit=1)
        await queue.settle([Done(grant.leases[0])])
        text = await QueueMetrics(queue).text()
        found = parsed(text)
    assert found["shoal_queue_tasks", ("scraper", "books"), ("state", "pending")] == 5
    assert found["shoal_queue_tasks", ("scraper", "books"), ("state", "completed")] == 1
    assert found["shoal_workers", ("state", "running")] == 1
    assert found["shoal_worker_memory_bytes",] == 1 << 20
    assert b"example.com" not in text and run.id.encode() not in text


async def test_the_demand_is_what_is_ready_or_leased_and_rises_when_a_delay_is_over(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        run, paused = await queue.start_run("books"), await queue.start_run("books")
        await queue.enqueue(run.id, [Task(payload={"n": n}) for n in range(3)])
        await queue.enqueue(run.id, [Task(payload={"late": 1}, delay=timedelta(milliseconds=50))])
        await queue.enqueue(paused.id, [Task(payload={"n": 1})])
        await queue.pause(paused.id)
        await queue.claim("w1", run_id=run.id, limit=1)
        # No worker has sent a heartbeat, so nobody else would end the delay.
        while (demand := parsed(await QueueMetrics(queue).text())["shoal_queue_demand",]) == 3:
            await asyncio.sleep(0.01)
        assert demand == 4


async def test_a_silent_worker_is_late_until_its_run_is_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(at_work, "MAX_SILENCE", -timedelta(1))
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        run = await queue.start_run("books")
        await queue.enqueue(run.id, [Task(payload={"n": 1})])
        await queue.beat("lost", run_id=run.id)
        assert parsed(await QueueMetrics(queue).text())["shoal_workers", ("state", "late")] == 1
        grant = await queue.claim("another", run_id=run.id, limit=1)
        await queue.settle([Done(grant.leases[0])])
        assert parsed(await QueueMetrics(queue).text())["shoal_workers", ("state", "late")] == 0


@pytest.mark.parametrize("end", ["cancel", "finish"])
async def test_tasks_left_in_an_ended_run_are_neither_pending_nor_delayed(tmp_path, end):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        run = await queue.start_run("books")
        await queue.enqueue(run.id, [Task(url=f"https://example.com/{n}") for n in range(3)])
        grant = await queue.claim("w1", run_id=run.id, limit=1)
        await queue.settle([Done(grant.leases[0])])
        await (queue.cancel(run.id) if end == "cancel" else queue.finish(run.id, "enough"))
        found = parsed(await QueueMetrics(queue).text())
        pool = PoolMetrics(SimpleNamespace(tally=WorkerCounters(), in_hand=0, restarts=0, pids=[]))
        pool.update(await ProgressReader(queue, run.id).read())
        of_crew = parsed(await pool.text())
    outcome = "cancelled" if end == "cancel" else "partial"
    for seen in (found, of_crew):
        assert seen["shoal_run_outcome", ("outcome", outcome), ("scraper", "books")] == 1
        assert seen["shoal_run_findings", ("scraper", "books")] == 0
        assert seen["shoal_queue_tasks", ("scraper", "books"), ("state", "pending")] == 0
        assert seen["shoal_queue_tasks", ("scraper", "books"), ("state", "completed")] == 1


async def send(server, request):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.split(":")[2].split("/")[0]))
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


async def _text():
    return b"shoal_items_total 1.0\n"


async def test_the_server_serves_metrics_and_nothing_else():
    async with MetricsServer(("127.0.0.1", 0), _text) as server:
        good = await send(server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert good.startswith(b"HTTP/1.1 200 OK\r\n") and good.endswith(b"\r\n\r\nshoal_items_total 1.0\n")
        head = await send(server, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert head.endswith(b"\r\n\r\n") and b"content-length: 22" in head
        assert b" 404 " in await send(server, b"GET /../etc/passwd HTTP/1.1\r\n\r\n")
        assert b" 405 " in await send(server, b"POST /metrics HTTP/1.1\r\n\r\n")


async def test_a_request_without_an_end_is_closed():
    async with MetricsServer(("127.0.0.1", 0), _text) as server:
        assert await send(server, b"GET /" + b"a" * 2 * MAX_HEAD_BYTES) == b""
        assert b" 200 " in await send(server, b"GET /metrics HTTP/1.1\r\n\r\n")


async def test_while_the_queue_is_unreachable_the_response_is_503():
    async def away():
        raise QueueUnavailable("postgresql://u:c4nary@db", "refused")

    async with MetricsServer(("127.0.0.1", 0), away) as server:
        answer = await send(server, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert b" 503 " in answer and b"c4nary" not in answer


async def test_while_the_queue_does_not_respond_the_response_is_503(monkeypatch):
    monkeypatch.setattr(setup, "RENDER_TIMEOUT", timedelta(milliseconds=10))
    frozen = asyncio.Event()

    async def render():
        try:
            await frozen.wait()
        except asyncio.CancelledError:  # as a driver does that cancels its request at the server first
            await frozen.wait()
        return b""

    async with asyncio.timeout(10), MetricsServer(("127.0.0.1", 0), render) as server:
        for path in (b"/healthz", b"/metrics"):
            assert b" 503 " in await send(server, b"GET " + path + b" HTTP/1.1\r\n\r\n")
        frozen.set()


async def test_a_port_that_is_taken_is_refused_with_what_to_do():
    async with MetricsServer(("127.0.0.1", 0), _text) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(InvalidSetting, match=r"--metrics cannot be used: .*Name another port"):
            async with MetricsServer(("127.0.0.1", port), _text):
                pass


@pytest.mark.parametrize(
    ("text", "address"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:1", ("0.0.0.0", 1)), ("[::1]:80", ("::1", 80))],
)
def test_an_address_is_read(text, address):
    assert read_host_port("--metrics", text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:99999", "host:-1"])
def test_an_address_without_a_port_is_refused(text):
    with pytest.raises(InvalidSetting, match="takes HOST:PORT or PORT"):
        read_host_port("--metrics", text)


def test_without_the_library_it_is_said_what_to_type(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(InvalidInput, match=re.escape(install_command("metrics"))):
        need_library()
