"""Which runs share cached pages."""

import pytest

from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers.credentials import realm_of


def realm(run_id="r", **tokens):
    settings = ScraperSettings.read(tokens={"hosts": "api.test", **tokens})
    return realm_of(settings, run_id)


def test_runs_with_the_same_tokens_share_pages_and_others_do_not(tmp_path, monkeypatch):
    file = tmp_path / "tokens.txt"
    for place, give in (
        ("env:MINE", lambda text: monkeypatch.setenv("MINE", text)),
        (f"file:{file}", file.write_text),
    ):
        give("of-alice")
        alice = realm(**{"from": place})
        assert realm("another", **{"from": place}) == alice
        give("of-bob")
        assert realm(**{"from": place}) != alice


def test_tokens_from_a_function_are_for_one_run():
    given = {"from": lambda: ["x"]}
    assert realm("a", **given) == realm("a", **given) != realm("b", **given)


@pytest.mark.parametrize("token", ["of-alice", "of-bob"])
def test_a_realm_contains_no_token(token):
    assert token not in realm(**{"from": [token]})
