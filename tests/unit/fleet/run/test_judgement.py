"""How a run is judged when it has ended: once, from its stored items, against earlier runs."""

import asyncio
import socket
from datetime import timedelta
from itertools import count

import msgspec
import pytest

from shoal.core.errors import InvalidInput, RunConflict, UnknownRun
from shoal.core.model import Bury, Done, Reject, Task
from shoal.core.run_outcome import RunOutcome
from shoal.fleet.quality import records
from shoal.fleet.quality.differences import differences
from shoal.fleet.quality.profile import StepProfile
from shoal.fleet.quality.records import baseline_of, read_record, read_records
from shoal.fleet.run import judgement
from shoal.fleet.run.judgement import TOPIC, judged, profile_of
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.run.retention import RetentionRule, purge_old
from shoal.fleet.status.progress import snapshot_of
from shoal.fleet.status.quality import accept, compare, trend_of
from shoal.queue.run_args import write_args
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.scrape.scraper import Scraper
from shoal.worker.run_settings import StoredSettings, write_settings

GOOD = [{"name": f"Lamp {n}", "price": 10.0 + n} for n in range(40)]
EMPTY = [{"name": f"Lamp {n}", "price": None} for n in range(40)]
NUMBERS = count(1)


class Lamp(msgspec.Struct):
    name: str


@pytest.fixture
async def queue(tmp_path):
    async with await SqliteQueue.open(tmp_path / "queue.db") as queue:
        yield queue


@pytest.fixture
def shop():
    shop = Scraper("shop")

    @shop.step
    def main(page):
        yield {}

    return shop


def differences_of_volume(records, items):
    """Return the findings about the volume of a whole run with this many items."""
    now = msgspec.structs.replace(
        records[0].profile,
        cut="",
        steps={"main": StepProfile(items=items)},
        started_at=records[0].profile.started_at + timedelta(days=1),
    )
    found = differences(now, baseline_of(records, now), lambda *what: None)
    return [one.kind for one in found if one.kind == "volume"]


async def fill(queue, items=GOOD, *, left=0, errors=(), rejects=(), args=None, seeds=""):
    """Create a run whose first task has these items, and others that failed, or are left."""
    run = await queue.start_run("shop", run_id=f"run-{next(NUMBERS):03}")
    if args:
        await write_args(queue, run.id, args)
    await write_settings(queue, run.id, StoredSettings(seeds=seeds))
    await queue.enqueue(run.id, [Task(payload={"n": n}) for n in range(1 + len(errors) + left)])
    first, *others = (await queue.claim("w", run_id=run.id, limit=1 + len(errors))).leases
    done = Done(first, items=items, rejects=rejects)
    failed = [Bury(lease, error) for lease, error in zip(others, errors, strict=True)]
    await queue.settle([done, *failed])
    return run


async def judge_run(queue, shop, *args, said=None, **options):
    how = {name: options.pop(name) for name in ("failure", "timed_out") if name in options}
    run = await fill(queue, *args, **options)
    return run, await judged(queue, run.id, shop, (said if said is not None else []).append, **how)


async def good_runs(queue, shop, number=3, **options):
    for _ in range(number):
        _, record = await judge_run(queue, shop, **options)
        assert (record.verdict.outcome, record.findings) == (RunOutcome.COMPLETE, [])


async def test_a_field_that_is_empty_is_a_finding_with_an_item_then_and_now(queue, shop):
    await good_runs(queue, shop)
    run, record = await judge_run(queue, shop, EMPTY)
    (finding,) = record.findings
    assert (finding.kind, finding.field, finding.then, finding.now) == ("filled", "price", GOOD[0], EMPTY[0])
    snapshot = await snapshot_of(queue, run, await queue.stats(run.id))
    assert (snapshot.outcome, list(snapshot.findings)) == (RunOutcome.COMPLETE, [finding])
    assert snapshot.row().findings[0].text == finding.text


async def test_a_run_is_judged_once_by_processes_that_end_at_the_same_time(queue, shop, monkeypatch):
    calls = []
    read = judgement.read_profile

    async def slow(*args):
        calls.append(1)
        await asyncio.sleep(0.05)
        return await read(*args)

    monkeypatch.setattr(judgement, "read_profile", slow)
    run = await fill(queue)
    records = await asyncio.gather(*(judged(queue, run.id, shop, print) for _ in range(5)))
    assert len(calls) == 1 and all(record == records[0] for record in records)
    assert await judged(queue, run.id, shop, print) == records[0] and len(calls) == 1


