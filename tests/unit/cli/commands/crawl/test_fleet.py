"""What `shoal fleet` reads as a confirmation."""

import io
from types import SimpleNamespace

import pytest

from shoal.cli.commands.crawl import fleet


@pytest.mark.parametrize(
    ("reply", "starts"), [("y\n", True), ("\n", True), ("", True), ("n\n", False), ("stop\n", False)]
)
def test_a_reply_counts_also_where_stdin_is_no_terminal(reply, starts, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO(reply))
    monkeypatch.setattr(fleet, "next_steps", lambda job, lineup: "Start:  …")
    assert fleet.confirm_start(None, SimpleNamespace(parts=[1, 2])) is starts
    said = capsys.readouterr()
    assert "Start 2 workers? [Y/n]: " in said.err and said.out == ""
    assert ("Nothing was started" in said.err) is not starts
