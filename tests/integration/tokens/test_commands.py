"""Tokens from the command line: given by a variable or a file, watched by name, and never shown."""

import json
import os
import signal

import pytest

from tests.integration.engine.shell import start, typed
from tests.integration.tokens.limited import LimitedApi

GOOD, BAD = "s3cret-good-token", "s3cret-bad-token"
SCRAPER = """
from shoal import Page, Scraper

api = Scraper("api", rate=None, robots=False)


@api.step
async def page(page: Page):
    yield {"url": page.url}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "api.py").write_text(SCRAPER)
    return tmp_path


def urls_file(folder, api, count):
    (folder / "urls.txt").write_text("".join(f"{api.url}/{number}\n" for number in range(count)))
    return "--urls-file", "urls.txt", "--allow-private", "127.0.0.0/8"


@pytest.mark.long
async def test_a_revoked_token_is_retired_and_reported_and_nothing_is_lost(folder):
    # It takes its time, so that several pages are asked for before the first refusal is known.
    async with LimitedApi([GOOD, BAD], limit=1_000, window=3600, revoked={BAD}, after=0.1) as api:
        where = urls_file(folder, api, 60)
        tokens = f"env:API_TOKENS hosts={api.url}"
        run = await typed(
            *("run", "api.py", *where, "--tokens", tokens, "--workers", 2, "--json"),
            *("--log-dir", "logs", "--log-level", "debug"),
            folder=folder,
            API_TOKENS=f"{GOOD},{BAD}",
        )
        tried_in_vain = sum(one.token == BAD for one in api.asked)
    assert run.code == 0, run.err
    assert (run.row["completed"], run.row["dead"]) == (60, 0)
    assert 2 <= tried_in_vain < 40  # those that were under way when the second refusal came

    listed = await typed("tokens", "--json", folder=folder)
    states = {row["state"]: row for row in listed.rows}
    assert set(states) == {"ready", "retired"}
    assert states["retired"]["why"] == "status 401 from two pages in a row"
    assert states["ready"]["left"] == 1_000 - 60 and states["ready"]["limit"] == 1_000
    assert states["ready"]["reserved"] == 0

    table = await typed("tokens", run.row["run_id"], folder=folder)
    status = await typed("status", folder=folder)
    assert "retired" in table.out and "--forget retired" in table.err
    assert "1 API token retired" in status.out
    assert "was retired" in "".join(file.read_text() for file in (folder / "logs").rglob("*.log"))

    shown = [run.out, run.err, listed.out, table.out, table.err, status.out, status.err]
    kept = [file.read_bytes() for file in folder.rglob("*") if file.is_file()]
    assert not any("s3cret" in text for text in shown)
    assert not any(b"s3cret" in data for data in kept)

    forgotten = await typed("tokens", "--forget", "retired", folder=folder)
    assert "Cleared 1 token." in forgotten.err
    assert len((await typed("tokens", "--json", folder=folder)).rows) == 1


async def test_two_runs_of_a_queue_share_what_is_left(folder):
    async with LimitedApi([GOOD], limit=50, window=3600) as api:
        where = urls_file(folder, api, 20)
        (folder / "tokens.txt").write_text(f"{GOOD}\n")
        for _ in range(2):
            run = await typed(
                *("run", "api.py", *where, "--tokens", f"tokens.txt hosts={api.url}", "--json"), folder=folder
            )
            assert run.row["completed"] == 20
        (row,) = (await typed("tokens", "--json", folder=folder)).rows
    assert row["left"] == 10 and len(row["runs"]) == 2


async def test_a_query_parameter_carries_the_token_and_no_item_or_dead_letter_does(folder):
    async with LimitedApi([GOOD], limit=50, window=3600) as api:
        where = urls_file(folder, api, 10)
        tokens = json.dumps({"from": "env:KEYS", "hosts": [api.url], "query": "key"})
        run = await typed(
            *("run", "api.py", *where, "--set", f"tokens={tokens}", "--json", "--out", "items.jsonl"),
            folder=folder,
            KEYS=GOOD,
        )
        assert all(one.token == GOOD for one in api.asked)
    assert run.row["completed"] == 10
    assert "s3cret" not in (folder / "items.jsonl").read_text()
    assert not any(b"s3cret" in file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_when_every_token_is_refused_the_run_says_so_and_waits(folder):
    async with LimitedApi([BAD], revoked={BAD}) as api:
        where = urls_file(folder, api, 30)
        (folder / "tokens.txt").write_text(BAD)
        process = await start(
            "run", "api.py", *where, "--tokens", f"tokens.txt hosts={api.url}", folder=folder
        )
        try:
            heard = ""
            while "No token is left" not in heard:
                line = await process.stderr.readline()
                assert line, heard
                heard += line.decode()
            assert "tokens.txt" in heard and "s3cret" not in heard
            status = (await typed("status", "--json", folder=folder)).row
            assert status["dead"] == 0 and status["remaining"] == 30
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def test_what_is_wrong_with_tokens_is_said_and_ends_the_command(folder):
    tokens = "env:NOT_THERE hosts=api.test"
    run = await typed("run", "api.py", "--url", "https://api.test/", "--tokens", tokens, folder=folder)
    assert run.code != 0
    assert "NOT_THERE holds no token" in run.err