async def test_the_claim_of_a_dead_process_is_taken_over(queue, shop):
    run = await fill(queue)
    await queue.write_notes(TOPIC, {run.id: judgement.new_worker_id().encode()}, ttl=timedelta(minutes=10))
    waiting = asyncio.create_task(judged(queue, run.id, shop, print))
    done, _ = await asyncio.wait([waiting], timeout=0.5)
    assert not done  # this process is alive

    dead = f"{socket.gethostname()}-{2**22 - 1}-abc {judgement.pid_scope() or ''}"
    await queue.write_notes(TOPIC, {run.id: dead.encode()}, ttl=timedelta(minutes=10))
    assert (await waiting).verdict.outcome is RunOutcome.COMPLETE


async def test_a_run_that_goes_on_is_judged_again(queue, shop):
    run, record = await judge_run(queue, shop, errors=["ValueError: no price"])
    assert record.verdict.outcome is RunOutcome.PARTIAL
    await queue.replay(run.id)
    assert (await snapshot_of(queue, run, await queue.stats(run.id))).outcome is None
    (lease,) = (await queue.claim("w", run_id=run.id, limit=1)).leases
    await queue.settle([Done(lease, items=[{"name": "late", "price": 1.0}])])
    again = await judged(queue, run.id, shop, print)
    assert (again.verdict.outcome, again.profile.items) == (RunOutcome.COMPLETE, 41)


async def test_a_run_with_tasks_left_is_not_judged_unless_its_time_is_over(queue, shop):
    _, record = await judge_run(queue, shop, left=2)
    assert record is None
    run, record = await judge_run(queue, shop, left=2, timed_out=True)
    assert (record.verdict.outcome, record.verdict.exit_code) == (RunOutcome.TIMED_OUT, 11)
    stopped = await snapshot_of(queue, run, await queue.stats(run.id), at_work=False)
    assert stopped.outcome is RunOutcome.TIMED_OUT
    working = await snapshot_of(queue, run, await queue.stats(run.id), at_work=True)
    assert working.outcome is None  # somebody goes on with it


async def test_a_cancelled_run_and_one_whose_workers_failed_have_their_outcomes(queue, shop):
    run = await fill(queue, left=1)
    await queue.cancel(run.id)
    record = await judged(queue, run.id, shop, print)
    assert record.verdict.outcome is RunOutcome.CANCELLED
    _, record = await judge_run(queue, shop, left=1, failure="No worker could start")
    assert (record.verdict.outcome, record.verdict.reason) == (RunOutcome.FAILED, "No worker could start")


async def test_a_run_that_most_hosts_rejected_is_blocked(queue, shop):
    _, record = await judge_run(queue, shop, errors=["Blocked: a block page"] * 3 + ["ValueError: 1"])
    assert (record.verdict.outcome, record.profile.blocked) == (RunOutcome.BLOCKED, 3)
    assert "rejected 3 of 5 tasks" in record.verdict.reason


async def test_a_run_without_items_is_empty_if_some_were_expected(queue, shop):
    _, record = await judge_run(queue, shop, [])
    assert record.verdict.outcome is RunOutcome.COMPLETE  # it may only download files
    await good_runs(queue, shop)
    _, record = await judge_run(queue, shop, [])
    assert record.verdict.outcome is RunOutcome.EMPTY
    _, record = await judge_run(queue, shop, [], rejects=[Reject(data={"n": 1}, reason="n: too large")] * 10)
    assert (record.verdict.outcome, record.verdict.exit_code) == (RunOutcome.EMPTY, 9)
    assert record.verdict.reason == "it has no items, and 10 rejects"
    typed = Scraper("shop")
    typed.step(item=Lamp, name="main")(lambda page: [])
    run = await queue.start_run("shop", run_id="typed")
    await write_args(queue, run.id, {"other": 1})
    await queue.enqueue(run.id, [Task(payload={"n": 1})])
    (lease,) = (await queue.claim("w", run_id=run.id, limit=1)).leases
    await queue.settle([Done(lease)])
    assert (await judged(queue, run.id, typed, print)).verdict.outcome is RunOutcome.EMPTY


async def test_a_scraper_that_takes_only_what_is_new_may_find_nothing(queue, shop):
    await good_runs(queue, shop)
    _, record = await judge_run(queue, shop.replace(dedup="30d"), [])
    assert (record.verdict.outcome, record.findings) == (RunOutcome.COMPLETE, [])


