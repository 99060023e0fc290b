"""How often a message is tried while its receiver is away, by a clock that the test moves."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from shoal.core.notifications import Notification
from shoal.fleet.notify import incidents
from shoal.fleet.notify.incidents import Incidents

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MESSAGE = Notification(id="evt_1", event="failed", state="open", title="a run failed", at=NOON)


async def attempts(found, until):
    """Return when a message was tried that its receiver never takes, second by second."""
    now, tried = NOON, []
    while now < until:
        if message := await found.claim("key", "team", now):
            tried.append(now)
            await found.settle("key", "team", message, "status 503", now)
        one = (await found.all())["key"]
        if not one.left("team", now):
            break
        delivery = one.deliveries["team"]
        now = max(now + timedelta(seconds=1), delivery.next_at or now)
    return tried


async def test_a_receiver_that_is_away_for_an_hour_is_tried_often_at_first_and_then_every_ten_minutes(queue):
    found = Incidents(queue)
    await found.open("key", MESSAGE, ["team"])
    tried = await attempts(found, NOON + timedelta(hours=1))
    assert len(tried) == 12
    assert tried[1] - tried[0] == timedelta(seconds=5)
    assert tried[-1] - tried[-2] == timedelta(minutes=10)
    back = NOON + timedelta(hours=1, minutes=10)
    message = await found.claim("key", "team", back)
    assert message == MESSAGE
    await found.settle("key", "team", message, "", back)
    assert not (await found.all())["key"].left("team", back)


async def test_after_some_time_it_is_given_up(queue, monkeypatch):
    monkeypatch.setattr(incidents, "GIVE_UP_AFTER", DAY / 4)
    found = Incidents(queue)
    await found.open("key", MESSAGE, ["team"])
    tried = await attempts(found, NOON + timedelta(days=9))
    assert DAY / 4 - timedelta(minutes=10) <= tried[-1] - NOON <= DAY / 4
    assert await found.claim("key", "team", NOON + timedelta(days=9)) is None
    await found.close("key", lambda begin: replace(begin, at=NOON + timedelta(days=9)))
    assert await found.claim("key", "team", NOON + timedelta(days=9)) is None  # of what it never heard
    later = replace(MESSAGE, id="evt_2", at=NOON + timedelta(days=9))
    await found.open("key", later, ["team"])
    assert await found.claim("key", "team", later.at) == later
