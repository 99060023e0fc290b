"""Values as the pages show them."""

import pytest

from shoal.web.views.format import MEGABYTE, megabytes


@pytest.mark.parametrize(
    ("megs", "shown"), [(0, "0 MB"), (0.3, "0.3 MB"), (9.94, "9.9 MB"), (9.96, "10 MB"), (1234, "1,234 MB")]
)
def test_a_small_size_is_not_shown_as_none(megs, shown):
    assert megabytes(int(megs * MEGABYTE)) == shown
