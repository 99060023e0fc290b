"""`shoal dead edit` and `shoal purge` as a person types them."""

import asyncio

import msgspec
import pytest
from typer.testing import CliRunner

from shoal.cli.commands.manage.dead_edit import changes_in
from shoal.cli.exits import Exit
from shoal.cli.registry import app_for
from shoal.core.errors import InvalidInput
from shoal.core.model import Bury, Task
from shoal.core.request_options import RequestOptions
from shoal.queue.open import open_queue

RUN = "old"


TRACEBACK = '  File "books.py", line 3, in page\nHttpStatus: 404'


@pytest.fixture
def queue_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url = f"sqlite:///{tmp_path}/shoal.db"
    monkeypatch.setenv("SHOAL_QUEUE", url)
    asyncio.run(_bury_two(url))
    return url


async def _bury_two(url):
    async with open_queue(url) as queue:
        await queue.start_run("books", run_id=RUN)
        request = RequestOptions(headers={"authorization": "s3cret"})
        tasks = [
            Task(url="http://old.example/1", step="page", payload={"a": 1}, request=request),
            Task(url="http://two.example/2", step="page", key="two"),
        ]
        await queue.enqueue(RUN, tasks)
        leases = (await queue.claim("w", run_id=RUN)).leases
        await queue.settle([Bury(lease, "HttpStatus: 404", traceback=TRACEBACK) for lease in leases])


def letters(url):
    async def read():
        async with open_queue(url) as queue:
            return {letter.task.url: letter async for letter in queue.dead(RUN)}

    return asyncio.run(read())


def typed(*words, answer=None):
    found = CliRunner().invoke(app_for(words[0]), list(words), input=answer, catch_exceptions=True)
    if found.exception and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found


def test_one_letter_is_changed_by_options_and_the_next_command_is_said(queue_url):
    letter = letters(queue_url)["http://old.example/1"]
    done = typed(
        *("dead", "edit", RUN, letter.id, "--url", "https://NEW.example/1", "--priority", "5"),
        *(
            "--set-payload",
            'b=["x"]',
            "--set-payload",
            "c=text",
            "--set-payload",
            "d=none",
            "--header",
            "Accept: a:b",
            "--header",
            "authorization:",
        ),
    )
    assert done.exit_code == Exit.OK
    edited = letters(queue_url)["https://new.example/1"]
    assert edited.task.payload == {"a": 1, "b": ["x"], "c": "text", "d": "none"}
    assert (edited.task.priority, dict(edited.task.request.headers)) == (5, {"accept": "a:b"})
    assert f"shoal dead replay {RUN} {edited.id}" in done.stderr
    assert "s3cret" not in done.output


def test_many_are_shown_first_and_changed_after_a_yes(queue_url):
    words = ("dead", "edit", RUN, "--error", "404", "--url-replace", "http://old.", "https://new.")
    shown = typed(*words, "--dry-run")
    assert "url http://old.example/1 → https://new.example/1" in shown.stderr
    assert "Would edit 1 dead letter." in shown.stderr
    assert "1 left unchanged" in shown.stderr
    assert typed(*words, answer="n\n").exit_code != Exit.OK
    assert "http://old.example/1" in letters(queue_url)
    done = typed(*words, answer="y\n")
    assert "Edit 1 dead letter?" in done.stderr
    assert "https://new.example/1" in letters(queue_url)


def test_json_has_the_counts_and_a_duplicate_is_exit_code_three(queue_url):
    letter = letters(queue_url)["http://old.example/1"]
    typed("dead", "edit", RUN, letter.id, "--url", "http://two.example/3")
    other = letters(queue_url)["http://two.example/3"]
    asyncio.run(_add(queue_url, Task(url="http://two.example/4", step="page")))
    done = typed("dead", "edit", RUN, other.id, "--url", "http://two.example/4", "--json")
    found = msgspec.json.decode(done.stdout)
    assert (done.exit_code, found["edited"], found["duplicate"]) == (Exit.PARTIAL, 0, 1)
    assert "already has" in found["reasons"][0]


