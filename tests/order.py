"""The order in which the workers of `-n` run the tests."""

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import pytest

# Folders and files whose tests run in one worker: each would start a network of eleven programs, fill a
# database with 125,000 tasks, or start a RabbitMQ of its own.
TOGETHER = {
    *("tor", "test_claim_cost.py", "test_tls.py"),
    *("test_alarms.py", "test_restarts.py", "test_rabbitmq.py"),
}
SLOW = 120  # seconds that a test may take if it says nothing; those that say more begin first


def sort_for_workers(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in equal parts for the workers, each with its slow tests in front.

    `--dist worksteal` gives each worker one part; one that has no more takes the second half of another's.
    Files are mixed, so that at any time some workers compute and others wait.
    """
    slow, together, rest = [], [], []
    for item in sorted(items, key=lambda item: crc32(item.nodeid.partition("::")[0].encode())):
        limit = item.get_closest_marker("timeout")
        if TOGETHER & {item.path.parent.name, item.path.name}:
            together.append(item)
        elif limit and limit.args[0] > SLOW:
            slow.append(item)
        else:
            rest.append(item)
    rest = together + rest
    borders = [len(rest) * number // workers for number in range(workers + 1)]
    parts = [rest[first:last] for first, last in pairwise(borders)]
    return [item for number, part in enumerate(parts) for item in (*slow[number::workers], *part)]
