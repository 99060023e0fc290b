"""The types of arguments and results: those that the driver knows without asking the server."""

from shoal.core.model import Done, Retry, Task
from tests.conformance.helpers import claim, page, start


async def test_no_connection_looks_up_the_types_of_work(queue, monkeypatch):
    """A lookup takes the server longer than ten claims."""
    looked_up = []

    async def introspect(connection, typeoids, timeout):
        looked_up.append(typeoids)
        return await original(connection, typeoids, timeout)

    connection_class = queue._server._connections._connection_class
    original = connection_class._introspect_types
    monkeypatch.setattr(connection_class, "_introspect_types", introspect)
    run = await start(queue, page(1), page(2), Task(url="https://other.example/"))
    done, unused, again = await claim(queue, run)
    await queue.extend([done, unused])
    follow = [page(3), page(4)]
    await queue.settle(
        [Done(done, items=[{"n": 1}], follow=follow), Done(unused, asked=False), Retry(again, "slow")]
    )
    assert await claim(queue, run)
    assert looked_up == []