async def _add(url, task):
    async with open_queue(url) as queue:
        await queue.enqueue(RUN, [task])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--url", "http://x.example"), "name its ID"),
        ((), "Nothing to change"),
        (("--set-payload", "a"), "NAME=VALUE"),
        (("--header", "s3cret"), "'NAME: VALUE'"),
        (("--step", "pgae"), "Did you mean 'page'"),
    ],
)
def test_what_cannot_be_done_is_said_with_what_to_type(queue_url, words, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        typed("dead", "edit", RUN, *words, "--yes")
    assert "s3cret" not in str(caught.value)


def test_a_scraper_file_names_the_steps(queue_url, tmp_path):
    (tmp_path / "books.py").write_text(
        "from shoal import Scraper\nbooks = Scraper('books')\n@books.step\n"
        "async def fresh(page):\n    yield {}\n"
    )
    done = typed("dead", "edit", RUN, "--step", "fresh", "--scraper", "books.py", "--yes")
    assert "Edited 2 dead letters." in done.stderr


def test_the_editor_gets_json_without_secrets_and_its_changes_are_applied(queue_url, tmp_path, monkeypatch):
    letter = letters(queue_url)["http://old.example/1"]
    script = tmp_path / "editor.sh"
    script.write_text(
        f'#!/bin/sh\ncp "$1" {tmp_path}/seen.json\n'
        'sed -i "s#http://old#https://new#; s#\\"a\\": 1#\\"a\\": 7#" "$1"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(script))
    done = typed("dead", "edit", RUN, letter.id)
    assert "Edited 1 dead letter." in done.stderr
    seen = msgspec.json.decode((tmp_path / "seen.json").read_text())
    assert seen["headers"] == {"authorization": "***"}
    edited = letters(queue_url)["https://new.example/1"].task
    assert (edited.payload, edited.request) == ({"a": 7}, None)  # the secret stays with its host
    assert "headers authorization" in done.stderr


def test_the_method_and_the_body_are_changed_and_the_traceback_stays(queue_url):
    letter = letters(queue_url)["http://old.example/1"]
    assert letter.traceback == TRACEBACK
    done = typed(
        "dead", "edit", RUN, letter.id, "--body", '{"q": 1}', "--header", "Content-Type: application/json"
    )
    assert "method GET → POST" in done.stderr and "body" in done.stderr and '"q"' not in done.stderr
    edited = letters(queue_url)["http://old.example/1"]
    assert (edited.task.request.post, edited.task.request.method) == (b'{"q": 1}', "POST")
    assert edited.task.request.headers == {"authorization": "s3cret", "content-type": "application/json"}
    assert edited.traceback == TRACEBACK
    typed("dead", "edit", RUN, edited.id, "--method", "put")
    edited = letters(queue_url)["http://old.example/1"]
    assert (edited.task.request.post, edited.task.request.method) == (b'{"q": 1}', "PUT")
    typed("dead", "edit", RUN, edited.id, "--method", "GET")
    assert letters(queue_url)["http://old.example/1"].task.request.post is None
    with pytest.raises(InvalidInput, match="GET sends no form"):
        typed("dead", "edit", RUN, letter.id, "--method", "GET", "--body", "x")
    with pytest.raises(InvalidInput, match="method must be one of"):
        typed("dead", "edit", RUN, letter.id, "--method", "FETCH")


BEFORE = {"url": "http://a", "step": "x", "priority": 0, "payload": {}, "headers": {"a": "***", "b": "***"}}


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        ({}, {}),
        ({"url": "http://b"}, {"url": "http://b"}),
        ({"headers": {"a": "1", "c": "2"}}, {"headers": {"a": "1", "b": None, "c": "2"}}),
    ],
)
def test_only_what_was_changed_in_the_editor_is_changed(changed, given):
    assert changes_in(BEFORE, msgspec.json.encode(BEFORE | changed).decode()) == given


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "{", '{"urll": 1}', '{"priority": "1"}', '{"headers": {"a": 1}}'),
        '{"url": null, "priority": 1}',
    ],
)
def test_a_wrong_document_is_refused(text):
    with pytest.raises(InvalidInput):
        changes_in(BEFORE, text)


def test_lists_show_key_and_payload(queue_url):
    listed = typed("dead", "list", RUN)
    assert "two" in listed.stdout and '{"a":1}' in listed.stdout
    rows = [msgspec.json.decode(line) for line in typed("dead", "list", RUN, "--json").stdout.splitlines()]
    assert {(row["key"], str(row["payload"])) for row in rows} == {(None, "{'a': 1}"), ("two", "{}")}


def test_old_runs_are_shown_and_deleted_after_a_yes(queue_url):
    asyncio.run(_cancelled_runs(queue_url, "b1", "b2", "b3"))
    shown = typed("purge", "--keep", "1", "--dry-run")
    assert "Would delete 2 runs with 0 tasks, 0 items, 0 dead letters." in shown.stderr
    assert typed("purge", "--keep", "1", answer="n\n").exit_code != Exit.OK
    done = typed("purge", "--keep", "1", "--yes", "--json")
    found = msgspec.json.decode(done.stdout)
    assert (found["purged"], {row["run_id"] for row in found["runs"]}) == (2, {"b1", "b2"})
    assert "No run was deleted." in typed("purge", "--older", "30d", "--yes").stderr


async def _cancelled_runs(url, *ids):
    async with open_queue(url) as queue:
        for run_id in ids:
            await queue.start_run("shops", run_id=run_id)
            await queue.cancel(run_id)


def test_a_run_and_a_rule_cannot_be_combined_and_one_is_required(queue_url):
    with pytest.raises(InvalidInput, match="not both"):
        typed("purge", RUN, "--older", "3d")
    with pytest.raises(InvalidInput, match="--older 30d"):
        typed("purge", "--yes")


def test_the_status_says_how_large_the_store_is(queue_url):
    assert "Store: 0." in typed("status", RUN).stdout
    assert msgspec.json.decode(typed("status", RUN, "--json").stdout)["store"]["bytes"] > 4096
