"""How `shoal run` ends: its exit code, and the first words of its summary."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from shoal import Scraper
from shoal.cli.closing_lines import left_out_lines
from shoal.cli.commands.crawl.run import exit_code, summary_text
from shoal.cli.exits import Exit
from shoal.core.model import RunState, Stats
from shoal.fleet.job import Job
from shoal.fleet.run.launch import Summary
from shoal.fleet.run.open_run import RunEnqueueReport
from shoal.fleet.run.pool import PoolExit
from shoal.fleet.status.progress import Snapshot
from tests.unit.builders import make_run

BUDGET = "max_pages=2 reached"
JOB = Job(scraper=Scraper("books"), name="books.py", reference="books.py", queue_url="sqlite:///shoal.db")


def summary_of(stats, state=RunState.RUNNING, reason="", cuts=()):
    run = make_run(
        id="r1", scraper="books", state=state, reason=reason, started_at=datetime(2026, 2, 15, tzinfo=UTC)
    )
    snapshot = Snapshot(run, stats, 0, 0.0, None, cuts=cuts)
    return Summary(
        run=run,
        enqueued=RunEnqueueReport(),
        job=JOB,
        before=0,
        snapshot=snapshot,
        ending=PoolExit([], []),
        seconds=1.0,
    )


def test_a_summary_is_shown_in_one_line_with_the_state_at_the_end():
    shown = "Summary(run_id='r1', state='finished', completed=2, dead=1, items=7, seconds=1.0)"
    assert repr(summary_of(Stats(completed=2, dead=1, items=7))) == shown


@pytest.mark.parametrize(
    ("summary", "code"),
    [
        (summary_of(Stats(completed=2)), Exit.OK),
        (summary_of(Stats(completed=2), cuts=("depth",)), Exit.LIMIT_REACHED),
        (summary_of(Stats(completed=2, pending=1), RunState.PARTIAL, BUDGET), Exit.LIMIT_REACHED),
        (summary_of(Stats(completed=2, lost=300)), Exit.PARTIAL),
        (summary_of(Stats(completed=2, pending=1, lost=300), RunState.PARTIAL, BUDGET), Exit.PARTIAL),
    ],
)
def test_a_run_that_lost_tasks_or_was_cut_does_not_end_like_a_complete_one(summary, code):
    assert exit_code(summary) is code


@pytest.mark.parametrize(
    "summary",
    [
        summary_of(Stats(completed=2, lost=300)),
        summary_of(Stats(completed=2, pending=1, lost=300), RunState.PARTIAL, BUDGET),
    ],
)
def test_lost_tasks_are_in_the_state_the_reason_and_the_closing_lines(summary):
    found = summary.as_json()
    assert (found["state"], found["lost"]) == ("partial", 300)
    assert "300 tasks were lost, because RabbitMQ no longer has their messages" in found["reason"]
    first, second = left_out_lines(summary.snapshot, None)
    assert first.startswith("Not complete: ") and "300 tasks were lost" in first
    assert "enqueue the same source" in second


@pytest.fixture
def job():
    return Job(
        scraper=Scraper("books"),
        name="books.py",
        reference="books.py",
        queue_url="redis://:secret@db/0",
    )


def test_the_closing_lines_allow_every_private_host_that_the_workers_have_named(job):
    found = replace(
        summary_of(Stats(pending=3)),
        ending=PoolExit(
            [],
            [
                "… with: --allow-private a --allow-private b:1",
                "… with: --allow-private b:1 --allow-private c",
            ],
        ),
    )
    lines = summary_text(replace(found, job=job), None).splitlines()
    (again,) = (line for line in lines if line.startswith("Resume:"))
    assert again.endswith("--allow-private a --allow-private b:1 --allow-private c")


def test_the_closing_lines_say_when_their_commands_need_the_address_of_the_queue(job):
    found = summary_of(Stats(completed=2, dead=1))
    text = summary_text(replace(found, job=job), "books.jsonl")
    assert '--queue "$SHOAL_QUEUE"' in text and "secret" not in text
    assert text.endswith("set SHOAL_QUEUE to the queue's URL with its password.")
    assert "SHOAL_QUEUE" not in summary_text(replace(found, job=replace(job, queue_url="redis://db/0")), None)
