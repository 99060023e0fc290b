"""A claim in parts, whose later part fails; what Redis and the broker reply is given by the test."""

import struct

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.model import MINUTE
from shoal.queue.rabbitmq.claim import RabbitClaim
from shoal.queue.rabbitmq.state import ScriptReply
from shoal.queue.redis.records import ClaimHead, Element, Fields, LeaseGroup, pack
from shoal.queue.requests import ClaimRequest

NOW = 1_000_000
REQUEST = ClaimRequest("worker-1", "run", 10, MINUTE)


def reply(*numbers):
    head = ClaimHead(-1, False, True, -1, 10, 0, 0, [(1, "main\0")], NOW)
    groups = [group(numbers)] if numbers else []
    return ScriptReply([pack(head), groups], [0, 0, -1, 0, 1])  # it lacks bundles of route 0


def group(numbers):
    """Return leases that differ in their tasks only, as the script returns them."""
    shared = pack(LeaseGroup(1, 1, 0, NOW, NOW + 60, "a.example", []))
    beginning = shared[:-1] + struct.pack(">BI", 0xDD, len(numbers))  # in place of the empty array
    return [beginning, *(pack(element(number))[1:] for number in numbers)]


def element(number):
    url = Fields(0, 0, 0, f"https://a.example/{number}", None, None)
    return Element(bytes([number]), 0, 0, url, None)


def claim_with(*replies):
    """Return a claim whose script replies so, and raises the replies that are errors."""
    left = list(replies)

    async def run_script(*_):
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async def receive(*_):
        return 1

    async def nothing(*_):
        return None

    return RabbitClaim(REQUEST, run_script, receive, nothing, nothing)


AWAY = QueueUnavailable("redis", "it is away")


async def test_what_was_leased_before_redis_went_away_is_given():
    grant = await claim_with(reply(1, 2), AWAY).grant()
    assert [one.task.url for one in grant.leases] == ["https://a.example/1", "https://a.example/2"]
    assert not grant.drained


async def test_without_a_lease_the_claim_fails():
    with pytest.raises(QueueUnavailable):
        await claim_with(reply(), AWAY).grant()
