import asyncio
import sys

import pytest

from shoal.fetch.egress import Egress
from shoal.fetch.http.client_thread import THREAD_NAME, ClientThread
from shoal.fetch.http.wreq import WreqFetcher


@pytest.fixture
def threads(tmp_path, monkeypatch):
    """Create a thread in a directory like /proc/self/task."""
    monkeypatch.setattr("shoal.fetch.http.client_thread.TASKS", tmp_path)

    def create(number, name, waited_ns):
        (tmp_path / str(number)).mkdir(exist_ok=True)
        (tmp_path / str(number) / "comm").write_text(f"{name}\n")
        (tmp_path / str(number) / "schedstat").write_text(f"123 {waited_ns} 45\n")

    return create


def test_only_the_threads_of_the_client_count(threads):
    threads(1, "python", 9_000_000_000)
    threads(2, THREAD_NAME, 1_500_000_000)
    threads(3, THREAD_NAME, 250_000_000)
    client = ClientThread()
    assert client.waited() == 1.75
    threads(2, THREAD_NAME, 2_500_000_000)
    assert client.waited() == 2.75


def test_a_thread_that_starts_later_is_found_and_is_not_searched_for_at_every_request(threads, monkeypatch):
    client = ClientThread()
    assert client.waited() == 0.0
    threads(2, THREAD_NAME, 1_000_000_000)
    assert client.waited() == 0.0
    monkeypatch.setattr(client, "_next_search", 0.0)
    assert client.waited() == 1.0


def test_where_nothing_is_known_no_thread_waits(threads, tmp_path):
    threads(2, THREAD_NAME, 1_000_000_000)
    (tmp_path / "2" / "schedstat").write_text("")
    assert ClientThread().waited() == 0.0
    (tmp_path / "2" / "schedstat").unlink()
    assert ClientThread().waited() == 0.0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
async def test_wreq_names_its_threads_so():
    fetcher = WreqFetcher(egress=Egress(), user_agent="shoal")
    client = ClientThread()
    async with asyncio.timeout(30):
        while not client.waited():  # a thread gives itself its name when it runs for the first time
            await asyncio.sleep(0.01)
    await fetcher.close()