async def test_functions_of_the_scraper_say_what_is_wrong(queue, shop):
    @shop.expect
    def cheap(run):
        return [f"{run.field('price').filled_share:.0%} filled", "second"]

    @shop.expect
    async def fine(run):
        assert run.items == 40 and run.earlier == []

    @shop.expect
    def broken(run):
        raise KeyError("token=s3cret-token-value")

    @shop.expect
    def asserted(run):
        assert run.items > 100, "too few"

    @shop.expect
    def number(run):
        return 5

    @shop.expect
    def numbers(run):
        return [10**5000]

    @shop.expect
    def ends(run):
        raise SystemExit(1)

    _, record = await judge_run(queue, shop)
    assert record.verdict.outcome is RunOutcome.SUSPICIOUS
    texts = [finding.text for finding in record.findings]
    assert texts[:2] == ["100% filled", "second"] and texts[3].startswith("too few")
    assert texts[2].startswith("expect broken failed: KeyError")
    assert texts[4].startswith("expect number returned a value of type int; return a sentence")
    assert "expect numbers returned a value of type list" in texts[5] and "SystemExit" in texts[6]


async def test_items_that_cannot_be_checked_do_not_end_the_command(queue, shop, monkeypatch):
    async def broken(*args):
        raise OverflowError("too large")

    monkeypatch.setattr(judgement, "read_profile", broken)
    _, record = await judge_run(queue, shop)
    assert (record.verdict.outcome, record.profile.items) == (RunOutcome.COMPLETE, 40)
    assert record.findings[0].text.startswith("its items could not be checked: OverflowError: too large")


async def test_an_accepted_run_is_what_later_ones_are_compared_with(queue, shop):
    await good_runs(queue, shop)
    run, _ = await judge_run(queue, shop, EMPTY)
    await accept(queue, run)
    _, record = await judge_run(queue, shop, EMPTY)
    assert record.findings == []
    assert [row.accepted for row in await trend_of(queue, "shop")] == [False, False, False, True, False]
    open_run = await fill(queue, left=1)
    with pytest.raises(RunConflict, match="has not ended"):
        await accept(queue, open_run)


async def test_a_run_that_is_no_longer_right_counts_as_before(queue, shop):
    await good_runs(queue, shop)
    run, _ = await judge_run(queue, shop, EMPTY)
    await accept(queue, run)
    await accept(queue, run, undo=True)
    _, record = await judge_run(queue, shop, EMPTY)
    assert [finding.field for finding in record.findings] == ["price"]


async def test_a_suspicious_run_stays_so_when_its_dead_letters_are_dropped_and_others_follow(
    queue, shop, monkeypatch
):
    strict = shop.replace(expect="price filled >= 50%")
    run, record = await judge_run(queue, strict, EMPTY, errors=["ValueError: no price"])
    assert record.verdict.outcome is RunOutcome.SUSPICIOUS
    await queue.drop(run.id)
    monkeypatch.setattr(records, "MAX_BYTES", 1)
    await good_runs(queue, shop, 1)
    snapshot = await snapshot_of(queue, run, await queue.stats(run.id))
    assert snapshot.stats.dropped == 1 and snapshot.outcome is RunOutcome.SUSPICIOUS

    run, record = await judge_run(queue, shop, errors=["ValueError: no price"])
    assert record.verdict.outcome is RunOutcome.PARTIAL
    await queue.drop(run.id)
    assert (await snapshot_of(queue, run, await queue.stats(run.id))).outcome is RunOutcome.COMPLETE


async def test_a_run_that_went_on_since_it_was_judged_is_not_accepted(queue, shop):
    run, _ = await judge_run(queue, shop)
    await queue.enqueue(run.id, [Task(payload={"n": 100})])
    with pytest.raises(RunConflict, match="gone on since"):
        await accept(queue, run)


async def test_small_runs_of_development_are_no_baseline_for_fields(queue, shop):
    await good_runs(queue, shop, items=[{"name": "Lamp", "price": 1.0}] * 7)
    _, record = await judge_run(queue, shop)
    assert {finding.kind for finding in record.findings} == {"volume"}


