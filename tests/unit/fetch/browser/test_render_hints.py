"""What is learned about sites that need a browser."""

from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import Note
from shoal.fetch.browser.auto import HINT_TTL, READ_INTERVAL_SECONDS, TOPIC, RenderHints, shape


class Notes:
    """The notes of a fleet."""

    def __init__(self):
        self.kept, self.reads, self.broken = {}, 0, False

    async def notes(self, topic, keys=None):
        self.reads += 1
        if self.broken:
            raise QueueUnavailable("there", "away")
        return {
            key: Note(value=value, stamp=1, age=timedelta(hours=1))
            for (of, key), value in self.kept.items()
            if of == topic
        }

    async def write_notes(self, topic, values, *, ttl=None):
        if self.broken:
            raise QueueUnavailable("there", "away")
        self.kept.update({(topic, key): value for key, value in values.items()})

    async def trim_notes(self, topic, *, max_bytes):
        return 0


class Clock:
    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://shop.test/", "shop.test/"),
        ("https://shop.test/p/red-lamp", "shop.test/p/*"),
        ("https://shop.test/p/12345", "shop.test/p/*"),
        ("https://shop.test/c/lamps/?page=2", "shop.test/c/lamps/*"),
        ("https://shop.test:8443/2024/05/a-title", "shop.test:8443/*/*/*"),
        ("https://shop.test/about", "shop.test/*"),
        ("https://shop.test", "shop.test/"),
    ],
)
def test_pages_of_one_kind_have_one_shape(url, kind):
    assert shape(url) == kind


def test_a_shape_is_short_whatever_the_url():
    assert len(shape("https://shop.test/" + "a/" * 5_000)) <= 400


async def test_what_one_worker_learns_all_know():
    queue, clock = Notes(), Clock()
    one, other = (RenderHints(queue, clock=clock) for _ in range(2))
    assert not await other.need_browser("shop.test/p/*")
    await one.learn("shop.test/p/*")
    assert await one.need_browser("shop.test/p/*")
    assert queue.kept == {(TOPIC, "shop.test/p/*"): b"1"}
    assert not await other.need_browser("shop.test/p/*")
    clock.now += READ_INTERVAL_SECONDS
    assert await other.need_browser("shop.test/p/*")
    assert not await other.need_browser("shop.test/c/*")


async def test_it_is_forgotten_after_a_while_so_that_a_site_may_change():
    queue, clock = Notes(), Clock()
    sites = RenderHints(queue, clock=clock)
    await sites.learn("shop.test/p/*")
    queue.kept.clear()  # as the queue does when the ttl is over
    clock.now += HINT_TTL.total_seconds() - 1
    assert await sites.need_browser("shop.test/p/*")
    clock.now += 2
    assert not await sites.need_browser("shop.test/p/*")


async def test_the_fleet_is_asked_now_and_then_and_need_not_answer():
    queue, clock = Notes(), Clock()
    sites = RenderHints(queue, clock=clock)
    for _ in range(100):
        await sites.need_browser("shop.test/p/*")
    assert queue.reads == 1
    queue.broken = True
    clock.now += READ_INTERVAL_SECONDS
    assert not await sites.need_browser("shop.test/p/*")
    await sites.learn("shop.test/p/*")
    assert await sites.need_browser("shop.test/p/*")
