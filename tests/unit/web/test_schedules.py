"""Schedules in the API and on their page."""

from datetime import timedelta

import pytest

from shoal.core.run_outcome import RunOutcome, Verdict
from shoal.fleet.schedule.plan import ended
from tests.unit.web.tokens import OPERATOR, READER

NIGHTLY = {"scraper": "books", "cron": "0 2 * * *", "timezone": "Europe/Berlin"}


@pytest.fixture
async def operator(dashboard):
    await dashboard.app.schedules.add("nightly", NIGHTLY)
    async with dashboard.client(OPERATOR) as client:
        yield client


async def test_the_api_lists_schedules_with_their_next_occurrence_and_table(operator):
    (row,) = (await operator.get("/api/schedules")).json()["rows"]
    assert row["name"] == "nightly" and row["table"] == NIGHTLY and row["state"] == "active"
    assert row["next_at"].endswith(("00:00:00+00:00", "01:00:00+00:00"))
    assert (await operator.get("/api/schedules/nightly")).json() == row


async def test_each_verb_changes_the_schedule_and_is_in_the_audit_log(dashboard, operator):
    for verb, state in (("pause", "paused"), ("resume", "active"), ("run-now", "active")):
        assert (await operator.post(f"/api/schedules/nightly/{verb}")).json()["state"] == state
    assert [one.is_manual for one in (await dashboard.app.schedules.get("nightly")).open] == [True]
    actions = [row["action"] for row in (await operator.get("/api/actions")).json()["rows"]]
    assert actions == ["run now schedule", "resume schedule", "pause schedule"]


async def test_an_interval_replaces_the_cron_expression(operator):
    row = (await operator.patch("/api/schedules/nightly", json={"every": "6h"})).json()
    assert row["table"] == {"scraper": "books", "every": "6h"}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("nightly", {"cron": "61 * * * *"}, 422, "bad minute"),
        ("nightly", {"settings": {"tokens": "x"}}, 422, "cannot be set through the API"),
        ("nightly", {"out": "/etc/passwd"}, 422, "out"),
        ("nightly", {"scraper": "/tmp/evil.py"}, 422, "scraper"),
        ("nothing", {"every": "1h"}, 404, "No schedule is called"),
    ],
)
async def test_what_is_wrong_or_not_for_the_web_is_refused(dashboard, operator, path, body, status, said):
    response = await operator.patch(f"/api/schedules/{path}", json=body)
    assert response.status_code == status and said in response.text
    assert (await dashboard.app.schedules.get("nightly")).table == NIGHTLY


async def test_nobody_sees_arguments_and_addresses_that_may_be_secret(dashboard, operator):
    table = {
        **NIGHTLY,
        "args": {"api_token": "s3cret-1", "kind": "new"},
        "seeds": {"url": ["https://a.example/?api_key=s3cret-2&page=2"]},
    }
    await dashboard.app.schedules.add("secret", table)
    text = (await operator.get("/api/schedules/secret")).text + (await operator.get("/schedules")).text
    assert "s3cret" not in text and '"kind":"new"' in text and "page=2" in text


async def test_a_reader_sees_schedules_and_changes_none(dashboard, operator):
    async with dashboard.client(READER) as reader:
        assert "nightly" in (await reader.get("/schedules")).text
        assert "Run now" not in (await reader.get("/schedules")).text
        assert (await reader.post("/api/schedules/nightly/run-now")).status_code == 403
    assert not (await dashboard.app.schedules.get("nightly")).open


async def test_the_page_shows_outcomes_as_a_strip_and_escapes_their_reasons(dashboard, operator):
    schedules = dashboard.app.schedules
    record = await schedules.run_now("nightly")
    now = await dashboard.queue.now()
    verdict = Verdict(outcome=RunOutcome.FAILED, reason="<script>alert(1)</script>")
    await schedules.update("nightly", ended(record.open[0].run_id, verdict, now))
    text = (await operator.get("/schedules")).text
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert 'class="strip">' in text and ": &lt;script&gt;" in text


async def test_the_forms_of_the_page_steer_and_edit(dashboard, operator):
    headers = {"origin": str(operator.base_url)}
    for fields in (
        {"action": "pause"},
        {"action": "resume"},
        {"action": "edit", "every": "2h", "overlap": "wait"},
    ):
        response = await operator.post("/schedules", data={"name": "nightly", **fields}, headers=headers)
        assert response.status_code == 303
    assert (await operator.post("/schedules", data={"name": "nightly"}, headers=headers)).status_code == 422
    schedule = (await dashboard.app.schedules.get("nightly")).schedule
    assert (schedule.every, schedule.overlap, schedule.cron) == ("2h", "wait", None)
    assert schedule.next_after(await dashboard.queue.now()) - await dashboard.queue.now() <= timedelta(
        hours=2
    )
