"""What is told, once for each incident and once when it is over, whatever the receiver does."""

import asyncio
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shoal.core.errors import LOGIN_FAILED
from shoal.core.model import Bury, RunSettings, Task
from shoal.core.run_outcome import RunOutcome, Verdict
from shoal.fleet.notify import channels, incidents, notifier
from shoal.fleet.notify.incidents import event_id
from shoal.fleet.notify.notifier import Notifier
from shoal.fleet.project.file import Project
from shoal.fleet.run.judgement import judged
from shoal.fleet.schedule import plan
from shoal.fleet.schedule.plan import OccurrenceState
from shoal.fleet.schedule.store import Schedules
from shoal.scrape.scraper import Scraper
from tests.unit.fleet.notify.receiver import BROKEN, HANG, Receiver

NO_DELAY = RunSettings(host_delay=timedelta(0))
GOOD, BAD = Verdict(outcome=RunOutcome.COMPLETE), Verdict(outcome=RunOutcome.FAILED, reason="it broke")
WARNED = Verdict(outcome=RunOutcome.COMPLETE, warnings=["price: filled in 0%"])
STRANGE = Verdict(outcome=RunOutcome.SUSPICIOUS, reason="the price is empty")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(incidents, "FIRST_DELAY", timedelta(milliseconds=1))
    monkeypatch.setattr(incidents, "LONGEST_DELAY", timedelta(milliseconds=1))


@pytest.fixture
async def receiver():
    async with Receiver() as opened:
        yield opened


def project(url, **more):
    return Project(Path.cwd(), Path("shoal.toml"), notify={"team": {"url": url, **more}})


def ended(told, run_id, verdict, **facts):
    return told.run_ended(run_id, verdict, scraper="books", **facts)


def titles(receiver):
    return [one["title"] for one in receiver.messages]


async def test_a_run_that_ended_is_told_if_the_channel_asks_for_it_and_once_only(queue, receiver):
    told = Notifier(queue, project(receiver.url, events=["finished"]))
    await asyncio.gather(*(ended(told, "r1", GOOD) for _ in range(3)))
    await told.flush()
    await ended(told, "r1", GOOD)
    await told.flush()
    assert titles(receiver) == ["Run r1 of books: complete"]


async def test_an_incident_is_told_once_however_many_nights_it_lasts_and_once_when_it_is_over(
    queue, receiver
):
    told = Notifier(queue, project(receiver.url))
    for night, verdict in enumerate([BAD, BAD, BAD, GOOD, GOOD, BAD]):
        await ended(told, f"r{night}", verdict)
        await told.flush()
    assert titles(receiver) == [
        "Run r0 of books: failed",
        "Over: Run r0 of books: failed",
        "Run r5 of books: failed",
    ]
    assert receiver.messages[1]["text"].startswith("Run r3 of books: complete\nMore: shoal status r3")
    assert [one["state"] for one in receiver.messages] == ["open", "over", "open"]


async def test_a_suspicious_run_has_not_failed_and_each_of_both_is_told(queue, receiver):
    told = Notifier(queue, project(receiver.url))
    for night, verdict in enumerate([BAD, STRANGE, GOOD]):
        await ended(told, f"r{night}", verdict)
        await told.flush()
    found = [(one["event"], one["state"]) for one in receiver.messages]
    assert sorted(found[1:3]) == [("failed", "over"), ("suspicious", "open")]
    assert (found[0], found[3]) == (("failed", "open"), ("suspicious", "over"))


async def test_warnings_of_a_good_run_are_one_incident(queue, receiver):
    told = Notifier(queue, project(receiver.url))
    for night, verdict in enumerate([STRANGE, WARNED, WARNED, GOOD]):
        await ended(told, f"r{night}", verdict)
        await told.flush()
    found = [(one["event"], one["state"], one["run_id"]) for one in receiver.messages]
    assert found[0] == ("suspicious", "open", "r0") and found[3:] == [("warning", "over", "r1")]
    assert sorted(found[1:3]) == [("suspicious", "over", "r0"), ("warning", "open", "r1")]
    (warned,) = [one for one in receiver.messages if (one["event"], one["state"]) == ("warning", "open")]
    assert warned["title"] == "Run r1 of books: complete, with warnings"
    assert warned["text"].startswith("price: filled in 0%\nMore: ")


