"""A run whose tasks are all at private hosts is stopped, and none of them is buried."""

import pytest

from shoal.core.errors import InvalidInput, QueueError
from shoal.core.model import (
    ZERO,
    Bury,
    Counts,
    Done,
    Note,
    Release,
    Retry,
    Stats,
    Task,
)
from shoal.worker.fetchers.private_refusals import PrivateRefusals
from tests.unit.builders import make_host, make_lease

HOST = "10.0.0.1"


class Store:
    """A queue with some tasks at a private host, and some elsewhere."""

    def __init__(self, private=2, others=0):
        self.private, self.others = private, others
        self.written = {}

    async def stats(self, run_id):
        return Stats(pending=self.private + self.others)

    async def notes(self, topic, keys=None):
        return {key: Note(value=value, stamp=1, age=ZERO) for key, value in self.written.items()}

    async def write_notes(self, topic, values, ttl=None):
        self.written.update(values)

    async def hosts(self, run_id):
        yield make_host(HOST, counts=Counts(pending=self.private))


def lease(task_id="t", token=1, url=f"http://{HOST}/"):
    task = Task(url=url)
    return make_lease(task, task_id=task_id, token=token)


@pytest.mark.parametrize("before", [Release(lease()), Retry(lease(), "DnsFailed: not now")], ids=repr)
async def test_a_task_that_returned_to_the_queue_before_lets_no_refused_one_be_buried(before):
    refusals = PrivateRefusals(Store(), "r")
    assert not refusals.hold(before)
    refusals.add(lease(token=2), HOST)
    assert refusals.hold(Bury(lease(token=2), "PrivateAddress: private"))
    with pytest.raises(InvalidInput, match="All tasks that are left are at private hosts"):
        await refusals.take_due(is_idle=True)
    assert refusals._queue.written == {"r": b'["10.0.0.1"]'}  # for the commands that start workers


async def test_a_refused_task_is_buried_if_others_were_fetched():
    refusals = PrivateRefusals(Store(others=1), "r")
    refusals.add(lease(), HOST)
    refused = Bury(lease(), "PrivateAddress: private", asked=False)
    assert refusals.hold(refused)
    assert not refusals.hold(Done(lease("other", url="https://example.com/")))
    assert await refusals.take_due(is_idle=False) == [refused]


async def test_refused_tasks_are_held_back_while_the_queue_cannot_tell_of_the_others():
    class Away(Store):
        async def hosts(self, run_id):
            raise QueueError("away")
            yield

    refusals = PrivateRefusals(Away(), "r")
    refusals.add(lease(), HOST)
    assert refusals.hold(Bury(lease(), "PrivateAddress: private", asked=False))
    assert await refusals.take_due(is_idle=True) == []
    refusals._queue = Store()
    with pytest.raises(InvalidInput, match="private hosts"):
        await refusals.take_due(is_idle=True)


async def test_the_message_allows_every_host_that_it_names():
    class TwoHosts(Store):
        async def hosts(self, run_id):
            for host in (HOST, "10.0.0.2"):
                yield make_host(host, counts=Counts(pending=1))

    refusals = PrivateRefusals(TwoHosts(), "r")
    for number, host in enumerate((HOST, "10.0.0.2")):
        refused = lease(task_id=f"t{number}", url=f"http://{host}/")
        refusals.add(refused, host)
        assert refusals.hold(Bury(refused, "PrivateAddress: private"))
    with pytest.raises(InvalidInput, match=r"with: --allow-private 10\.0\.0\.1 --allow-private 10\.0\.0\.2$"):
        await refusals.take_due(is_idle=True)
