"""The pages of dead letters are kept: bounded, compressed, without secrets."""

from datetime import timedelta

import pytest

from shoal.core.http import Headers, Response
from shoal.core.model import Lease, Task
from shoal.core.secrets import begin_secrets
from shoal.queue.contract import Queue
from shoal.worker.failures.pages import (
    MAX_KEPT_BYTES,
    MAX_PER_KIND,
    TOPIC,
    FailedPageStore,
    read_failed_page,
)
from tests.unit.builders import make_lease

DAY = timedelta(days=1)


def lease(number: int = 1) -> Lease:
    task = Task(url=f"https://example.com/{number}")
    return make_lease(task, task_id=f"{number:032x}")


def response(body: bytes, **headers: str) -> Response:
    fields = Headers([("content-type", "text/html"), *headers.items()])
    return Response(url="https://example.com/end", status=200, headers=fields, body=body)


async def keep(queue: Queue, page: Response, **more: object) -> None:
    store = FailedPageStore(queue, "r", DAY, **more)  # type: ignore[arg-type]
    await store.keep(lease(), "KeyError", page)
    await store.close()


async def test_a_page_is_kept_with_its_status_and_headers(queue: Queue) -> None:
    await keep(queue, response(b"<h1>One</h1>"))
    found = await read_failed_page(queue, "r", lease().task_id)
    assert found is not None
    assert (found.url, found.status, found.body) == ("https://example.com/end", 200, b"<h1>One</h1>")
    assert found.response.headers["Content-Type"] == "text/html"
    assert (found.status, found.size, found.is_cut) == (200, 12, False)
    assert await read_failed_page(queue, "r", lease(2).task_id) is None
    assert await read_failed_page(queue, "another", lease().task_id) is None


async def test_secrets_are_not_kept(queue: Queue) -> None:
    begin_secrets().sent({"Authorization": "Bearer abcdefgh12345678"})
    body = "größe hunter2hunter2 abcdefgh12345678 €".encode()
    await keep(queue, response(body, **{"set-cookie": "sid=0123456789"}), secrets=["hunter2hunter2"])
    found = await read_failed_page(queue, "r", lease().task_id)
    assert found is not None
    assert found.body.decode() == "größe … … €"
    assert "set-cookie" not in found.response.headers


async def test_of_a_large_page_the_first_part_is_kept(queue: Queue) -> None:
    await keep(queue, response(b"x" * (3 * MAX_KEPT_BYTES)))
    found = await read_failed_page(queue, "r", lease().task_id)
    assert found is not None
    assert found.is_cut
    assert found.size == 3 * MAX_KEPT_BYTES
    assert found.body == b"x" * MAX_KEPT_BYTES


async def test_of_each_error_class_a_few_pages_are_kept(queue: Queue) -> None:
    store = FailedPageStore(queue, "r", DAY)
    for number in range(2 * MAX_PER_KIND):
        await store.keep(lease(number), "KeyError", response(b"x"))
    await store.keep(lease(1_000), "ValueError", response(b"x"))
    await store.close()
    assert len(await queue.notes(TOPIC)) == MAX_PER_KIND + 1


@pytest.mark.parametrize("value", [b"", b"not msgpack", b"\x91\x02"])
async def test_a_foreign_note_is_no_page(queue: Queue, value: bytes) -> None:
    await queue.write_notes(TOPIC, {f"r {lease().task_id}": value})
    assert await read_failed_page(queue, "r", lease().task_id) is None
