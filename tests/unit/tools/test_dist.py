"""The packages hold what they should, and a fault in one is found."""

from zipfile import ZipFile

from tools.dist import build, faults


def test_the_packages_are_complete_and_hold_nothing_else(tmp_path):
    wheel, sdist = build(tmp_path / "dist")
    assert faults(wheel, sdist) == []
    with ZipFile(wheel, "a") as archive:
        archive.writestr("tests/test_more.py", "")
    assert faults(wheel, sdist) == ["the wheel has tests/test_more.py, which is not of the package"]
