"""The warning about the browser before it starts."""

import os

import pytest

from shoal.worker.fetchers.browser import sandbox_notice


@pytest.mark.parametrize(
    ("user", "wanted", "is_warned"),
    [(0, {"browser"}, True), (0, {"auto", None}, True), (0, {"http"}, False), (1000, {"browser"}, False)],
)
def test_the_operator_is_warned_of_a_browser_without_its_sandbox(monkeypatch, user, wanted, is_warned):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("without its sandbox" in (sandbox_notice(wanted) or "")) is is_warned
