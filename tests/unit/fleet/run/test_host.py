import pytest

from shoal.core.errors import QueueUnavailable
from shoal.fleet.run.host import checked_store
from shoal.queue.contract import Evictions


class Store:
    """Replies with one value after the other, and raises those that are errors."""

    def __init__(self, *replies):
        self._replies = list(replies)

    async def evictions(self):
        reply = self._replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def evicted(count):
    return Evictions("The server evicts keys.", count)


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ((None, None), []),
        ((evicted(7), evicted(7)), ["may lose tasks"]),
        ((evicted(7), evicted(8)), ["may lose tasks", "1 key of the queue's server was evicted"]),
        ((None, evicted(3)), ["3 keys of the queue's server were evicted"]),  # changed during the run
        ((evicted(9), evicted(2)), ["may lose tasks"]),  # restarted during the run
        ((evicted(7), QueueUnavailable("redis://a", "gone")), ["may lose tasks"]),
    ],
)
async def test_what_the_store_has_deleted_is_reported_at_the_end(replies, says):
    said = []
    async with checked_store(Store(*replies), said.append):
        pass
    assert len(said) == len(says) and all(part in line for part, line in zip(says, said, strict=True))
