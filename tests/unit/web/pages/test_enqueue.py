"""Adding URLs to a run from its page."""

import html

import pytest

from tests.unit.web.tokens import OPERATOR, READER

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def operator(dashboard):
    async with dashboard.client(OPERATOR) as client:
        yield client


async def test_urls_are_added_once_and_the_page_of_the_run_says_how_many(dashboard, operator):
    run = await dashboard.make_run()
    assert f'href="/runs/{run.id}/enqueue"' in (await operator.get(f"/runs/{run.id}")).text
    page = html.unescape((await operator.get(f"/runs/{run.id}/enqueue")).text)
    assert f">shoal enqueue books --run {run.id} --url" in page
    before = (await dashboard.queue.stats(run.id)).tasks
    urls = "https://new.example/1\n\n https://new.example/2 \nhttps://new.example/1\n"
    done = await operator.post(f"/runs/{run.id}/enqueue", data={"urls": urls})
    after = f"/runs/{run.id}?done=added&count=2&duplicate=1&known=0"
    assert done.status_code == 303 and done.headers["location"] == after
    told = "Tasks added: 2. Already in the run: 1. Queued by earlier runs: 0."
    assert told in (await operator.get(after)).text
    assert (await dashboard.queue.stats(run.id)).tasks == before + 2
    assert "enqueue" in (await operator.get("/actions")).text


async def test_lines_that_cannot_be_queued_are_shown_again_with_the_reason(dashboard, operator):
    run = await dashboard.make_run()
    urls = "https://new.example/1\nhttps://new.example/1\nno <b>url</b>\n"
    shown = await operator.post(f"/runs/{run.id}/enqueue", data={"urls": urls})
    assert shown.status_code == 422 and "<b>url" not in shown.text
    text = html.unescape(shown.text)
    assert "1 task added, 1 already in the run, 0 queued by earlier runs. Not added: 1 line." in text
    assert "<li>no <b>url</b>: " in text
    assert "https://new.example/1" not in text.partition("<textarea")[2].partition("</textarea>")[0]


async def test_a_line_that_is_too_long_and_too_many_lines_are_shown_again(dashboard, operator):
    run = await dashboard.make_run()
    long = f"https://new.example/{'x' * 9_000}"
    shown = await operator.post(f"/runs/{run.id}/enqueue", data={"urls": f"https://new.example/1\n{long}"})
    assert shown.status_code == 422 and "1 task added" in shown.text and "Not added: 1 line." in shown.text
    many = b"urls=" + b"a\n" * 500_001
    shown = await operator.post(f"/runs/{run.id}/enqueue", content=many, headers=FORM)
    assert shown.status_code == 422 and "urls: List should have at most 500000 items" in shown.text


@pytest.mark.parametrize("urls", ["", " \n"])
async def test_nothing_typed_is_refused(dashboard, operator, urls):
    run = await dashboard.make_run()
    shown = await operator.post(f"/runs/{run.id}/enqueue", data={"urls": urls})
    assert shown.status_code == 422 and "Type at least one URL" in shown.text


async def test_a_reader_adds_nothing(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client(READER) as reader:
        assert "Add URLs" not in (await reader.get(f"/runs/{run.id}")).text
        assert (
            await reader.post(f"/runs/{run.id}/enqueue", data={"urls": "https://a.example/"})
        ).status_code == 403
