"""Traces over OTLP, as a collector receives them."""

import asyncio
import gzip
import time
from collections import Counter, defaultdict

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from shoal.cli.exits import Exit
from shoal.core.model import TaskState
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed
from tests.servers.process import free_port

PAGES = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, per_host=100)

@pages.step
async def page(page: Page):
    if "bad" in page.url:
        raise ValueError("no good")
    yield {"url": page.url}
"""
PAGE_COUNT = 120
CANARY = "c4nary"
SETTING = ("--concurrency", "4", "--workers", "2", "--trace", "--queue")


class Collector:
    """Receives spans, and keeps what it got as it came."""

    def __init__(self):
        self.bodies, self.heads = [], []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                fields = dict(line.split(": ", 1) for line in head.splitlines()[1:] if line)
                body = await reader.readexactly(int(fields["content-length"]))
                is_packed = fields.get("content-encoding") == "gzip"
                self.heads.append(head)
                self.bodies.append(gzip.decompress(body) if is_packed else body)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n")
                writer.write(b"Content-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @property
    def spans(self):
        """All spans, each with its attributes as a dict and the service that it came from."""
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                sender = plain(resource.resource.attributes)["service.name"]
                for scope in resource.scope_spans:
                    yield from ((span, plain(span.attributes), sender) for span in scope.spans)


def plain(attributes):
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in attributes
    }


@pytest.fixture
async def collector():
    async with Collector() as made:
        yield made


@pytest.fixture
def folder(tmp_path, origin):
    origin.answer = lambda path: Answer(after=0.02)
    (tmp_path / "pages.py").write_text(PAGES)
    names = [*map(str, range(PAGE_COUNT - 1)), "bad"]
    (tmp_path / "urls.txt").write_text("".join(f"{origin.url}/{name}?key={CANARY}\n" for name in names))
    return tmp_path


async def run(folder, endpoint):
    words = ("run", "pages.py", "--urls-file", "urls.txt", "--run", "traced", "--json")
    return await typed(
        *words,
        *SETTING,
        "sqlite:///queue.db",
        "--allow-private",
        "127.0.0.0/8",
        folder=folder,
        OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{CANARY}",
    )


async def test_a_collector_receives_the_spans_of_every_task_and_no_secret(folder, collector, origin):
    told = await run(folder, collector.url)
    assert (told.code, told.row["completed"], told.row["dead"]) == (Exit.PARTIAL, PAGE_COUNT - 1, 1), told.err
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        known = {task.id: task.state async for task in queue.tasks("traced")}
        workers = {worker.worker_id for worker in await queue.workers("traced") if worker.completed}

    tasks, parts = {}, defaultdict(list)
    for span, about, sender in collector.spans:
        assert sender == "shoal" and span.end_time_unix_nano >= span.start_time_unix_nano
        if span.name == "task":
            tasks[span.span_id] = span, about
        else:
            parts[span.parent_span_id].append(span)
    assert Counter(about["shoal.task"] for _, about in tasks.values()) == Counter(known.keys())
    assert {about["shoal.run"] for _, about in tasks.values()} == {"traced"}
    assert {about["shoal.worker"] for _, about in tasks.values()} == workers and len(workers) == 2
    for number, (span, about) in tasks.items():
        assert sorted(part.name for part in parts.pop(number)) == ["fetch", "handle", "settle"]
        is_dead = known[about["shoal.task"]] is TaskState.DEAD
        assert about["shoal.outcome"] == ("bury" if is_dead else "done")
        assert (span.status.code == span.status.STATUS_CODE_ERROR) == is_dead
        assert about["http.response.status_code"] == 200
    assert not parts  # every span belongs to a task
    # What is secret goes to the collector only as its own key.
    assert any(path.endswith(f"?key={CANARY}") for path in origin.visits)
    assert collector.bodies and not any(CANARY.encode() in body for body in collector.bodies)
    assert all(f"authorization: bearer {CANARY}" in head for head in collector.heads)
    assert CANARY not in told.out + told.err


@pytest.mark.long
async def test_a_collector_that_is_away_costs_a_run_little_and_gets_no_secret(folder):
    began = time.monotonic()
    told = await run(folder, f"http://127.0.0.1:{free_port()}")
    assert told.row["completed"] == PAGE_COUNT - 1
    assert time.monotonic() - began < 40
    assert CANARY not in told.out + told.err
