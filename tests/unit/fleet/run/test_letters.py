"""What an edit of dead letters changes, refuses and says."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from shoal.core.errors import InvalidInput, InvalidTask, RunConflict, UnknownLetter, UnknownScraper
from shoal.core.http import Response
from shoal.core.model import ZERO, Bury, DeadFilter, Lease, RunSettings, Task
from shoal.core.request_options import RequestOptions
from shoal.fleet.handle import RunHandle
from shoal.fleet.run.letters import LetterChange, check_step, edit_letter, edit_letters
from shoal.worker.failures.pages import FailedPageStore, read_failed_page

TASK = Task(
    url="http://old.example/a",
    step="page",
    payload={"a": 1, "b": 2},
    request=RequestOptions(post=b"x", headers={"Authorization": "Bearer abc", "accept": "*"}),
)


WITHOUT_SECRET = RequestOptions(post=b"x", headers={"accept": "*"})
WITH_NEW_SECRET = RequestOptions(post=b"x", headers={"accept": "*", "authorization": "new"})


async def bury(queue, *tasks):
    run = await queue.start_run("books", settings=RunSettings(host_delay=ZERO))
    await queue.enqueue(run.id, tasks)
    while leases := (await queue.claim("w", run_id=run.id, limit=100)).leases:
        await queue.settle([Bury(lease, "HttpStatus: 404") for lease in leases])
    return run


def pages(count, host="old.example"):
    return [Task(url=f"http://{host}:{8000 + number}/{number}", step="page") for number in range(count)]


@pytest.mark.parametrize(
    ("change", "changed"),
    [
        ({"url": "https://new.example/"}, {"url": "https://new.example/", "request": WITHOUT_SECRET}),
        (
            {"url_replace": ("http://old.", "https://new."), "headers": {"authorization": "new"}},
            {"url": "https://new.example/a", "request": WITH_NEW_SECRET},
        ),
        ({"url": "http://old.example:81/a"}, {"url": "http://old.example:81/a", "request": WITHOUT_SECRET}),
        ({"url": "https://old.example/b"}, {"url": "https://old.example/b"}),
        ({"url_replace": ("http://other", "x")}, {}),
        ({"step": "book"}, {"step": "book"}),
        ({"priority": 0}, {}),
        ({"payload": {"c": 3}}, {"payload": {"c": 3}}),
        ({"set_payload": {"b": None}}, {"payload": {"a": 1, "b": None}}),
        (
            {"headers": {"AUTHORIZATION": "new", "X-A": "1"}},
            {
                "request": RequestOptions(
                    post=b"x", headers={"accept": "*", "authorization": "new", "x-a": "1"}
                )
            },
        ),
        (
            {"headers": {"authorization": None}},
            {"request": RequestOptions(post=b"x", headers={"accept": "*"})},
        ),
    ],
)
def test_a_change_sets_what_is_given_and_keeps_the_rest(change, changed):
    assert LetterChange(**change).apply(TASK) == replace(TASK, **changed)


def test_a_secret_header_of_a_task_does_not_leave_https():
    change = LetterChange(url_replace=("https:", "http:"))
    secure = replace(TASK, url="https://old.example/a")
    assert change.apply(secure) == replace(TASK, request=WITHOUT_SECRET)
    assert change.apply(replace(secure, request=RequestOptions(headers={"Cookie": "a=b"}))).request is None


def test_a_get_without_headers_needs_no_request_options():
    task = replace(TASK, request=RequestOptions(headers={"a": "1"}))
    assert LetterChange(headers={"A": None}).apply(task).request is None


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"set_payload": {}},
        {"url": "x", "url_replace": ("a", "b")},
        {"url_replace": ("", "b")},
        {"headers": {"a b": "1"}},
        {"headers": {"a": "1\r\nb: 2"}},
    ],
)
def test_a_change_that_changes_nothing_or_cannot_be_sent_is_refused(wrong):
    with pytest.raises(InvalidInput):
        LetterChange(**wrong)


async def test_letters_that_match_are_edited_and_the_others_are_counted(queue):
    taken = Task(url="https://new.example:8001/1", step="page")
    run = await bury(queue, *pages(3), taken, Task(url="http://else.example/", step="page"))
    change = LetterChange(url_replace=("http://old.", "https://new."))
    foreseen = await edit_letters(queue, run.id, change, by="ann", dry_run=True)
    report = await edit_letters(queue, run.id, change, by="ann")
    assert foreseen == report
    assert (report.edited, report.duplicate, report.unchanged) == (2, 1, 2)
    assert "already has the task" in report.reasons[0]
    assert report.differences[0].change.startswith("edited: url http://old.example")
    urls = {letter.task.url async for letter in queue.dead(run.id)}
    assert urls >= {"https://new.example:8000/0", "http://old.example:8001/1", "https://new.example:8002/2"}


async def test_what_would_be_invalid_is_counted_with_the_reason_and_nothing_else_is_lost(queue):
    run = await bury(queue, *pages(2))
    report = await edit_letters(queue, run.id, LetterChange(url_replace=(":8000/", ":99999/")), by="ann")
    assert (report.edited, report.invalid, report.unchanged) == (0, 1, 1)
    assert report.reasons


async def test_ids_that_are_no_letters_are_counted(queue):
    run = await bury(queue, *pages(1))
    report = await edit_letters(queue, run.id, LetterChange(priority=3), ids=["0" * 32, "1" * 32], by="ann")
    assert (report.edited, report.changed) == (0, 2)


async def test_the_history_names_the_fields_and_no_secret(queue):
    run = await bury(queue, TASK)
    (letter,) = [one async for one in queue.dead(run.id)]
    change = LetterChange(
        url="https://new.example/?token=s3cret",
        headers={"authorization": "Bearer s3cret"},
        set_payload={"password": "s3cret"},
        priority=4,
    )
    edited = await edit_letter(queue, run.id, letter.id, change, by="ann\x1b[0m")
    entry = edited.history[-1]
    assert (entry.attempt, entry.worker_id) == (0, "ann\ufffd[0m")
    assert "s3cret" not in entry.error
    for word in ("url http://old.example/a →", "priority 0 → 4", "payload password", "authorization"):
        assert word in entry.error


async def test_one_letter_is_returned_with_its_new_id_or_the_reason_is_raised(queue):
    run = await bury(queue, *pages(2))
    one, two = [letter async for letter in queue.dead(run.id)]
    with pytest.raises(InvalidTask):
        await edit_letter(queue, run.id, one.id, LetterChange(url="nonsense"), by="ann")
    with pytest.raises(RunConflict, match=f"shoal dead drop {run.id} {one.id}"):
        await edit_letter(queue, run.id, one.id, LetterChange(url=two.task.url), by="ann")
    edited = await edit_letter(queue, run.id, one.id, LetterChange(step="book"), by="ann")
    assert (edited.task.step, edited.id != one.id) == ("book", True)
    with pytest.raises(UnknownLetter):
        await edit_letter(queue, run.id, one.id, LetterChange(step="x"), by="ann")
    assert await edit_letter(queue, run.id, edited.id, LetterChange(step="book"), by="ann") == edited


async def test_a_step_must_be_one_that_the_scraper_or_else_the_run_has(queue):
    run = await bury(queue, *pages(1))

    def unknown(run):
        raise UnknownScraper(run.scraper, [])

    await check_step(queue, run, None, unknown)
    await check_step(queue, run, "page", unknown)
    with pytest.raises(InvalidInput, match=r"Did you mean 'page'.*--scraper FILE"):
        await check_step(queue, run, "pgae", unknown)


async def test_a_program_edits_and_replays(queue):
    run = RunHandle(queue, await bury(queue, *pages(2)))
    with pytest.raises(InvalidInput, match="Did you mean 'step'"):
        await run.edit_dead(steps="page")
    report = await run.edit_dead(where=DeadFilter(host="old.example:8000"), priority=9)
    assert report.edited == 1
    assert await run.replay([report.differences[0].new_id]) == 1
    assert (await queue.claim("w", run_id=run.id)).leases[0].task.priority == 9


async def test_the_page_of_a_letter_stays_with_it_when_it_is_edited(queue):
    run = await bury(queue, *pages(2))
    letters = [letter async for letter in queue.dead(run.id)]
    store = FailedPageStore(queue, run.id, timedelta(days=1))
    for letter in letters:
        times = {"start_in": ZERO, "deadline_in": ZERO}
        lease = Lease(run_id=run.id, task_id=letter.id, token=1, task=letter.task, attempt=1, **times)
        await store.keep(lease, "ValueError", Response(url=letter.task.url, status=200, body=b"kept"))
    await store.close()
    report = await edit_letters(
        queue, run.id, LetterChange(url_replace=("http://old.", "https://new.")), by="me"
    )
    assert report.edited == 2
    for one in report.differences:
        assert (await read_failed_page(queue, run.id, one.new_id)).body == b"kept"
        assert await read_failed_page(queue, run.id, one.id) is None
    new = report.differences[0].new_id
    edited = await edit_letter(queue, run.id, new, LetterChange(step="other"), by="me")
    assert (await read_failed_page(queue, run.id, edited.id)).body == b"kept"
