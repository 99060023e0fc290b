"""Slowed hosts, as two workers know of them through their queue."""

from datetime import timedelta

from shoal.core.model import SECOND
from shoal.queue.open import open_queue
from shoal.worker.complaints import TOPIC, Complaints
from shoal.worker.manners import Manners

HOST = "shop.example"


async def test_who_never_heard_the_complaint_lets_the_host_recover_for_all(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        slowing, helping = Manners(SECOND / 10), Manners(SECOND / 10)
        one, other = Complaints(queue, slowing), Complaints(queue, helping)
        slowing.slowed(HOST, SECOND, now=0.0)
        await one.exchange()
        await other.exchange()
        assert helping.delay(HOST, 100.0) == SECOND
        while helping.succeeded(HOST):
            pass
        await other.exchange()
        await one.exchange()
        assert slowing.succeeded(HOST) is None
        assert await queue.notes(TOPIC) == {}


async def test_a_note_that_cannot_be_read_is_passed_over(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        manners = Manners(SECOND)
        await queue.write_notes(TOPIC, {HOST: b"soon", "other.example": b"2.5", "last.example": b"1e999"})
        await Complaints(queue, manners).exchange()
        assert manners.delay("other.example", 0.0) == timedelta(seconds=2.5)
        assert manners.delay(HOST, 0.0) == manners.delay("last.example", 0.0) == SECOND
