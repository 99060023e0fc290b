"""What users import, type, configure and read is as it is stored: a change of it is a decision."""

from tests.unit.surface.listing import STORED, lines


def test_the_public_surface_is_the_stored_one():
    stored, now = set(STORED.read_text().splitlines()), set(lines())
    assert {"gone": sorted(stored - now), "new": sorted(now - stored)} == {"gone": [], "new": []}, (
        "store a change that is meant: python -m tests.unit.surface.listing"
    )
