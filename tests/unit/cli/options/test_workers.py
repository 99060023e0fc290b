"""The worker options: one definition for every command that starts workers."""

import pytest

from shoal.cli.options.workers import takes_worker_options
from tests.unit.cli.options.test_sources import options_of

WORKERS = {"--concurrency", "--memory", "--set", "--allow-private", "--log-dir"}
PARTITIONS = {"--steps", "--partitions"}
FETCH_SETTINGS = {"--proxies", "--tor", "--fetch", "--tokens"}


@pytest.mark.parametrize(
    ("command", "has", "lacks"),
    [
        ("run", WORKERS | PARTITIONS | FETCH_SETTINGS | {"--workers", "--metrics"}, set()),
        ("work", WORKERS | PARTITIONS | FETCH_SETTINGS | {"--workers", "--metrics"}, set()),
        ("fleet", WORKERS | PARTITIONS | FETCH_SETTINGS | {"--workers", "--metrics"}, set()),
        (
            "enqueue",
            FETCH_SETTINGS | {"--set", "--allow-private"},
            PARTITIONS | {"--workers", "--log-dir", "--metrics"},
        ),
        ("listen", WORKERS | FETCH_SETTINGS | {"--workers", "--metrics"}, PARTITIONS),
        ("scale", WORKERS | PARTITIONS, FETCH_SETTINGS | {"--workers", "--metrics"}),
        ("start", PARTITIONS | {"--workers", "--metrics", "--log-dir"}, FETCH_SETTINGS | {"--set"}),
    ],
)
def test_each_command_takes_what_it_can_use(command, has, lacks):
    found = options_of(command)
    assert has <= found
    assert not lacks & found


def test_a_command_may_leave_options_out_and_change_a_default():
    taken = {}

    @takes_worker_options(without=("steps",), log_dir="logs")
    def command(scraper: str, *, worker_options: object) -> None:
        """Do nothing."""
        taken.update(scraper=scraper, worker_options=worker_options)

    command(scraper="books", workers=3)
    assert taken["worker_options"].workers == 3
    fields = taken["worker_options"].fields()
    assert "steps" not in fields and fields["partitions"] is None
    assert fields["logs"].folder.name == "logs"
