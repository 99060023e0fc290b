"""What the operator is told of the browser before it starts."""

import os

import pytest

from shoal.worker.rendering import sandbox_notice


@pytest.mark.parametrize(
    ("user", "wanted", "is_told"),
    [(0, {"browser"}, True), (0, {"auto", None}, True), (0, {"http"}, False), (1000, {"browser"}, False)],
)
def test_a_browser_without_its_sandbox_is_spoken_of(monkeypatch, user, wanted, is_told):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("without its sandbox" in (sandbox_notice(wanted) or "")) is is_told
