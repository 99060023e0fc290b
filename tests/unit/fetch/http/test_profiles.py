"""Browser profiles by name."""

import pytest
import wreq

from shoal.core.errors import InvalidSetting
from shoal.fetch.http.profiles import known_profiles, profile_of
from shoal.scrape.settings.sessions import BROWSERS


@pytest.mark.parametrize("name", BROWSERS)
def test_a_name_alone_is_the_newest_of_its_kind(name):
    versions = [full.removeprefix(name) for full in known_profiles() if full.startswith(name)]
    newest = max(versions, key=lambda version: [int(part) for part in version.split(".")])
    assert profile_of(name) == known_profiles()[f"{name}{newest}"]


def test_versions_are_compared_as_numbers():
    assert profile_of("safari26.4") == wreq.Profile.Safari26_4
    assert profile_of("safari") not in (wreq.Profile.Safari18_5, wreq.Profile.Safari26)
    assert profile_of("chrome") != wreq.Profile.Chrome100


def test_an_unknown_version_says_what_is_known():
    with pytest.raises(InvalidSetting, match="is not a known browser: 'chrome1'"):
        profile_of("chrome1")
