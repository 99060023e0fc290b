"""The options about workers: one definition for every command that starts some."""

import pytest

from shoal.cli.crew import takes_crew
from tests.unit.cli.test_sources import options_of

WORKERS = {"--at-once", "--memory", "--set", "--allow-private", "--log-dir"}
PARTITIONS = {"--steps", "--partitions"}
MANNERS = {"--proxies", "--tor", "--fetch", "--tokens"}


@pytest.mark.parametrize(
    ("command", "has", "lacks"),
    [
        ("run", WORKERS | PARTITIONS | MANNERS | {"--workers", "--metrics"}, set()),
        ("work", WORKERS | PARTITIONS | MANNERS | {"--workers", "--metrics"}, set()),
        ("fleet", WORKERS | PARTITIONS | MANNERS | {"--workers", "--metrics"}, set()),
        (
            "enqueue",
            MANNERS | {"--set", "--allow-private"},
            PARTITIONS | {"--workers", "--log-dir", "--metrics"},
        ),
        ("listen", WORKERS | MANNERS | {"--workers", "--metrics"}, PARTITIONS),
        ("scale", WORKERS | PARTITIONS, MANNERS | {"--workers", "--metrics"}),
        ("start", PARTITIONS | {"--workers", "--metrics", "--log-dir"}, MANNERS | {"--set"}),
    ],
)
def test_each_command_takes_what_it_can_use(command, has, lacks):
    found = options_of(command)
    assert has <= found
    assert not lacks & found


def test_a_command_may_leave_options_out_and_change_a_default():
    taken = {}

    @takes_crew(without=("steps",), log_dir="logs")
    def command(scraper: str, *, crew: object) -> None:
        """Do nothing."""
        taken.update(scraper=scraper, crew=crew)

    command(scraper="books", workers=3)
    assert taken["crew"].workers == 3
    fields = taken["crew"].fields()
    assert "steps" not in fields and fields["partitions"] is None
    assert fields["logs"].folder.name == "logs"