async def test_runs_with_other_seeds_or_arguments_are_not_compared_and_a_record_says_with_which(queue, shop):
    for _ in range(3):
        await judge_run(queue, shop, seeds="all")
    for other in ({"seeds": "one page"}, {"seeds": "all", "args": {"category": "chairs"}}):
        _, record = await judge_run(queue, shop, EMPTY, **other)
        assert record.findings == [] and record.compared_with == []
    run, record = await judge_run(queue, shop, EMPTY, seeds="all")
    assert len(record.findings) == 1 and len(record.compared_with) == 3
    snapshot = await snapshot_of(queue, run, await queue.stats(run.id))
    assert snapshot.row().compared_with == record.compared_with


async def test_a_run_that_was_stopped_or_cut_has_no_volume_and_a_smaller_whole_one_has(queue, shop):
    for _ in range(3):
        await judge_run(queue, shop)
    _, record = await judge_run(queue, shop, GOOD[:15], left=1, timed_out=True)
    assert record.findings == []
    run = await fill(queue, GOOD[:15], left=1)
    await queue.finish(run.id, "max_pages=1 reached")
    assert (await judged(queue, run.id, shop, print)).findings == []
    for _ in range(3):
        run = await fill(queue, left=1)
        await queue.finish(run.id, "max_pages=1 reached")
        await judged(queue, run.id, shop, print)
    records_now = [one for one in await read_records(queue, "shop") if one.profile.cut.startswith("max")]
    assert differences_of_volume(records_now, items=0) == ["volume"]


async def test_a_time_limit_of_one_process_does_not_end_a_run_on_which_others_work(queue, shop):
    run = await fill(queue, left=1)
    await queue.beat("elsewhere-1-abc", run_id=run.id, state="running", info={})
    assert await judged(queue, run.id, shop, print, timed_out=True) is None


async def test_retention_keeps_the_numbers_and_a_purge_nothing(queue, shop):
    await good_runs(queue, shop, 4)
    newest, *_ = await queue.runs()
    await purge_old(queue, RetentionRule(keep=1))
    assert [run.id for run in await queue.runs()] == [newest.id]
    records = await read_records(queue, "shop")
    assert len(records) == 4 and records[-1].profile.steps["main"].fields["price"].filled == 40
    texts = [msgspec.json.encode(record) for record in records]
    assert b"Lamp" in texts[0] and not any(b"Lamp" in text for text in texts[1:])
    _, record = await judge_run(queue, shop, EMPTY)
    assert [finding.field for finding in record.findings] == ["price"]
    await purge(queue, newest.id)
    assert await read_record(queue, newest) is None


async def test_a_comparison_says_what_the_judgement_said_also_of_a_deleted_run(queue, shop):
    euros = [dict(item, currency="EUR") for item in GOOD]
    await good_runs(queue, shop, items=[dict(item, currency="GBP") for item in GOOD])
    run, record = await judge_run(queue, shop, euros)
    ((finding, since),) = [(one.kind, one.since) for one in record.findings]
    first = record.compared_with[-1]
    await purge(queue, since, keeps_numbers=True)
    for before in (since, first):
        report = await judgement.compare_runs(queue, before, run)
        assert [row.field for row in report.rows if row.change] == ["currency"] and finding == "values"
    alone = compare(await profile_of(queue, await queue.run(first)), record.profile)
    assert [row.field for row in alone.rows if row.change] == ["currency"]
    with pytest.raises(UnknownRun):
        await judgement.compare_runs(queue, "nothing", run)
    with pytest.raises(InvalidInput, match="Name an earlier one"):
        await judgement.compare_runs(queue, run.id, run)


async def test_two_runs_are_compared_side_by_side(queue, shop):
    before, _ = await judge_run(queue, shop)
    after = await fill(queue, EMPTY, left=1)  # not judged: its items so far
    report = compare(await profile_of(queue, before), await profile_of(queue, after))
    (price,) = [row for row in report.rows if row.field == "price"]
    assert (price.before, price.after) == ("100.0% filled, number, 10 to 49, median 29.5", "0.0% filled")
    assert price.change == "price: filled in 0% of the items, usually 100%"
    (step,) = [row for row in report.rows if row.field is None]
    assert (step.before, step.change) == ("40 items of 1 page", None)


async def test_rejected_items_are_counted(queue, shop):
    _, record = await judge_run(queue, shop, rejects=[Reject(data={"n": 1}, reason="n: too large")] * 10)
    assert record.profile.share("rejects") == pytest.approx(0.2)
    strict = shop.replace(expect="rejects <= 10%")
    _, record = await judge_run(queue, strict, rejects=[Reject(data={"n": 1}, reason="n: too large")] * 10)
    assert record.verdict.reason == "expected 'rejects <= 10%': 20.0% of them"
