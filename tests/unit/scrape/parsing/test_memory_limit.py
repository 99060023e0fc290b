"""The kernel's limit on the memory of one call: it stops that call, and nobody else meets it."""

import threading
from functools import partial
from resource import RLIMIT_DATA, getrlimit

import pytest

from shoal.scrape.parsing import GrowthLimit, can_limit_memory

MB = 1 << 20
TOO_MUCH = 2_000 * MB  # more than the allocator can have in reserve; never written to, so it takes no memory

pytestmark = pytest.mark.skipif(not can_limit_memory(), reason="needs a kernel that limits memory")


def test_a_call_that_takes_too_much_is_stopped():
    limit = GrowthLimit(64 * MB)
    assert len(limit.call(partial(bytes, 8 * MB))) == 8 * MB
    with pytest.raises(MemoryError):
        limit.call(partial(bytes, TOO_MUCH))
    assert len(bytes(TOO_MUCH)) == TOO_MUCH


@pytest.mark.parametrize("size", [MB, TOO_MUCH])
def test_the_limit_is_as_before_after_the_call(size):
    before = getrlimit(RLIMIT_DATA)
    try:
        GrowthLimit(64 * MB).call(partial(bytes, size))
    except MemoryError:
        assert size == TOO_MUCH
    assert getrlimit(RLIMIT_DATA) == before


def test_no_other_thread_meets_the_limit():
    before, seen, ended = getrlimit(RLIMIT_DATA), set(), threading.Event()

    def look():
        while not ended.is_set():
            seen.add(getrlimit(RLIMIT_DATA))

    looking = threading.Thread(target=look)
    looking.start()
    limit = GrowthLimit(64 * MB)
    for _ in range(300):
        limit.call(partial(bytes, 4 * MB))
    ended.set()
    looking.join()
    assert seen == {before}
