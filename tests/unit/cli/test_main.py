"""What the command prints itself."""

import logging

import pytest

from shoal.cli.main import _StderrHandler


@pytest.mark.parametrize("argv", [["shoal"], ["shoal", "--json"]])
def test_a_warning_that_cannot_be_printed_fails_nothing(monkeypatch, argv):
    class Broken:
        def isatty(self):
            return False

        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            pass

    monkeypatch.setattr("sys.stderr", Broken())
    monkeypatch.setattr("sys.argv", argv)
    _StderrHandler().handle(logging.makeLogRecord({"msg": "a warning"}))
