"""Values as people write them."""

from datetime import timedelta

import pytest

from shoal.discover.values import hint, read_priority, read_ttl


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (30, 30),
        (0.5, 0.5),
        ("30", 30),
        ("30s", 30),
        ("1h30m", 5400),
        ("1.5h", 5400),
        (" 2 d ", 172_800),
        (timedelta(1), 86_400),
    ],
)
def test_a_time_to_live_is_read(value, seconds):
    assert read_ttl(value).total_seconds() == seconds


@pytest.mark.parametrize(
    "value",
    [0, -1, True, None, "", "soon", "5x", "1h30", "h", "1e9", float("nan"), 1e30, "-5s", [], "\uff19m"],
)
def test_what_is_no_time_to_live_is_refused(value):
    with pytest.raises(ValueError, match="ttl must be a length of time such as '30m'"):
        read_ttl(value)


@pytest.mark.parametrize(("value", "priority"), [(0, 0), (9, 9), ("5", 5), (" 7 ", 7)])
def test_a_priority_is_read(value, priority):
    assert read_priority(value) == priority


@pytest.mark.parametrize("value", [-1, 10, "10", "12", "", " ", "-1", 5.0, True, None, "high"])
def test_what_is_no_priority_is_refused(value):
    with pytest.raises(ValueError, match="priority must be 0 to 9"):
        read_priority(value)


def test_a_hint_names_what_is_near_or_what_there_is():
    assert hint("stat", ["state", "city"]) == "Did you mean 'state'?"
    assert hint("zzz", ["state", "city"]) == "Known are 'state', 'city'."
    assert hint("zzz", [f"a{number}" for number in range(50)]).endswith("'a19', ….")
