"""Log levels and their names."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.events import Level, level_name, read_level


def test_a_level_is_read_in_any_case():
    assert [read_level("--log-level", name) for name in ("debug", "Info", "WARNING")] == [10, 20, 30]


def test_an_unknown_level_is_rejected_with_the_nearest():
    with pytest.raises(InvalidSetting, match="Did you mean 'warning'"):
        read_level("--log-level", "warnin")


def test_every_number_has_the_name_of_the_level_it_reaches():
    assert [level_name(number) for number in (5, 10, 25, 30, 50)] == [
        "debug",
        "debug",
        "info",
        "warning",
        "error",
    ]
    assert level_name(Level.ERROR) == "error"