async def test_schedules_of_one_scraper_have_incidents_of_their_own(queue, receiver):
    told = Notifier(queue, project(receiver.url))
    await ended(told, "r1", BAD, schedule="nightly")
    await ended(told, "r2", GOOD, schedule="hourly")
    await told.flush()
    assert titles(receiver) == ["Run r1 of books: failed"]


async def test_many_processes_that_see_the_same_send_it_once(queue, receiver):
    every = [Notifier(queue, project(receiver.url)) for _ in range(5)]
    await asyncio.gather(*(ended(told, "r1", BAD) for told in every))
    await asyncio.gather(*(told.flush() for told in every))
    assert len(receiver.messages) == 1


async def test_what_a_receiver_refuses_is_sent_again_with_the_same_id(queue, receiver):
    answers, said = [500, 404, 302], []
    receiver.answers = list(answers)
    told = Notifier(queue, project(receiver.url), said.append)
    await ended(told, "r1", BAD)
    async with asyncio.timeout(20):
        while len(receiver.requests) <= len(answers):
            await told.flush()
    await told.flush()
    assert len(receiver.requests) == len(answers) + 1
    assert len({one["id"] for one in receiver.messages}) == 1
    assert len(said) == 1 and said[0].endswith("It is tried again.")  # quiet: not at every attempt


async def test_every_event_arrives_whatever_the_receiver_does(queue, receiver, monkeypatch):
    monkeypatch.setattr(channels, "SEND_TIMEOUT", timedelta(seconds=0.1))
    luck, told = random.Random(7), Notifier(queue, project(receiver.url), lambda text: None)
    receiver.answers = [luck.choice([500, 404, 302, HANG, BROKEN]) for _ in range(20)]
    wanted = set()
    for night in range(10):  # of schedules of their own, so that each is an incident
        await ended(told, f"r{night}", BAD, schedule=f"s{night}")
        wanted.add(event_id("failed", f"r{night}"))
        await told.send_due()
    async with asyncio.timeout(60):
        while {one["id"] for one in receiver.messages[20:]} != wanted:
            await told.flush()
    assert len(receiver.requests) >= 30  # a good answer that comes late is one more


async def test_a_message_of_a_process_that_died_while_it_sent_is_sent_by_another(
    queue, receiver, monkeypatch
):
    dead, alive = (Notifier(queue, project(receiver.url)) for _ in range(2))
    await ended(dead, "r1", BAD)
    now = await queue.now()
    assert await dead._incidents.claim("failed scraper books", dead.channels[0].id, now)
    await alive.flush()
    assert receiver.messages == []  # it may be on its way

    async def later():
        return now + incidents.CLAIM

    monkeypatch.setattr(queue, "now", later)
    await alive.flush()
    assert titles(receiver) == ["Run r1 of books: failed"]


async def test_a_receiver_that_hangs_holds_up_no_other_channel_and_no_work(queue, receiver):
    async with Receiver(HANG) as hanging:
        both = Project(Path.cwd(), notify={"hangs": {"url": hanging.url}, "team": {"url": receiver.url}})
        told = Notifier(queue, both)
        await ended(told, "r1", BAD)
        async with asyncio.timeout(5):  # far less than the timeout of a request
            await told.send_due()
            while not receiver.messages:
                await asyncio.sleep(0.01)
        assert told._sending
        for task in list(told._tasks):
            task.cancel()
        await asyncio.wait(told._tasks)


async def test_no_secret_of_a_channel_is_in_a_message(queue, receiver):
    url = receiver.url.replace("/hook", "/hook-verysecret")
    told = Notifier(queue, project(url))
    verdict = Verdict(outcome=RunOutcome.FAILED, reason=f"POST {url} failed, password=hunter22")
    await ended(told, "r1", verdict)
    await told.flush()
    assert "verysecret" not in str(receiver.messages) and "hunter22" not in str(receiver.messages)


async def test_a_warning_about_another_field_is_told_while_one_is_open(queue, receiver):
    told = Notifier(queue, project(receiver.url))
    nights = (
        ["price: filled in 0%"],
        ["price: filled in 1%"],
        ["stock: text in 90%", "price: filled in 0%"],
        [],
    )
    for number, warnings in enumerate(nights):
        await ended(told, f"r{number}", Verdict(outcome=RunOutcome.COMPLETE, warnings=warnings))
        await told.flush()
    assert [(one["run_id"], one["state"]) for one in receiver.messages] == [
        ("r0", "open"),
        ("r2", "open"),
        ("r2", "over"),
    ]


