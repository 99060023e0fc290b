"""Types commands in this process, as `main` runs them: errors become messages and exit codes."""

import logging
import os
import shlex
import sys
from contextvars import copy_context
from unittest.mock import patch

from click.testing import CliRunner

from shoal.cli.configuration import _Command
from shoal.cli.main import main
from shoal.fleet.command_hints import set_configured_queue


class _Main:
    """What the test runner of click calls."""

    name = "shoal"

    def main(self, args, **_):
        with patch.object(sys, "argv", ["shoal", *args]):
            main()


def typed(*words, answer=None):
    """Type a command and wait for it to end."""
    handlers, environment = logging.getLogger("shoal").handlers[:], dict(os.environ)
    config, path = _Command.config, list(sys.path)
    try:
        done = copy_context().run(CliRunner().invoke, _Main(), [*map(str, words)], input=answer)
    finally:
        logging.getLogger("shoal").handlers[:] = handlers
        sys.path[:] = path  # a prompt puts the current folder there
        os.environ.clear()
        os.environ.update(environment)
        _Command.config = config
        set_configured_queue(config.queue if config else None)
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def paste(command, answer=None):
    """Type a command that a message shows, as a shell would read it."""
    first, *words = shlex.split(command)
    assert first == "shoal", command
    return typed(*map(os.path.expandvars, words), answer=answer)
