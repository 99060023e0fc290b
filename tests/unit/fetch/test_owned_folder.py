"""A folder for Tor or a browser: private, and removed when its owner is gone."""

import os
import stat
import tempfile

import pytest

from shoal.fetch.owned_folder import OwnedFolder, sweep

PREFIX = "shoal-tor-"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def deserted(place, name="shoal-tor-dead"):
    folder = place / name
    folder.mkdir()
    (folder / "data").mkdir()
    return folder


def test_only_its_owner_may_look_into_it():
    folder = OwnedFolder(PREFIX)
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.remove()


def test_it_is_gone_when_it_is_removed(place):
    folder = OwnedFolder(PREFIX)
    (folder.path / "state").write_text("x")
    folder.remove()
    assert list(place.iterdir()) == []
    folder.remove()


def test_a_new_one_sweeps_away_those_whose_owners_are_gone_and_no_others(place):
    dead, stranger = deserted(place), place / "shoal-other"
    stranger.mkdir()
    first = OwnedFolder(PREFIX)
    second = OwnedFolder(PREFIX)
    assert not dead.exists() and stranger.exists()
    assert first.path.exists() and second.path.exists()
    for folder in (first, second):
        folder.remove()


def test_a_link_is_not_followed(place):
    elsewhere = deserted(place, "elsewhere")
    (place / "shoal-tor-link").symlink_to(elsewhere)
    sweep(PREFIX)
    assert (elsewhere / "data").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_what_belongs_to_another_user_is_left_alone(place):
    other = deserted(place)
    os.chown(other, 12345, 12345)
    sweep(PREFIX)
    assert other.exists()