async def test_a_run_without_progress_is_told_and_over_when_it_goes_on(queue, receiver, monkeypatch):
    monkeypatch.setattr(notifier, "STALLED_AFTER", timedelta(0))
    told = Notifier(queue, project(receiver.url))
    run = await queue.start_run("books", settings=NO_DELAY)
    await queue.enqueue(run.id, [Task(url="https://a.example/1")])
    for _ in range(3):
        await told.watch()
    await Notifier(queue, project(receiver.url)).watch()  # another process, which has seen nothing yet
    await told.flush()
    assert titles(receiver) == [f"Run {run.id} of books has stalled"]
    await queue.cancel(run.id)
    for _ in range(2):
        await told.watch()
    await told.flush()
    assert titles(receiver)[1] == f"Over: Run {run.id} of books has stalled"


async def test_the_end_of_a_run_of_another_process_is_told_once_its_items_are_judged(queue, receiver):
    told = Notifier(queue, project(receiver.url, events=["finished", "failed"]))
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url="https://a.example/1")])
    await told.watch()
    (lease,) = (await queue.claim("w", run_id=run.id)).leases
    await queue.settle([Bury(lease, "gone")])
    for _ in range(2):
        await told.watch()
        await told.flush()
    assert receiver.messages == []
    await judged(queue, run.id, Scraper("books"), lambda text: None)
    for _ in range(2):
        await told.watch()
        await told.flush()
    assert titles(receiver) == [f"Run {run.id} of books: failed"]


async def test_a_host_that_is_blocked_is_told_and_over_when_it_is_not(queue, receiver):
    told = Notifier(queue, project(receiver.url))
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url="https://a.example/1")])
    await queue.pause_host("a.example", timedelta(hours=2))
    for _ in range(2):
        await told.watch()
    await told.flush()
    assert [one["host"] for one in receiver.messages] == ["a.example"]
    for _ in range(3):  # a request between two pauses
        await queue.pause_host("a.example", timedelta(0))
        await told.watch()
        await queue.pause_host("a.example", timedelta(hours=2))
        await told.watch()
    await queue.pause_host("a.example", timedelta(0))
    for _ in range(2):
        await told.watch()
    await told.flush()
    assert [one["state"] for one in receiver.messages] == ["open", "over"]


async def test_a_run_that_waits_for_a_paused_host_or_a_slow_rate_has_not_stalled(
    queue, receiver, monkeypatch
):
    monkeypatch.setattr(notifier, "STALLED_AFTER", timedelta(0))
    told = Notifier(queue, project(receiver.url))
    slow = await queue.start_run("books", settings=RunSettings(host_delay=timedelta(hours=1)))
    await queue.enqueue(slow.id, [Task(url=f"https://slow.example/{n}") for n in range(2)])
    paused = await queue.start_run("news", settings=NO_DELAY)
    await queue.enqueue(paused.id, [Task(url="https://paused.example/1")])
    await queue.pause_host("paused.example", timedelta(minutes=5))
    for _ in range(3):
        await told.watch()
    await told.flush()
    assert receiver.messages == []
    monkeypatch.setattr(notifier, "WAITING_AFTER", timedelta(0))  # as if it had lasted for an hour
    for _ in range(2):
        await told.watch()
    await told.flush()
    assert titles(receiver) == [f"Run {paused.id} of news has stalled"]


async def test_a_login_that_fails_is_told_soon_with_its_error(queue, receiver, monkeypatch):
    monkeypatch.setattr(notifier, "LOGIN_AFTER", timedelta(0))
    told = Notifier(queue, project(receiver.url))
    run = await queue.start_run("shop", settings=NO_DELAY)
    await queue.enqueue(run.id, [Task(url="https://shop.example/1")])
    await queue.pause_host("shop.example", timedelta(seconds=20))
    for why in ("NoSession: No session is ready", f"NoSession: {LOGIN_FAILED}: LoginFailed: wrong password"):
        await queue.beat("w1", run_id=run.id, info={"waits_for": why})
        for _ in range(2):
            await told.watch()
    await told.flush()
    (message,) = receiver.messages
    assert (message["event"], message["title"]) == ("stalled", f"Run {run.id} of shop has stalled")
    assert "LoginFailed: wrong password" in message["text"]


async def test_a_hand_typed_run_is_over_when_a_scheduled_one_of_its_scraper_ends_well(queue, receiver):
    told = Notifier(queue, project(receiver.url))
    await ended(told, "typed", BAD)
    await ended(told, "nightly", GOOD, schedule="nightly")
    await told.flush()
    assert [one["state"] for one in receiver.messages] == ["open", "over"]


async def test_a_message_that_this_process_cannot_send_is_sent_by_one_with_the_secret(
    queue, receiver, monkeypatch
):
    monkeypatch.delenv("TEAM_URL", raising=False)
    lacking = Notifier(queue, project("env:TEAM_URL"), lambda text: None)
    await ended(lacking, "r1", BAD)
    await lacking.flush()
    monkeypatch.setenv("TEAM_URL", receiver.url)
    await Notifier(queue, project("env:TEAM_URL")).flush()
    assert titles(receiver) == ["Run r1 of books: failed"]


async def test_projects_that_share_a_queue_send_to_their_own_channels_and_close_their_own_incidents(
    queue, receiver
):
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url=f"https://a.example/{n}") for n in range(2)])
    (lease, *_) = (await queue.claim("w", run_id=run.id, limit=1)).leases
    await queue.settle([Bury(lease, "gone")])
    async with Receiver() as other:
        ours = Notifier(queue, project(receiver.url, dead_letters=0))
        theirs = Notifier(queue, project(other.url, dead_letters=5, events=["dead", "failed"]))
        for told in (ours, theirs, theirs, ours):
            await told.watch()
        await ended(ours, "r1", BAD)
        await ended(theirs, "r1", BAD)
        for told in (theirs, ours):
            await told.flush()
        assert [one["event"] for one in other.messages] == ["failed"]
    assert sorted((one["event"], one["state"]) for one in receiver.messages) == [
        ("dead", "open"),
        ("failed", "open"),
    ]


async def test_dead_letters_of_a_run_that_ended_between_two_watches_are_told(queue, receiver):
    told = Notifier(queue, project(receiver.url, dead_letters=0))
    run = await queue.start_run("books")
    await queue.enqueue(run.id, [Task(url="https://a.example/1")])
    (lease,) = (await queue.claim("w", run_id=run.id)).leases
    await queue.settle([Bury(lease, "gone")])
    await ended(told, run.id, GOOD)
    for _ in range(3):
        await told.watch()
    await told.flush()
    assert [(one["event"], one["state"]) for one in receiver.messages] == [("dead", "once")]


async def test_a_run_that_is_resumed_and_ends_again_is_told_once_as_finished(queue, receiver):
    told = Notifier(queue, project(receiver.url, events=["finished"]))
    await ended(told, "r1", Verdict(outcome=RunOutcome.PARTIAL, reason="max_pages=1 reached"))
    await told.flush()
    for again in (told, Notifier(queue, project(receiver.url, events=["finished"]))):
        await ended(again, "r1", GOOD)
        await again.flush()
    assert len(receiver.messages) == 1


async def test_a_missed_schedule_is_told_until_the_next_occurrence_is_in_time(queue, receiver, monkeypatch):
    with_schedule = Project(
        Path.cwd(),
        notify={"team": {"url": receiver.url}},
        schedules={"nightly": {"scraper": "books", "cron": "0 2 * * *", "missed": "skip"}},
    )
    told, schedules = Notifier(queue, with_schedule), Schedules(queue, with_schedule)
    await schedules.declare()
    begin = await queue.now()
    for days, count in ((3, 1), (3, 1)):
        monkeypatch.setattr(queue, "now", _at(begin + timedelta(days=days)))
        await schedules.advance(await schedules.get("nightly"))
        await told.watch()
        await told.flush()
        assert len(receiver.messages) == count
    due = (await schedules.get("nightly")).next_at
    monkeypatch.setattr(queue, "now", _at(due))
    await schedules.advance(await schedules.get("nightly"))
    for _ in range(2):
        await told.watch()
    await told.flush()
    assert [one["state"] for one in receiver.messages] == ["open", "over"]


async def test_an_occurrence_that_was_missed_is_told_though_the_next_one_has_begun(
    queue, receiver, monkeypatch
):
    nightly = {"scraper": "books", "cron": "0 2 * * *"}
    with_schedule = Project(
        Path.cwd(), notify={"team": {"url": receiver.url}}, schedules={"nightly": nightly}
    )
    told, schedules = Notifier(queue, with_schedule), Schedules(queue, with_schedule)
    await schedules.declare()
    second = (await schedules.get("nightly")).schedule.next_after((await schedules.get("nightly")).next_at)
    monkeypatch.setattr(queue, "now", _at(second + timedelta(seconds=1)))
    record = await schedules.advance(await schedules.get("nightly"))
    assert [one.state for one in record.occurrences] == ["missed", "due"]
    for _ in range(3):
        await told.watch()
    await told.flush()
    assert [(one["event"], one["state"]) for one in receiver.messages] == [
        ("missed", "open"),
        ("missed", "over"),
    ]


@pytest.mark.parametrize(
    ("table", "told_of"),
    [
        ({"cron": "0 2 * * *"}, "It was skipped: run nightly_{first} was not over."),
        ({"cron": "0 2 * * *", "overlap": "cancel"}, "It was cancelled: the next one was due."),
        ({"every": "20m"}, None),
    ],
)
async def test_a_night_that_has_no_data_because_of_another_one_is_told(
    queue, receiver, monkeypatch, table, told_of
):
    with_schedule = Project(
        Path.cwd(),
        notify={"team": {"url": receiver.url}},
        schedules={"nightly": {"scraper": "books", **table}},
    )
    told, schedules = Notifier(queue, with_schedule), Schedules(queue, with_schedule)
    await schedules.declare()
    for _ in range(2):
        due = (await schedules.get("nightly")).next_at
        monkeypatch.setattr(queue, "now", _at(due))
        first = (await schedules.advance(await schedules.get("nightly"))).occurrences[0]
        for state in (OccurrenceState.STARTING, OccurrenceState.RUNNING):
            await schedules.update("nightly", plan.started(first.run_id, state, due))
        await told.watch()
    end = plan.ended(first.run_id, Verdict(outcome=RunOutcome.CANCELLED), due)
    await schedules.update("nightly", end)
    await told.watch()
    await told.flush()
    expected = [told_of.format(first=f"{first.at:%Y%m%d_%H%M%S}")] if told_of else []
    assert [one["text"].splitlines()[0] for one in receiver.messages] == expected


async def test_a_run_that_cannot_begin_is_told_though_later_occurrences_are_skipped(
    queue, receiver, monkeypatch
):
    with_schedule = Project(
        Path.cwd(),
        notify={"team": {"url": receiver.url}},
        schedules={"often": {"scraper": "books", "every": "1m"}},
    )
    told, schedules = Notifier(queue, with_schedule), Schedules(queue, with_schedule)
    await schedules.declare()
    begin = (await schedules.get("often")).next_at
    for minutes in range(13):
        monkeypatch.setattr(queue, "now", _at(begin + timedelta(minutes=minutes)))
        record = await schedules.advance(await schedules.get("often"))
        await told.watch()
    assert [one.state for one in record.occurrences[:2]] == ["due", "skipped"]
    await told.flush()
    (message,) = receiver.messages
    assert message["text"].startswith("Its run does not begin")


async def test_an_occurrence_that_its_jitter_has_put_off_was_not_missed(queue, receiver, monkeypatch):
    nightly = {"scraper": "books", "cron": "0 2 * * *", "jitter": "6h"}
    told, schedules = Notifier(queue, project(receiver.url)), Schedules(queue, project(receiver.url))
    monkeypatch.setattr(queue, "now", _at(datetime(2026, 2, 15, 12, tzinfo=UTC)))
    record = await schedules.add("nightly", nightly)
    due = record.schedule.due_at("nightly", record.next_at)
    assert due - record.next_at > timedelta(minutes=15)
    monkeypatch.setattr(queue, "now", _at(due))
    assert (await schedules.advance(record)).open
    await told.watch()
    await told.flush()
    assert receiver.messages == []


def _at(moment):
    async def now():
        return moment

    return now
